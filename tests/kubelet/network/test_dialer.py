"""The control plane reaches pods straight, announced, or else through their agents."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time

import pytest

from orlop.kubelet.network import dialer
from orlop.network.notices import UDP, Kind, read, write

from .test_endpoint_updates import a_running_pod, ask, told


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


async def heard(site, notices):
    """The next that is said to the pod's agent, and by whom."""
    raw, sender = await asyncio.get_running_loop().sock_recvfrom(notices, 4096)
    return read(key_of(site), raw, time.time(), notices.getsockname()[1]), sender


def key_of(site):
    return site.parts.network.dialer._announcer._key


async def acknowledge(site, notices):
    found, sender = await heard(site, notices)
    notices.sendto(write(key_of(site), found._replace(kind=Kind.ACK), sender[1]), sender)
    return found


async def test_a_pod_is_reached_straight_and_told_who_comes(site, place):
    listener, notices = place
    agent, ip = await a_running_pod(site)
    agent.tell(said(listener, notices))
    ask(agent, f"pod/{ip}")
    await told(agent, f"pod/{ip}")
    dialer = site.parts.network.dialer
    dialling = asyncio.ensure_future(dialer.connect(ip, 80, ("192.0.2.9", 4711)))
    loop = asyncio.get_running_loop()
    taken, real = await loop.sock_accept(listener)
    found = await acknowledge(site, notices)
    assert (found.peer, found.real, found.to) == (("192.0.2.9", 4711), real, (ip, 80))
    sock = await dialling
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
    dialling = asyncio.ensure_future(
        site.parts.network.dialer.connect(ip, 80, ("2001:db8::1", 4711))
    )
    taken, real = await asyncio.get_running_loop().sock_accept(listener)
    found = await acknowledge(site, notices)
    assert found.peer == found.real == real
    sock = await dialling
    sock.close()
    taken.close()
    await agent.hang_up()


async def test_a_port_that_no_agent_speaks_for_is_not_used(site, place):
    """Another user may have it by now: the pod's agent itself has to carry the bytes."""
    listener, notices = place
    agent, ip = await a_running_pod(site)
    agent.tell({"type": "hello", "job": agent.job, "node": "n1", "seq": 9, "streams": 1})
    await agent.hear("welcome")
    agent.tell(said(listener, notices))
    ask(agent, f"pod/{ip}")
    await told(agent, f"pod/{ip}")
    dialling = asyncio.ensure_future(site.parts.network.dialer.connect(ip, 80))
    found, sender = await heard(site, notices)
    forged = found._replace(kind=Kind.ACK)
    notices.sendto(write(b"another key", forged, sender[1]), sender)
    elsewhere = forged._replace(real=("127.0.0.1", 1))
    notices.sendto(write(key_of(site), elsewhere, sender[1]), sender)
    notices.sendto(write(key_of(site), forged, sender[1] ^ 1), sender)
    wish = await agent.hear("forward")
    agent.tell({"type": "opened", "stream": wish["stream"]})
    sock = await dialling
    sock.close()
    loop = asyncio.get_running_loop()
    taken, _ = await loop.sock_accept(listener)
    assert await loop.sock_recv(taken, 100) == b""
    taken.close()
    await agent.hang_up()


async def test_datagrams_wait_for_the_agents_word(site, place):
    _, notices = place
    agent, ip = await a_running_pod(site)
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setblocking(False)
        server.bind(("127.0.0.1", 0))
        state = said(server, notices)
        agent.tell({**state, "tcp": {}, "udp": {"53": server.getsockname()[1]}})
        ask(agent, f"pod/{ip}")
        await told(agent, f"pod/{ip}")
        way = await site.parts.network.dialer.datagrams(ip, 53, ("192.0.2.9", 4711))
        way.send(b"hello")
        found, sender = await heard(site, notices)
        assert (found.protocol, found.more) == (UDP, 1)
        with pytest.raises(BlockingIOError):
            server.recv(100)
        notices.sendto(write(key_of(site), found._replace(kind=Kind.ACK), sender[1]), sender)
        assert await loop.sock_recv(server, 100) == b"hello"
        for cookie, kind in ((found.cookie, Kind.CONFIRM), (found.cookie + 1, Kind.DENY)):
            question = found._replace(kind=Kind.ASK, cookie=cookie)
            notices.sendto(write(key_of(site), question, sender[1]), sender)
            assert (await heard(site, notices))[0].kind == kind
        way.close()
        assert way.socket.fileno() >= 0, "nobody else may have its port yet"
    await agent.hang_up()


async def test_who_has_a_udp_port_that_no_agent_speaks_for_is_not_heard(site, place, monkeypatch):
    """A stranger may have it by now: what it says is not passed on, nor is anything sent to it."""
    monkeypatch.setattr(dialer, "ACKNOWLEDGED", 0.2)
    monkeypatch.setattr(dialer, "GONE", 0.5)
    _, notices = place
    agent, ip = await a_running_pod(site)
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setblocking(False)
        server.bind(("127.0.0.1", 0))
        agent.tell({**said(server, notices), "tcp": {}, "udp": {"53": server.getsockname()[1]}})
        ask(agent, f"pod/{ip}")
        await told(agent, f"pod/{ip}")
        way = await site.parts.network.dialer.datagrams(ip, 53, ("192.0.2.9", 4711))
        way.send(b"hello")
        found = await acknowledge(site, notices)
        data, client = await loop.sock_recvfrom(server, 100)
        assert data == b"hello"

        server.sendto(b"at once", client)
        assert await way.receive(100) == b"at once"
        await asyncio.sleep(0.3)
        server.sendto(b"late", client)
        receiving = asyncio.ensure_future(way.receive(100))
        again = await acknowledge(site, notices)
        assert again == found._replace(when=again.when)
        assert await receiving == b"late"

        await asyncio.sleep(0.3)
        server.sendto(b"stranger", client)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await way.receive(100)
        _, sender = await heard(site, notices)
        old = write(key_of(site), again._replace(kind=Kind.ACK), sender[1])
        notices.sendto(old, sender)  # an answer to what was said before
        for _ in range(6):
            with contextlib.suppress(ConnectionRefusedError):
                way.send(b"secret")
            await asyncio.sleep(0.1)
        with pytest.raises(ConnectionRefusedError):
            way.send(b"secret")
        with pytest.raises(BlockingIOError):
            server.recv(100)
        way.close()
    await agent.hang_up()


async def test_where_nothing_is_known_of_its_network_the_agent_is_asked(site):
    agent, ip = await a_running_pod(site)
    agent.tell({"type": "hello", "job": agent.job, "node": "n1", "seq": 9, "streams": 1})
    await agent.hear("welcome")
    dialling = asyncio.ensure_future(site.parts.network.dialer.connect(ip, 8080))
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
        await site.parts.network.dialer.connect("10.244.9.9", 80)
