"""Ephemeral containers on their way to an agent, with the whole kubelet around them."""

from __future__ import annotations

from orlop.api.kinds import POD
from orlop.api.objects import Key

from ..conftest import eventually
from ..objects import running, started

DEBUG = {"name": "debug", "image": "busybox", "command": ["sh"], "targetContainerName": "main"}


async def add(site, **fields):
    body = {"spec": {"ephemeralContainers": [{**DEBUG, **fields}]}}
    return await site.api.patch(POD, Key("default", "web"), body, subresource="ephemeralcontainers")


async def running_pod(site):
    await site.create()
    agent = await site.agent()
    await agent.say(started(), running())
    await site.until_phase("Running")
    return agent


async def told(agent):
    """What the agent is told to add, be it before it is welcome."""
    heard = [message for message in agent.heard if message["type"] == "add"]
    return heard[0] if heard else await agent.hear("add")


def of(pod, name="debug"):
    each = pod["status"].get("ephemeralContainerStatuses") or []
    return next((status for status in each if status["name"] == name), {})


async def test_the_agent_is_told_the_plan_of_the_container(site):
    agent = await running_pod(site)
    await add(site)
    told = (await agent.hear("add"))["container"]
    assert (told["name"], told["argv"], told["target"]) == ("debug", ["sh"], "main")
    pod = await site.until(lambda pod: "waiting" in of(pod).get("state", {}))
    assert of(pod)["state"]["waiting"]["reason"] == "ContainerCreating"
    await agent.say(running("debug"))
    pod = await site.until(lambda pod: "running" in of(pod).get("state", {}))
    assert of(pod)["ready"] is False
    assert [c["name"] for c in pod["status"]["containerStatuses"]] == ["main"]


async def test_an_agent_that_dials_anew_is_told_again_until_it_has_begun(site):
    agent = await running_pod(site)
    await add(site)
    await agent.hear("add")
    await agent.hang_up()
    again = await site.agent()
    again.seq = 2
    assert (await told(again))["container"]["name"] == "debug"
    await again.say(running("debug"))
    await again.hang_up()
    third = await site.agent()
    third.seq = 3
    await site.until(lambda pod: "running" in of(pod).get("state", {}))
    assert not [m for m in third.heard if m["type"] == "add"]


async def test_an_image_that_cannot_be_had_is_on_the_container(site):
    agent = await running_pod(site)
    site.images.missing["nowhere"] = "ErrImagePull"
    await add(site, image="nowhere")
    pod = await site.until(lambda pod: "waiting" in of(pod).get("state", {}))
    pod = await site.until(lambda pod: of(pod)["state"]["waiting"].get("message"))
    waiting = of(pod)["state"]["waiting"]
    assert (waiting["reason"], waiting["message"]) == ("ErrImagePull", "nowhere: no such image")
    site.images.missing.clear()
    assert (await told(agent))["container"]["image"] == "nowhere"


async def test_what_it_cannot_have_is_refused_on_the_container(site):
    await running_pod(site)
    await add(site, securityContext={"privileged": True})
    pod = await site.until(lambda pod: of(pod).get("state", {}).get("waiting", {}).get("message"))
    assert "privileged containers cannot be had" in of(pod)["state"]["waiting"]["message"]
    found = await eventually(lambda: _failed(site))
    assert "privileged" in found[0][2]


async def _failed(site):
    return [event for event in await site.events() if event[1] == "Failed"]
