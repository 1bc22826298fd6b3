"""Bearer tokens that are no service account's: of machines that join, of people of an issuer."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from orlop import pki
from orlop.api import kinds
from orlop.api.objects import Key
from orlop.api.schema import Schema
from orlop.apiserver import ApiServer, ServerOptions
from orlop.jwt import SigningKey
from orlop.settings import OidcSettings
from orlop.store import Store
from tests.apiserver.conftest import Http, Site, TokenSite

Obj = dict[str, Any]
TOKEN = "abcdef.0123456789abcdef"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def who(site: Site, token: str) -> tuple[int, Obj]:
    async with site.http("") as http:
        reply = await http("POST", WHOAMI, {}, Authorization=f"Bearer {token}")
        return reply.code, (reply.json.get("status") or {}) if reply.code == 201 else {}


def bootstrap(**data: str) -> Obj:
    content = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:racks:one",
        **data,
    }
    return {
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": content,
    }


async def test_a_bootstrap_token_is_a_machine_that_joins(site: Site, local) -> None:
    await local.create(kinds.SECRET, bootstrap())
    code, status = await who(site, TOKEN)
    assert code == 201
    assert status["userInfo"]["username"] == "system:bootstrap:abcdef"
    assert status["userInfo"]["groups"] == [
        "system:bootstrappers",
        "system:bootstrappers:racks:one",
        "system:authenticated",
    ]


@pytest.mark.parametrize(
    "data",
    [
        {"token-secret": "fedcba9876543210"},
        {"expiration": "2020-01-01T00:00:00Z"},
        {"expiration": "some day"},
        {"usage-bootstrap-authentication": "false"},
        {"auth-extra-groups": "system:masters"},
        {"token-id": "other0"},
    ],
    ids=str,
)
async def test_one_that_is_not_good_lets_nobody_in(site: Site, local, data) -> None:
    await local.create(kinds.SECRET, bootstrap(**data))
    assert (await who(site, TOKEN))[0] == 401


async def test_one_of_another_type_or_none_lets_nobody_in(site: Site, local) -> None:
    assert (await who(site, TOKEN))[0] == 401
    await local.create(kinds.SECRET, {**bootstrap(), "type": "Opaque"})
    assert (await who(site, TOKEN))[0] == 401


@dataclass
class Issuer:
    """An OpenID Connect issuer: its documents over HTTPS, and tokens as it signs them."""

    key: SigningKey
    url: str = ""
    asked: list[str] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path == "/.well-known/openid-configuration":
            return web.json_response({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})
        return web.json_response({"keys": [self.key.jwk()]})

    def token(self, **claims: Any) -> str:
        whole = {
            "iss": self.url,
            "aud": "orlop",
            "sub": "42",
            "exp": int(time.time()) + 60,
            "email": "ann@example.com",
            "groups": ["physics", "admins"],
            "hd": "example.com",
            **claims,
        }
        return self.key.sign({name: value for name, value in whole.items() if value is not None})


@pytest.fixture
async def issuer(authority: pki.Pki, other_key: SigningKey) -> AsyncIterator[Issuer]:
    made = Issuer(other_key)
    runner = web.ServerRunner(web.Server(made.handle), shutdown_timeout=0.1)
    await runner.setup()
    tls = authority.server_context(authority.apiserver)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    made.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


@pytest.fixture
def options() -> dict[str, Any]:
    return {}


@pytest.fixture
async def people(
    tmp_path: Path, authority: pki.Pki, schema: Schema, issuer: Issuer, options: dict[str, Any]
) -> AsyncIterator[Site]:
    store = await Store.open(tmp_path / "state.db")
    settings = OidcSettings(
        issuer_url=issuer.url,
        client_id="orlop",
        groups_claim="groups",
        ca_file=str(authority.ca),
        **options,
    )
    key = SigningKey.from_pem(authority.service_account_key)
    tls = authority.server_context(authority.apiserver)
    options = ServerOptions(oidc=settings)
    server = ApiServer(store, tls=tls, schema=schema, signing_key=key, options=options)
    port = await server.start("127.0.0.1", 0)
    yield Site(server, store, port, authority, tmp_path)
    await server.stop()
    await store.close()


async def test_a_person_comes_with_a_token_of_the_issuer(people: Site, issuer: Issuer) -> None:
    code, status = await who(people, issuer.token())
    assert code == 201
    assert status["userInfo"]["username"] == f"{issuer.url}#42"
    assert status["userInfo"]["groups"] == ["physics", "admins", "system:authenticated"]
    await who(people, issuer.token())
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]  # and remembered


@pytest.mark.parametrize(
    ("options", "name", "groups"),
    [
        ({"username_claim": "email", "groups_prefix": "oidc:"}, "ann@example.com",
         ["oidc:physics", "oidc:admins"]),
        ({"username_prefix": "-"}, "42", ["physics", "admins"]),
        ({"username_prefix": "p:", "required_claims": {"hd": "example.com"}}, "p:42",
         ["physics", "admins"]),
    ],
    ids=["email", "bare", "prefix"],
)  # fmt: skip
async def test_claims_become_names_as_configured(
    people: Site, issuer: Issuer, name: str, groups: list[str]
) -> None:
    _, status = await who(people, issuer.token())
    assert status["userInfo"]["username"] == name
    assert status["userInfo"]["groups"] == [*groups, "system:authenticated"]


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "other"},
        {"aud": None},
        {"exp": 1},
        {"exp": None},
        {"nbf": 9_999_999_999},
        {"sub": None},
        {"sub": 7},
    ],
    ids=str,
)
async def test_a_token_that_does_not_hold_lets_nobody_in(
    people: Site, issuer: Issuer, claims: Obj
) -> None:
    assert (await who(people, issuer.token(**claims)))[0] == 401


@pytest.mark.parametrize("options", [{"required_claims": {"hd": "other.org"}}])
async def test_required_claims_are_required(people: Site, issuer: Issuer) -> None:
    assert (await who(people, issuer.token()))[0] == 401


async def test_what_others_signed_in_the_issuers_name_is_refused(
    people: Site, issuer: Issuer, authority: pki.Pki
) -> None:
    ours = SigningKey.from_pem(authority.service_account_key)
    forged = Issuer(ours, issuer.url).token()
    assert (await who(people, forged))[0] == 401
    head, claims, _ = issuer.token().split(".")
    none = base64.urlsafe_b64encode(json.dumps({"alg": "none"}).encode()).rstrip(b"=").decode()
    for token in (f"{none}.{claims}.", f"{head}.{claims}.AAAA", "a.b.c", "nonsense"):
        assert (await who(people, token))[0] == 401


async def test_a_browsers_websocket_shows_its_token_as_a_protocol(token_site: TokenSite) -> None:
    admin = token_site.admin
    await admin.create(kinds.SERVICE_ACCOUNT, {"metadata": {"name": "b", "namespace": "default"}})
    request = await admin.create_subresource(
        kinds.SERVICE_ACCOUNT, Key("default", "b"), "token", {"spec": {}}
    )
    token = request["status"]["token"]
    shown = base64.urlsafe_b64encode(token.encode()).rstrip(b"=").decode()
    url = f"{token_site.url}/api/v1/namespaces/default/pods?watch=true"
    protocol = f"base64url.bearer.authorization.k8s.io.{shown}"
    async with token_site.http("") as http:
        for protocols, code in (((protocol, "x"), 403), ((protocol,), 401), (("x",), 401)):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await http.session.ws_connect(url, protocols=protocols)
            assert refused.value.status == code  # known but without rights, or not known


async def test_every_cluster_has_its_flow_schemas(http: Http) -> None:
    base = "/apis/flowcontrol.apiserver.k8s.io/v1"
    schemas = (await http("GET", f"{base}/flowschemas")).json["items"]
    levels = (await http("GET", f"{base}/prioritylevelconfigurations")).json["items"]
    names = {one["metadata"]["name"] for one in levels}
    assert {"exempt", "catch-all", "workload-low"} <= names
    assert {one["spec"]["priorityLevelConfiguration"]["name"] for one in schemas} <= names
