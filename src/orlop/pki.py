"""Makes the cluster's own certificate authority, and every certificate that it signs.

`ensure` is called by whoever starts a control plane, and once a day while it runs: it makes what is
missing and renews what expires, lacks a name or was signed by another authority. Every file is
readable by its owner (0600).
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import secrets
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from . import wellknown
from .files import write_private

CA_LIFE = dt.timedelta(days=3650)
LEAF_LIFE = dt.timedelta(days=365)
# Clocks of login and compute nodes differ; a certificate must not be "not yet valid" on one.
BACKDATE = dt.timedelta(hours=1)

FRONT_PROXY = "front-proxy-client"
ADMIN_USER = "kubernetes-admin"
ADMIN_GROUP = "system:masters"
# What every client may call the API server, beside the names of its host. 10.96.0.1 is the
# address of the service `kubernetes`, as kubeadm's default service network gives it.
SERVICE_NAMES = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.96.0.1",
)

_PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM files."""

    crt: Path
    key: Path


@dataclass(frozen=True, slots=True)
class _Leaf:
    """The contents that one of our certificates must have."""

    common_name: str
    organizations: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # DNS names and addresses; a server's
    make_key: Callable[[], _PrivateKey] = lambda: ec.generate_private_key(ec.SECP256R1())


def _rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass(frozen=True, slots=True)
class Pki:
    """The files of a cluster's pki folder, and the TLS contexts made of them."""

    folder: Path
    renewed: frozenset[str] = frozenset()  # what the last `ensure` made anew, by name

    def pair(self, name: str) -> Pair:
        return Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")

    @property
    def ca(self) -> Path:
        return self.pair("ca").crt

    @property
    def front_proxy_ca(self) -> Path:
        """Return the authority by which extension servers recognise the API server."""
        return self.pair("front-proxy-ca").crt

    @property
    def front_proxy_client(self) -> Pair:
        return self.pair(FRONT_PROXY)

    @property
    def apiserver(self) -> Pair:
        return self.pair("apiserver")

    @property
    def kubelet(self) -> Pair:
        return self.pair("kubelet")

    @property
    def apiserver_kubelet_client(self) -> Pair:
        """Return the certificate that the API server shows to a kubelet."""
        return self.pair("apiserver-kubelet-client")

    @property
    def admin(self) -> Pair:
        return self.pair("admin")

    @property
    def token_key(self) -> bytes:
        """Return the secret from which every agent's token is derived."""
        return (self.folder / "token.key").read_bytes()

    @property
    def service_account_key(self) -> bytes:
        """Return the PEM of the key that signs the tokens of service accounts."""
        return (self.folder / "sa.key").read_bytes()

    def server_context(self, pair: Pair) -> ssl.SSLContext:
        """Return a listener's context, which asks for a client certificate but needs none."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.ca))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_cert_chain(pair.crt, pair.key)
        return context

    def client_context(self, pair: Pair | None = None) -> ssl.SSLContext:
        """Return the context of a client that trusts this cluster alone and shows `pair`."""
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(self.ca))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if pair is not None:
            context.load_cert_chain(pair.crt, pair.key)
        return context

    def issue(
        self, user: str, groups: Sequence[str] = (), now: dt.datetime | None = None
    ) -> tuple[bytes, bytes]:
        """Issue a client certificate and key (PEM) for a user of the API; nothing is written."""
        authority = _read_authority(self.pair("ca"))
        if authority is None:
            raise FileNotFoundError(f"no certificate authority in {self.folder}; run `orlop up`")
        leaf = _Leaf(user, tuple(groups), make_key=_rsa_key)
        return authority.sign(leaf, now or dt.datetime.now(dt.UTC))

    def sign_request(
        self, pem: bytes, seconds: float, now: dt.datetime | None = None, *, is_server: bool = False
    ) -> bytes:
        """Sign the certificate that a request (PEM) asks for, a client's or a server's.

        Raises ValueError if it is no request, one that cannot be read, or a server's without names.
        """
        authority = _read_authority(self.pair("ca"))
        if authority is None:
            raise FileNotFoundError(f"no certificate authority in {self.folder}; run `orlop up`")
        request = read_request(pem)
        names = _requested_names(request) if is_server else []
        if is_server and not names:
            raise ValueError("a server's certificate needs at least one DNS name or IP address")
        life, moment = dt.timedelta(seconds=seconds), now or dt.datetime.now(dt.UTC)
        return authority.certify(request.subject, request.public_key(), moment, life, names)


# What cryptography makes of requests and certificates that are no better than nonsense.
UNREADABLE = (
    ValueError,
    TypeError,  # of a name that is a string of bits, where that kind of name has none
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


def read_request(pem: bytes) -> x509.CertificateSigningRequest:
    """Read a signed request (PEM); raise ValueError where it is none, whatever else it is."""
    try:
        request = x509.load_pem_x509_csr(pem)
        is_signed = request.is_signature_valid
        request.public_key()
        list(request.subject)  # else it is not read before somebody wants to see it
    except UNREADABLE as error:
        raise ValueError(f"the request cannot be read: {error}") from error
    if not is_signed:
        raise ValueError("the request is not signed by the key it names")
    return request


def names_in(request: x509.CertificateSigningRequest) -> x509.SubjectAlternativeName | None:
    """Return a request's names beside its subject; raise ValueError for unreadable ones."""
    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    except UNREADABLE as error:
        raise ValueError(f"the request cannot be read: {error}") from error


def _requested_names(request: x509.CertificateSigningRequest) -> list[str]:
    found = names_in(request)
    if found is None:
        return []
    addresses = [str(one) for one in found.get_values_for_type(x509.IPAddress)]
    return [*found.get_values_for_type(x509.DNSName), *addresses]


def ensure(folder: Path, names: Sequence[str], now: dt.datetime | None = None) -> Pki:
    """Make what of the pki is missing or no longer good; `names` are those of this host.

    1. The authority; near its end it signs itself again with the same key, so that
       certificates of before stay good.
    2. The servers' and clients' certificates.
    3. The keys of the agents' and of the service accounts' tokens, once and for ever.
    """
    moment = now or dt.datetime.now(dt.UTC)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    pki = Pki(folder)
    renewed: set[str] = set()
    authority = _ensure_authority(pki.pair("ca"), moment, renewed)
    for name, leaf in _leaves(names).items():
        if not authority.has_signed(leaf, pki.pair(name), moment):
            crt, key = authority.sign(leaf, moment)
            write_private(pki.pair(name).key, key)
            write_private(pki.pair(name).crt, crt)
            renewed.add(name)
    front = _ensure_authority(pki.pair("front-proxy-ca"), moment, renewed)
    leaf = _Leaf(FRONT_PROXY)
    if not front.has_signed(leaf, pki.front_proxy_client, moment):
        crt, key = front.sign(leaf, moment)
        write_private(pki.front_proxy_client.key, key)
        write_private(pki.front_proxy_client.crt, crt)
        renewed.add(FRONT_PROXY)
    token = folder / "token.key"
    if not token.exists() or token.stat().st_size != 32:
        write_private(token, secrets.token_bytes(32))
        renewed.add("token")
    if not _has_rsa_key(folder / "sa.key"):
        write_private(folder / "sa.key", _pem(_rsa_key()))
        renewed.add("sa")
    return Pki(folder, frozenset(renewed))


def _has_rsa_key(path: Path) -> bool:
    try:
        return isinstance(load_pem_private_key(path.read_bytes(), None), rsa.RSAPrivateKey)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        return False


def _leaves(names: Sequence[str]) -> dict[str, _Leaf]:
    host = tuple(dict.fromkeys((*names, *SERVICE_NAMES)))
    return {
        "apiserver": _Leaf("kube-apiserver", names=host),
        "kubelet": _Leaf(wellknown.AGENT_SERVER_NAME, names=(wellknown.AGENT_SERVER_NAME, *host)),
        "apiserver-kubelet-client": _Leaf("kube-apiserver-kubelet-client", (ADMIN_GROUP,)),
        # Java's clients read RSA keys in PKCS#1 only.
        "admin": _Leaf(ADMIN_USER, (ADMIN_GROUP,), make_key=_rsa_key),
    }


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: _PrivateKey

    def sign(self, leaf: _Leaf, now: dt.datetime) -> tuple[bytes, bytes]:
        key = leaf.make_key()
        public = key.public_key()
        return self.certify(_subject(leaf), public, now, LEAF_LIFE, leaf.names), _pem(key)

    def certify(
        self,
        subject: x509.Name,
        public: CertificatePublicKeyTypes,
        now: dt.datetime,
        life: dt.timedelta,
        names: Sequence[str] = (),
    ) -> bytes:
        """Return a server's certificate where there are names, else a client's (PEM)."""
        usage = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = (
            _builder(subject, self.certificate.subject, public, now, life)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(issuer, critical=False)
        )
        if names:
            known = x509.SubjectAlternativeName([_general_name(name) for name in names])
            builder = builder.add_extension(known, critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def has_signed(self, leaf: _Leaf, pair: Pair, now: dt.datetime) -> bool:
        """Return whether `pair` has our certificate, which for a while says what `leaf` wants."""
        try:
            certificate, key = _read(pair)
            certificate.verify_directly_issued_by(self.certificate)
        except (OSError, ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            return False
        return (
            certificate.public_key() == key.public_key()
            and certificate.subject == _subject(leaf)
            and set(map(_general_name, leaf.names)) <= _names_in(certificate)
            and _has_time(certificate, now, LEAF_LIFE)
        )


def _ensure_authority(pair: Pair, now: dt.datetime, renewed: set[str]) -> _Authority:
    authority = _read_authority(pair)
    if authority is not None and _has_time(authority.certificate, now, CA_LIFE):
        return authority
    if authority is None:
        # A new name with each key: clients that cache issuers by name mix up two equal ones.
        name = x509.Name(
            [
                x509.NameAttribute(
                    NameOID.COMMON_NAME, f"orlop-{pair.crt.stem}@{int(now.timestamp())}"
                )
            ]
        )
        authority = _self_signed(name, ec.generate_private_key(ec.SECP256R1()), now)
        write_private(pair.key, _pem(authority.key))
    else:
        authority = _self_signed(authority.certificate.subject, authority.key, now)
    write_private(pair.crt, authority.certificate.public_bytes(Encoding.PEM))
    renewed.add(pair.crt.stem)
    return authority


def _self_signed(name: x509.Name, key: _PrivateKey, now: dt.datetime) -> _Authority:
    builder = (
        _builder(name, name, key.public_key(), now, CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
    )
    return _Authority(builder.sign(key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: CertificatePublicKeyTypes,
    now: dt.datetime,
    life: dt.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(leaf: _Leaf) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in leaf.organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, leaf.common_name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names_in(certificate: x509.Certificate) -> set[x509.GeneralName]:
    try:
        return set(
            certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        )
    except x509.ExtensionNotFound:
        return set()


def _has_time(certificate: x509.Certificate, now: dt.datetime, life: dt.timedelta) -> bool:
    """Return whether it is valid for another third of its life: time enough to notice."""
    remaining = certificate.not_valid_after_utc - now
    return certificate.not_valid_before_utc <= now and remaining > life / 3


def _read_authority(pair: Pair) -> _Authority | None:
    try:
        certificate, key = _read(pair)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return _Authority(certificate, key) if certificate.public_key() == key.public_key() else None


def _read(pair: Pair) -> tuple[x509.Certificate, _PrivateKey]:
    certificate = x509.load_pem_x509_certificate(pair.crt.read_bytes())
    key = load_pem_private_key(pair.key.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError(f"{pair.key}: neither an EC nor an RSA key")
    return certificate, key


def _pem(key: _PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
