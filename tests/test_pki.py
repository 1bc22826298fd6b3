"""The pki as its users see it: real TLS handshakes, real openssl, files that stay private."""

from __future__ import annotations

import base64
import datetime as dt
import socket
import ssl
import stat
import subprocess
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from orlop import pki, wellknown
from tools.devroot import PROJECT

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
HOST = ("login1", "login1.site.example", "10.1.2.3")
LEAVES = ("apiserver", "kubelet", "apiserver-kubelet-client", "admin")
AUTHORITIES = ("ca", "front-proxy-ca")
FRONT = ("front-proxy-client",)  # signed by an authority of its own


def certificate(folder: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())


def names_of(folder: Path, name: str) -> set[str]:
    extension = certificate(folder, name).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return {str(general.value) for general in extension.value}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_everything_is_made_and_readable_by_its_owner_alone(tmp_path):
    made = pki.ensure(tmp_path / "pki", HOST)
    files = list(made.folder.iterdir())
    assert {file.stem for file in files} == {"token", "sa", *LEAVES, *AUTHORITIES, *FRONT}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700
    assert len(made.token_key) == 32
    assert made.renewed == {"token", "sa", *LEAVES, *AUTHORITIES, *FRONT}


def test_a_second_call_changes_nothing(tmp_path):
    pki.ensure(tmp_path, HOST)
    before = contents(tmp_path)
    assert pki.ensure(tmp_path, HOST).renewed == frozenset()
    assert contents(tmp_path) == before


def test_the_key_of_service_accounts_is_kept_unless_it_is_no_key(tmp_path):
    key = pki.ensure(tmp_path, HOST).service_account_key
    assert pki.ensure(tmp_path, ("login2",)).service_account_key == key
    (tmp_path / "sa.key").write_text("garbage")
    again = pki.ensure(tmp_path, ("login2",))
    assert again.renewed == {"sa"}
    assert b"RSA PRIVATE KEY" in again.service_account_key != key


@pytest.mark.parametrize("name", ["apiserver", "kubelet"])
def test_servers_are_called_by_every_name_of_their_host_and_of_the_service(tmp_path, name):
    pki.ensure(tmp_path, HOST)
    expected = {*HOST, *pki.SERVICE_NAMES}
    assert expected <= names_of(tmp_path, name)
    is_kubelet = wellknown.AGENT_SERVER_NAME in names_of(tmp_path, name)
    assert is_kubelet == (name == "kubelet")


def test_a_new_name_of_the_host_renews_the_servers_only(tmp_path):
    pki.ensure(tmp_path, HOST)
    again = pki.ensure(tmp_path, ("login2",))
    assert again.renewed == {"apiserver", "kubelet"}
    assert "login2" in names_of(tmp_path, "apiserver")


def test_a_name_that_is_no_longer_ours_renews_nothing(tmp_path):
    pki.ensure(tmp_path, HOST)
    assert pki.ensure(tmp_path, HOST[:1]).renewed == frozenset()


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (0, set()),
        (200, set()),
        (300, {*LEAVES, *FRONT}),
        (400, {*LEAVES, *FRONT}),
        (2500, {*AUTHORITIES, *LEAVES, *FRONT}),
        (4000, {*AUTHORITIES, *LEAVES, *FRONT}),
    ],
    ids=["new", "good", "soon", "expired", "old authority", "expired authority"],
)
def test_what_expires_is_renewed_in_time(tmp_path, days, expected):
    pki.ensure(tmp_path, HOST, NOW)
    assert pki.ensure(tmp_path, HOST, NOW + dt.timedelta(days=days)).renewed == expected


def test_a_renewed_authority_keeps_its_key_so_that_old_certificates_stay_good(tmp_path):
    pki.ensure(tmp_path, HOST, NOW)
    old = certificate(tmp_path, "kubelet")
    key = (tmp_path / "ca.key").read_bytes()
    assert "ca" in pki.ensure(tmp_path, HOST, NOW + dt.timedelta(days=3000)).renewed
    assert (tmp_path / "ca.key").read_bytes() == key
    old.verify_directly_issued_by(certificate(tmp_path, "ca"))


@pytest.mark.parametrize(
    "broken",
    ["admin.key", "admin.crt", "apiserver.key"],
)
@pytest.mark.parametrize("how", ["missing", "empty", "garbage"])
def test_a_damaged_file_is_made_again(tmp_path, broken, how):
    pki.ensure(tmp_path, HOST)
    path = tmp_path / broken
    path.unlink() if how == "missing" else path.write_bytes(b"" if how == "empty" else b"\0\xff")
    assert pki.ensure(tmp_path, HOST).renewed == {path.stem}
    assert pki.ensure(tmp_path, HOST).renewed == frozenset()


def test_a_key_that_does_not_fit_its_certificate_is_replaced(tmp_path):
    pki.ensure(tmp_path, HOST)
    (tmp_path / "apiserver.key").write_bytes((tmp_path / "kubelet.key").read_bytes())
    assert pki.ensure(tmp_path, HOST).renewed == {"apiserver"}


def test_a_lost_authority_renews_all_that_it_had_signed(tmp_path):
    pki.ensure(tmp_path, HOST)
    token = (tmp_path / "token.key").read_bytes()
    (tmp_path / "ca.key").unlink()
    assert pki.ensure(tmp_path, HOST).renewed == {"ca", *LEAVES}
    assert (tmp_path / "token.key").read_bytes() == token


def test_the_admin_key_is_pkcs1_rsa_as_java_clients_demand(tmp_path):
    pki.ensure(tmp_path, HOST)
    assert (tmp_path / "admin.key").read_text().startswith("-----BEGIN RSA PRIVATE KEY-----")
    subject = certificate(tmp_path, "admin").subject
    organizations = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [name.value for name in organizations] == ["system:masters"]


def test_openssl_accepts_the_chain_strictly(tmp_path):
    pki.ensure(tmp_path, HOST)
    for name, purpose in (
        ("apiserver", "sslserver"),
        ("kubelet", "sslserver"),
        ("admin", "sslclient"),
    ):
        ca, leaf = tmp_path / "ca.crt", tmp_path / f"{name}.crt"
        check = subprocess.run(
            ["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", ca, leaf],
            capture_output=True,
            text=True,
            check=False,
        )
        assert check.returncode == 0, check.stderr


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> dict[str, object]:
    """The client's certificate as the server saw it after a TLS handshake; {} without one."""
    ours, theirs = socket.socketpair()
    seen: list[dict[str, object]] = []

    def serve() -> None:
        with server.wrap_socket(ours, server_side=True) as tls:
            seen.append(dict(tls.getpeercert() or {}))
            tls.send(b"x")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(theirs, server_hostname=name) as tls:
            tls.recv(1)
    finally:
        theirs.close()
        thread.join()
    return seen[0]


@pytest.mark.parametrize("name", ["login1", "127.0.0.1", "10.1.2.3", "kubernetes.default.svc"])
def test_a_client_with_the_admins_certificate_is_known_under_every_name(tmp_path, name):
    made = pki.ensure(tmp_path, HOST)
    server = made.server_context(made.apiserver)
    seen = handshake(server, made.client_context(made.admin), name)
    assert (("commonName", "kubernetes-admin"),) in seen["subject"]


def test_a_client_without_a_certificate_is_let_in_unknown(tmp_path):
    made = pki.ensure(tmp_path, HOST)
    assert (
        handshake(made.server_context(made.kubelet), made.client_context(), "orlop-kubelet") == {}
    )


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_client_of_another_cluster_trusts_us_not(tmp_path):
    ours, others = pki.ensure(tmp_path / "a", HOST), pki.ensure(tmp_path / "b", HOST)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(ours.server_context(ours.apiserver), others.client_context(), "login1")


def test_a_user_and_groups_can_be_issued_a_certificate(tmp_path):
    made = pki.ensure(tmp_path, HOST)
    crt, key = made.issue("alice", ["dev", "ops"])
    (tmp_path / "alice.crt").write_bytes(crt)
    (tmp_path / "alice.key").write_bytes(key)
    client = made.client_context(made.pair("alice"))
    seen = handshake(made.server_context(made.apiserver), client, "localhost")
    flat = [pair for relative in seen["subject"] for pair in relative]
    assert flat == [
        ("organizationName", "dev"),
        ("organizationName", "ops"),
        ("commonName", "alice"),
    ]


def test_issuing_without_an_authority_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="orlop up"):
        pki.Pki(tmp_path).issue("alice")


@pytest.mark.parametrize("path", sorted((PROJECT / "tests/fuzzing/found/csr").glob("*")))
@pytest.mark.parametrize("is_server", [False, True])
def test_what_is_almost_a_request_is_not_signed(tmp_path, path, is_server):
    authority = pki.ensure(tmp_path, ["localhost"])
    body = base64.encodebytes(path.read_bytes())
    lines = b"-----BEGIN CERTIFICATE REQUEST-----\n%s-----END CERTIFICATE REQUEST-----\n" % body
    with pytest.raises(ValueError, match="request"):
        authority.sign_request(lines, 600, is_server=is_server)
