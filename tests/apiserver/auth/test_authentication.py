"""Who is calling, by certificate; nobody is anonymous."""

from __future__ import annotations

import ssl

import aiohttp
import pytest

from orlop import pki
from orlop.apiserver.auth.authentication import from_certificate
from orlop.errors import Unauthorized


def subject(*names: tuple[str, str]) -> dict[str, object]:
    return {"subject": tuple((pair,) for pair in names)}


def test_common_name_and_organizations_are_user_and_groups() -> None:
    user = from_certificate(
        subject(("organizationName", "a"), ("organizationName", "b"), ("commonName", "eve"))
    )
    assert user.name == "eve"
    assert user.groups == ("a", "b", "system:authenticated")
    assert not user.is_master


@pytest.mark.parametrize("certificate", [None, {}, subject(("organizationName", "a"))])
def test_without_a_common_name_there_is_no_user(certificate) -> None:
    with pytest.raises(Unauthorized):
        from_certificate(certificate)


async def test_whoami_tells_what_the_certificate_says(site) -> None:
    async with site.http("alice", ("physics", "system:serviceaccounts")) as alice:
        reply = await alice("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert reply.code == 201
    assert reply.json["status"]["userInfo"] == {
        "username": "alice",
        "groups": ["physics", "system:serviceaccounts", "system:authenticated"],
    }


@pytest.mark.parametrize(
    "path", ["/api", "/apis", "/api/v1/pods", "/openapi/v3", "/metrics", "/nothing/at/all"]
)
async def test_who_shows_no_certificate_learns_nothing(site, path) -> None:
    async with site.http("") as nobody:
        reply = await nobody("GET", path)
    assert reply.code == 401
    assert reply.json["reason"] == "Unauthorized"
    assert reply.json["message"] == "Unauthorized"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_open(site, path) -> None:
    async with site.http("") as nobody:
        assert (await nobody("GET", path)).code == 200


async def test_a_certificate_of_another_authority_is_refused(site, tmp_path) -> None:
    stranger = pki.ensure(tmp_path / "stranger", ["localhost"])
    context = site.authority.client_context()
    context.load_cert_chain(stranger.admin.crt, stranger.admin.key)
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector) as session:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            await session.get(f"{site.url}/api/v1/pods")


async def test_plain_http_is_not_served(site) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://127.0.0.1:{site.port}/healthz")
