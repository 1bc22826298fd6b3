"""Mirror pods that the control plane stands for: their addresses, and their broken connections."""

from __future__ import annotations

import asyncio
import socket

from orlop.kubelet.network.mirror_ports import SocketSession
from orlop.kubelet.network.view import Place

from ..conftest import eventually


async def test_a_connection_that_breaks_ends_itself_alone():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    async def open(port):
        return ours

    session = SocketSession(open, 80)
    await session.opened()
    theirs.close()
    await session.main.write(b"too late")
    assert await session.main.read() == b""
    session.main.end()
    session.close()


async def test_an_address_is_given_only_once_those_of_running_pods_are_known(site):
    await site.create()
    await site.submitted()
    await site.stop()
    answer, may_answer, calls = site.engine.jobs, asyncio.Event(), []

    async def slowly():
        calls.append(1)
        await may_answer.wait()
        return await answer()

    async def open(port):
        raise ConnectionRefusedError

    site.engine.jobs = slowly
    await site.start()
    router = {"metadata": {"name": "router", "namespace": "kube-system", "uid": "u"}}
    place = Place("192.0.2.1", 1, {"80": 2})
    await eventually(lambda: calls, "the kubelet asks for what runs", timeout=60)
    offered = asyncio.ensure_future(site.parts.network.mirrors.offer(router, open, place))
    await asyncio.sleep(0)  # what need not wait is done by then
    assert not offered.done()
    may_answer.set()
    async with asyncio.timeout(60):
        address = await offered
    assert site.parts.network.mirrors._addresses.owner(address) == "u"
