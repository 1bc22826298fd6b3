"""Ephemeral containers are added to a pod, and never removed or changed; resizing is refused."""

from __future__ import annotations

import pytest

from orlop.api import kinds
from orlop.api.objects import Key

A = Key("default", "a")
PATH = "/api/v1/namespaces/default/pods/a"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
DEBUG = {"name": "debug", "image": "busybox", "stdin": True, "tty": True}


@pytest.fixture
async def running(local, pod) -> None:
    await local.create(kinds.POD, pod("a"))


def with_ephemeral(*containers):
    return {"spec": {"ephemeralContainers": list(containers)}}


async def add(http, *containers, kind=STRATEGIC):
    body = with_ephemeral(*containers)
    return await http("PATCH", f"{PATH}/ephemeralcontainers", body, Content_Type=kind)


async def test_kubectl_debug_adds_a_container_with_its_defaults(http, running) -> None:
    names = [c["name"] for c in (await http("GET", PATH)).json["spec"]["containers"]]
    reply = await add(http, {**DEBUG, "targetContainerName": names[0]})
    assert reply.code == 200, reply.text
    (found,) = reply.json["spec"]["ephemeralContainers"]
    assert found["terminationMessagePath"] == "/dev/termination-log"
    assert found["imagePullPolicy"] == "Always"
    assert (await http("GET", f"{PATH}/ephemeralcontainers")).json["kind"] == "Pod"


async def test_a_second_one_joins_the_first(http, running) -> None:
    await add(http, DEBUG)
    reply = await add(http, {"name": "more", "image": "busybox"})
    assert [c["name"] for c in reply.json["spec"]["ephemeralContainers"]] == ["more", "debug"]


async def test_it_is_put_as_a_whole_pod(http, running) -> None:
    pod = (await http("GET", PATH)).json
    pod["spec"] |= {"ephemeralContainers": [DEBUG], "activeDeadlineSeconds": 5}
    pod["metadata"]["labels"] = {"other": "thing"}
    reply = await http("PUT", f"{PATH}/ephemeralcontainers", pod)
    assert reply.code == 200
    assert [c["name"] for c in reply.json["spec"]["ephemeralContainers"]] == ["debug"]
    assert "activeDeadlineSeconds" not in reply.json["spec"], "nothing else is taken from it"
    assert reply.json["metadata"].get("labels") != {"other": "thing"}
    pod["spec"]["ephemeralContainers"].append({"name": "late", "image": "x"})
    assert (await http("PUT", f"{PATH}/ephemeralcontainers", pod)).code == 409


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"image": "x"}, "spec.ephemeralContainers[0].name: Required value"),
        ({"name": "e"}, "spec.ephemeralContainers[0].image: Required value"),
        ({"name": "Bad", "image": "x"}, 'spec.ephemeralContainers[0].name: Invalid value: "Bad"'),
        (
            {"name": "e", "image": "x", "targetContainerName": "nobody"},
            'spec.ephemeralContainers[0].targetContainerName: Not found: "nobody"',
        ),
        (
            {"name": "e", "image": "x", "ports": [{"containerPort": 1}]},
            "ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
        ),
        (
            {"name": "e", "image": "x", "livenessProbe": {"exec": {"command": ["x"]}}},
            "ephemeralContainers[0].livenessProbe: Forbidden: cannot be set for an Ephemeral",
        ),
        (
            {"name": "e", "image": "x", "resources": {"limits": {"cpu": "1"}}},
            "ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral",
        ),
    ],
)
async def test_what_it_may_not_be_is_refused(http, running, container, words) -> None:
    reply = await add(http, container, kind=MERGE)
    assert reply.code == 422
    assert words in reply.json["message"]


async def test_its_name_is_its_own(http, running) -> None:
    pod = (await http("GET", PATH)).json
    reply = await add(http, {"name": pod["spec"]["containers"][0]["name"], "image": "x"})
    assert reply.code == 422
    assert "Duplicate value" in reply.json["message"]


@pytest.mark.parametrize(
    ("after", "word"), [([], "removed"), ([{**DEBUG, "image": "other"}], "changed")]
)
async def test_what_is_there_stays_as_it_is(http, running, after, word) -> None:
    await add(http, DEBUG)
    reply = await add(http, *after, kind=MERGE)
    assert reply.code == 422
    expected = f'existing ephemeral containers "debug" may not be {word}'
    assert expected in reply.json["message"]


async def test_they_come_no_other_way(http, running) -> None:
    reply = await http("PATCH", PATH, with_ephemeral(DEBUG), Content_Type=MERGE)
    assert reply.code == 422


async def test_a_pod_that_is_not_there_is_not_found(http) -> None:
    assert (await add(http, DEBUG)).code == 404


@pytest.mark.parametrize("verb", ["PATCH", "PUT"])
async def test_a_job_cannot_be_resized_and_the_words_say_so(http, running, verb) -> None:
    pod = (await http("GET", f"{PATH}/resize")).json
    headers = {"Content_Type": MERGE} if verb == "PATCH" else {}
    reply = await http(verb, f"{PATH}/resize", pod, **headers)
    assert reply.code == 422
    assert "cannot change while it exists" in reply.json["message"]
