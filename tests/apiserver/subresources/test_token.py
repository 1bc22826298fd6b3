"""TokenRequest: for whom, for how long, bound to what; and what cannot be had."""

from __future__ import annotations

import time

import pytest

from orlop.api import kinds, times
from tests.apiserver.auth.test_serviceaccount_tokens import claims_of

PATH = "/api/v1/namespaces/default/serviceaccounts/robot/token"
YEAR = 365 * 24 * 3600


@pytest.fixture
async def ask(token_site, pod):
    """POST a TokenRequest of the account robot, which runs the pod a."""
    account = {"metadata": {"name": "robot", "namespace": "default"}}
    await token_site.admin.create(kinds.SERVICE_ACCOUNT, account)
    mine, default = pod("a"), pod("b")
    mine["spec"]["serviceAccountName"] = "robot"
    await token_site.admin.create(kinds.POD, mine)
    await token_site.admin.create(kinds.POD, default)
    async with token_site.http() as admin:

        async def post(path=PATH, **spec):
            return await admin("POST", path, {"spec": spec})

        yield post


def reference(kind, name, **more):
    return {"apiVersion": "v1", "kind": kind, "name": name, **more}


async def test_what_is_not_asked_for_is_filled_in(ask) -> None:
    reply = await ask()
    assert reply.code == 201
    assert reply.json["kind"] == "TokenRequest"
    assert reply.json["spec"]["expirationSeconds"] == 3600
    [audience] = reply.json["spec"]["audiences"]
    claims = claims_of(reply.json["status"]["token"])
    assert claims["aud"] == [audience] == [claims["iss"]]
    assert claims["exp"] - claims["iat"] == 3600
    assert claims["sub"] == "system:serviceaccount:default:robot"
    told = times.parse(reply.json["status"]["expirationTimestamp"])
    assert abs(told - claims["exp"]) <= 1


async def test_audiences_and_time_are_as_asked(ask) -> None:
    reply = await ask(audiences=["vault"], expirationSeconds=7200)
    claims = claims_of(reply.json["status"]["token"])
    assert (claims["aud"], claims["exp"] - claims["iat"]) == (["vault"], 7200)


async def test_a_token_bound_to_a_pod_names_it(ask) -> None:
    claims = claims_of((await ask(boundObjectRef=reference("Pod", "a"))).json["status"]["token"])
    assert claims["kubernetes.io"]["pod"]["name"] == "a"
    assert set(claims["kubernetes.io"]) == {"namespace", "serviceaccount", "pod"}


@pytest.mark.parametrize(
    ("spec", "lives"),
    [
        ({"expirationSeconds": 3607, "boundObjectRef": reference("Pod", "a")}, YEAR),
        ({"expirationSeconds": 3600, "boundObjectRef": reference("Pod", "a")}, 3600),
        ({"expirationSeconds": 3607}, 3607),
        (
            {
                "expirationSeconds": 3607,
                "audiences": ["vault"],
                "boundObjectRef": reference("Pod", "a"),
            },
            3607,
        ),
    ],
)
async def test_programs_that_never_reread_their_token_get_a_year(ask, spec, lives) -> None:
    reply = await ask(**spec)
    claims = claims_of(reply.json["status"]["token"])
    assert abs(claims["exp"] - claims["iat"] - lives) <= 1
    told = times.parse(reply.json["status"]["expirationTimestamp"])
    assert abs(told - time.time() - spec["expirationSeconds"]) < 30
    assert ("warnafter" in claims["kubernetes.io"]) is (lives == YEAR)


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        ({"expirationSeconds": 599}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 1 << 33}, 422, "larger than 2^32 seconds"),
        ({"expirationSeconds": "1h"}, 422, "spec.expirationSeconds"),
        ({"audiences": [1]}, 400, "must be strings"),
        ({"boundObjectRef": reference("Pod", "none")}, 404, 'pods "none" not found'),
        ({"boundObjectRef": reference("Secret", "none")}, 404, 'secrets "none" not found'),
        ({"boundObjectRef": reference("ConfigMap", "c")}, 400, "cannot bind token"),
        ({"boundObjectRef": reference("Pod", "b")}, 400, "different serviceaccount name"),
        ({"boundObjectRef": reference("Pod", "a", uid="x")}, 409, "does not match the UID"),
    ],
)
async def test_what_cannot_be_had(ask, spec, code, words) -> None:
    reply = await ask(**spec)
    assert reply.code == code
    assert words in reply.json["message"]


async def test_an_account_must_be_there(ask) -> None:
    reply = await ask(PATH.replace("robot", "nobody"))
    assert (reply.code, reply.json["message"]) == (404, 'serviceaccounts "nobody" not found')


async def test_the_body_must_mean_the_account_of_the_path(token_site, ask) -> None:
    async with token_site.http() as admin:
        assert (await admin("POST", PATH, {"metadata": {"name": "eve"}})).code == 400
        assert (await admin("POST", PATH, {"metadata": {"namespace": "x"}})).code == 400
        assert (await admin("POST", PATH, [])).code == 400
        assert (await admin("GET", PATH)).code == 405


async def test_only_who_may_gets_a_token(token_site, ask) -> None:
    async with token_site.http("eve") as eve:
        reply = await eve("POST", PATH, {"spec": {}})
    assert reply.code == 403
    assert 'cannot create resource "serviceaccounts/token"' in reply.json["message"]
