"""A token of a service account says who calls, for as long as what it is bound to lives."""

from __future__ import annotations

import base64
import json
import time

import pytest

from orlop.api import kinds
from orlop.api.objects import Key
from orlop.apiserver.auth.serviceaccount_tokens import Lifetime, Tokens
from orlop.errors import Unauthorized
from orlop.jwt import SigningKey

ACCOUNT = Key("default", "robot")
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def claims_of(token: str) -> dict:
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


@pytest.fixture
async def robot(token_site):
    return await token_site.admin.create(
        kinds.SERVICE_ACCOUNT, {"metadata": {"name": "robot", "namespace": "default"}}
    )


async def token_of(site, **spec) -> str:
    asked = {"spec": spec}
    made = await site.admin.create_subresource(kinds.SERVICE_ACCOUNT, ACCOUNT, "token", asked)
    return made["status"]["token"]


async def whoami(site, token: str):
    async with site.http("") as nobody:
        return await nobody("POST", WHOAMI, {}, Authorization=f"Bearer {token}")


async def test_the_bearer_is_the_account_in_its_groups(token_site, robot) -> None:
    token = await token_of(token_site)
    reply = await whoami(token_site, token)
    assert reply.code == 201
    known = reply.json["status"]["userInfo"]
    assert known["username"] == "system:serviceaccount:default:robot"
    assert known["uid"] == robot["metadata"]["uid"]
    groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    assert known["groups"] == groups
    credential = known["extra"]["authentication.kubernetes.io/credential-id"]
    assert credential == [f"JTI={claims_of(token)['jti']}"]


async def test_a_bearer_may_do_what_rbac_says(token_site, robot) -> None:
    token = await token_of(token_site)
    path = "/api/v1/namespaces/default/pods"
    async with token_site.http("") as nobody:
        refused = await nobody("GET", path, Authorization=f"Bearer {token}")
        rules = [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]
        role = {"metadata": {"name": "r", "namespace": "default"}, "rules": rules}
        await token_site.admin.create(kinds.ROLE, role)
        binding = {
            "metadata": {"name": "b", "namespace": "default"},
            "roleRef": {"apiGroup": kinds.ROLE.group, "kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
        }
        await token_site.admin.create(kinds.ROLE_BINDING, binding)
        allowed = await nobody("GET", path, Authorization=f"Bearer {token}")
        other = await nobody("GET", "/api/v1/pods", Authorization=f"Bearer {token}")
    assert (refused.code, allowed.code, other.code) == (403, 200, 403)
    assert 'User "system:serviceaccount:default:robot" cannot list' in refused.json["message"]


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer ", "Bearer nonsense", "Basic YTpi", "Bearer a.b.c"]
)
async def test_anything_else_is_nobody(token_site, authorization) -> None:
    async with token_site.http("") as nobody:
        reply = await nobody("GET", "/api/v1/pods", Authorization=authorization)
    assert (reply.code, reply.json["message"]) == (401, "Unauthorized")


async def test_a_certificate_counts_over_a_token(token_site, robot) -> None:
    token = await token_of(token_site)
    async with token_site.http("alice") as alice:
        reply = await alice("POST", WHOAMI, {}, Authorization=f"Bearer {token}")
    assert reply.json["status"]["userInfo"]["username"] == "alice"


async def test_a_token_ends_with_its_account(token_site, robot) -> None:
    token = await token_of(token_site)
    await token_site.admin.delete(kinds.SERVICE_ACCOUNT, ACCOUNT)
    assert (await whoami(token_site, token)).code == 401
    again = {"metadata": {"name": "robot", "namespace": "default"}}
    await token_site.admin.create(kinds.SERVICE_ACCOUNT, again)
    assert (await whoami(token_site, token)).code == 401  # another account of that name


async def test_a_token_ends_with_the_pod_it_is_bound_to(token_site, robot, pod) -> None:
    wanted = pod("a")
    wanted["spec"]["serviceAccountName"] = "robot"
    made = await token_site.admin.create(kinds.POD, wanted)
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "a"}
    token = await token_of(token_site, boundObjectRef=reference)
    extra = (await whoami(token_site, token)).json["status"]["userInfo"]["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["a"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [made["metadata"]["uid"]]
    await token_site.admin.delete(kinds.POD, Key("default", "a"), grace=0)
    assert (await whoami(token_site, token)).code == 401


async def test_a_token_ends_with_the_secret_it_is_bound_to(token_site, robot) -> None:
    secret = {"metadata": {"name": "s", "namespace": "default"}}
    await token_site.admin.create(kinds.SECRET, secret)
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "s"}
    token = await token_of(token_site, boundObjectRef=reference)
    assert (await whoami(token_site, token)).code == 201
    await token_site.admin.delete(kinds.SECRET, Key("default", "s"))
    assert (await whoami(token_site, token)).code == 401


@pytest.mark.parametrize(
    ("passed", "is_good"),
    [(0, True), (599, True), (659, True), (661, False), (10**9, False), (-59, True), (-61, False)],
)
async def test_a_token_has_its_time_give_or_take_a_minute(
    token_site, robot, passed, is_good
) -> None:
    token = await token_of(token_site, expirationSeconds=600)
    begun = claims_of(token)["iat"]
    later = Tokens(token_site.store, token_site.signing_key, now=lambda: begun + passed)
    if is_good:
        assert later.authenticate(token).user.name.endswith(":robot")
    else:
        with pytest.raises(Unauthorized, match="invalid bearer token"):
            later.authenticate(token)


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "https://elsewhere"},
        {"aud": ["vault"]},
        {"aud": None},
        {"exp": None},
        {"nbf": "soon"},
        {"kubernetes.io": None},
        {"kubernetes.io": {"namespace": "default"}},
        {"kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot"}}},
    ],
)
async def test_claims_that_are_not_ours_are_refused(token_site, robot, change) -> None:
    claims = claims_of(await token_of(token_site)) | change
    token = token_site.signing_key.sign(claims)
    with pytest.raises(Unauthorized):
        Tokens(token_site.store, token_site.signing_key).authenticate(token)


async def test_another_clusters_token_is_refused(token_site, robot, other_key: SigningKey) -> None:
    token = Tokens(token_site.store, other_key).issue(robot, ["x"], Lifetime(time.time() + 600))
    assert (await whoami(token_site, token)).code == 401


async def test_a_review_tells_who_a_token_is_of(token_site, robot) -> None:
    token = await token_of(token_site, audiences=["vault", "other"])
    async with token_site.http() as admin:
        spec = {"token": token, "audiences": ["vault", "third"]}
        reply = await admin("POST", REVIEWS, {"spec": spec})
        status = reply.json["status"]
        assert (reply.code, status["authenticated"]) == (201, True)
        assert status["audiences"] == ["vault"]
        assert status["user"]["username"] == "system:serviceaccount:default:robot"
        reply = await admin("POST", REVIEWS, {"spec": {"token": token}})
        assert "authenticated" not in reply.json["status"]
        assert "invalid bearer token" in reply.json["status"]["error"]
        assert (await admin("POST", REVIEWS, {"spec": {}})).code == 400
    assert (await whoami(token_site, token)).code == 401  # it is not for us


async def test_the_issuer_tells_everybody_how_to_check_tokens(token_site, robot) -> None:
    async with token_site.http("") as nobody:
        found = await nobody("GET", "/.well-known/openid-configuration")
        keys = await nobody("GET", "/openid/v1/jwks")
        assert (await nobody("POST", "/openid/v1/jwks", {})).code == 404
    assert found.json["issuer"] == claims_of(await token_of(token_site))["iss"]
    assert found.json["jwks_uri"] == f"{token_site.url}/openid/v1/jwks"
    assert keys.headers["Content-Type"] == "application/jwk-set+json"
    assert json.loads(keys.text) == {"keys": [token_site.signing_key.jwk()]}


async def test_without_a_key_there_are_no_tokens(site, local) -> None:
    await local.create(kinds.SERVICE_ACCOUNT, {"metadata": {"name": "a", "namespace": "default"}})
    async with site.http() as admin:
        path = "/api/v1/namespaces/default/serviceaccounts/a/token"
        assert (await admin("POST", path, {"spec": {}})).code == 405
        assert (await admin("POST", REVIEWS, {"spec": {"token": "x"}})).code == 404
        assert (await admin("GET", "/openid/v1/jwks")).code == 404
