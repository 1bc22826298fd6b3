"""The control plane reaches pods straight, announced, or else through their agents."""

from __future__ import annotations

import asyncio
import socket

import pytest

from .test_network import a_running_pod, ask, told


@pytest.fixture
async def place():
    """What a pod's agent would have: a listener, and a socket for announcements."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    notices = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    notices.bind(("127.0.0.1", 0))
    notices.setblocking(False)
    yield listener, notices
    listener.close()
    notices.close()


def said(listener, notices):
    return {
        "type": "net-state",
        "address": "127.0.0.1",
        "notice": notices.getsockname()[1],
        "tcp": {"80": listener.getsockname()[1]},
        "udp": {},
    }


async def test_a_pod_is_reached_straight_and_told_who_comes(site, place):
    listener, notices = place
    agent, ip = await a_running_pod(site)
    agent.tell(said(listener, notices))
    ask(agent, f"pod/{ip}")
    await told(agent, f"pod/{ip}")
    dialer = site.kubelet.dialer
    sock = await dialer.connect(ip, 80, ("192.0.2.9", 4711))
    loop = asyncio.get_running_loop()
    taken, real = await loop.sock_accept(listener)
    announced = notices.recv(4096)
    assert socket.inet_aton("192.0.2.9") + (4711).to_bytes(2, "big") in announced
    assert socket.inet_aton(real[0]) + real[1].to_bytes(2, "big") in announced
    with pytest.raises(ConnectionRefusedError):
        await dialer.connect(ip, 81)
    sock.close()
    taken.close()
    await agent.hang_up()


async def test_a_client_of_ipv6_is_shown_to_a_pod_as_the_control_plane(site, place):
    listener, notices = place
    agent, ip = await a_running_pod(site)
    agent.tell(said(listener, notices))
    ask(agent, f"pod/{ip}")
    await told(agent, f"pod/{ip}")
    sock = await site.kubelet.dialer.connect(ip, 80, ("2001:db8::1", 4711))
    taken, real = await asyncio.get_running_loop().sock_accept(listener)
    who = socket.inet_aton(real[0]) + real[1].to_bytes(2, "big")
    assert notices.recv(4096).count(who) == 2  # where it comes from, and who it is
    sock.close()
    taken.close()
    await agent.hang_up()


async def test_where_nothing_is_known_of_its_network_the_agent_is_asked(site):
    agent, ip = await a_running_pod(site)
    agent.tell({"type": "hello", "job": agent.job, "node": "n1", "seq": 9, "streams": 1})
    await agent.hear("welcome")
    dialling = asyncio.ensure_future(site.kubelet.dialer.connect(ip, 8080))
    wish = await agent.hear("forward")
    assert wish["port"] == 8080
    agent.tell({"type": "opened", "stream": wish["stream"]})
    sock = await dialling
    agent.tell(b"from the pod", stream=wish["stream"])
    loop = asyncio.get_running_loop()
    assert await loop.sock_recv(sock, 100) == b"from the pod"
    sock.close()
    await agent.hang_up()


async def test_an_address_that_no_pod_has_is_not_dialled(site):
    with pytest.raises(OSError, match="no pod has the address"):
        await site.kubelet.dialer.connect("10.244.9.9", 80)
