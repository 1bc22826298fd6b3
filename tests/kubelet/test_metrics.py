"""How many pods run, as Prometheus sees it."""

from __future__ import annotations

from orlop.api.kinds import POD
from orlop.api.objects import Key
from orlop.metrics import PROCESS

from .conftest import eventually
from .objects import running, started


async def test_running_pods_of_our_nodes_are_counted(site):
    assert "\nkubelet_running_pods 0\n" in PROCESS.text()
    await site.create("elsewhere", nodeName="not-ours")
    change = {"status": {"phase": "Running"}}
    await site.api.patch(POD, Key("default", "elsewhere"), change, subresource="status")
    await site.create("web")
    agent = await site.agent()
    await agent.say(started(), running())
    await site.until_phase("Running")
    await eventually(lambda: "\nkubelet_running_pods 1\n" in PROCESS.text())
