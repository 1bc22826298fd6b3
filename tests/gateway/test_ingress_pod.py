"""The router is a pod and a service of the cluster while there is something to route."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from contextlib import AsyncExitStack
from ipaddress import IPv4Network

import pytest
from aiohttp import web

from orlop.api.kinds import ENDPOINT_SLICE, INGRESS, NODE, POD, SERVICE
from orlop.api.objects import Key, annotations_of
from orlop.controllers.networking.endpointslice import EndpointSlices
from orlop.errors import BadRequest
from orlop.gateway import ingress_listeners
from orlop.gateway.ingress_pod import IngressPod
from orlop.kubelet.agents.sessions import SessionFailed
from orlop.kubelet.network.mirror_ports import MirrorPorts
from orlop.network.addresses import PodAddresses
from orlop.network.notices import LENGTH, Kind, Said, cookie_of, read, write
from orlop.wellknown import ENGINE_LABEL, MIRROR

from .conftest import KEY, a_service, an_ingress, soon, told

SYSTEM, NAME = "kube-system", "orlop-ingress"


class View:
    """Where agents are told that pods without an agent are."""

    def __init__(self):
        self.standing = {}

    def stand(self, address, place):
        self.standing[address] = place


@pytest.fixture
async def mirrors():
    made = MirrorPorts(PodAddresses(IPv4Network("10.244.0.0/16"), 300), View())
    made.begin()
    return made


@pytest.fixture
async def both(cluster, router, mirrors):
    """The router without ports of its own, and what shows it, on a node of ours."""
    await cluster.create(NODE, {"metadata": {"name": "debug", "labels": {ENGINE_LABEL: "test"}}})
    made = []

    def make_router(informers):
        made.append(router(informers, (0, 0)))
        return made[0]

    def make_pod(informers):
        return IngressPod(cluster.api, informers, made[0], mirrors, address="127.0.0.1")

    def make_slices(informers):
        return EndpointSlices(cluster.api, informers)

    async with cluster.running(make_router, make_pod, make_slices):
        yield made[0]


async def shown(cluster):
    pod = await cluster.get(POD, NAME, SYSTEM)
    assert pod["status"]["phase"] == "Running"
    return pod


async def test_it_is_there_while_an_ingress_is(cluster, both, mirrors):
    assert await cluster.find(POD, NAME, SYSTEM) is None
    await cluster.create(INGRESS, an_ingress())
    pod = await soon(lambda: shown(cluster))
    assert MIRROR in annotations_of(pod)
    assert pod["status"]["podIP"] in mirrors._view.standing

    async def has_endpoints():
        (one,) = await cluster.list(ENDPOINT_SLICE, SYSTEM)
        assert [e["addresses"] for e in one["endpoints"]] == [[pod["status"]["podIP"]]]
        service = await cluster.get(SERVICE, NAME, SYSTEM)
        found = await cluster.get(INGRESS, "shop")
        inside = [{"ip": service["spec"]["clusterIP"]}]
        assert found["status"]["loadBalancer"]["ingress"] == inside

    await soon(has_endpoints)
    await cluster.api.delete(INGRESS, Key("default", "shop"))

    async def is_gone():
        for kind in (POD, SERVICE):
            assert await cluster.find(kind, NAME, SYSTEM) is None

    await soon(is_gone)
    assert not any(mirrors._view.standing.values())


async def test_a_pod_that_is_deleted_comes_back(cluster, both):
    await cluster.create(INGRESS, an_ingress())
    pod = await soon(lambda: shown(cluster))
    await cluster.api.delete(POD, Key(SYSTEM, NAME), grace=30)

    async def is_back():
        assert (await shown(cluster))["metadata"]["uid"] != pod["metadata"]["uid"]

    await soon(is_back)


async def test_a_pod_of_another_of_that_name_is_let_be(cluster, both):
    theirs = {
        "metadata": {"name": NAME, "namespace": SYSTEM},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    }
    await cluster.create(POD, theirs, SYSTEM)
    await cluster.create(INGRESS, an_ingress())

    async def has_service():
        assert await cluster.find(SERVICE, NAME, SYSTEM) is not None

    await soon(has_service)
    assert (await cluster.get(POD, NAME, SYSTEM))["status"]["phase"] == "Pending"


async def session_to(mirrors, pod, port):
    session = mirrors.ports_of(pod)(port)
    await session.opened()
    return session


async def test_a_request_comes_by_a_session_of_the_pod(cluster, both, mirrors, backend):
    await a_service(cluster, await backend(told))
    await cluster.create(INGRESS, an_ingress())
    pod = await soon(lambda: shown(cluster))

    async def is_answered():
        session = await session_to(mirrors, pod, 80)
        try:
            await session.main.write(
                b"GET /x HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n"
            )
            answer = b""
            while data := await session.main.read():
                answer += data
        finally:
            session.close()
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b'"x-forwarded-for": "127.0.0.1"' in answer

    await soon(is_answered)


async def test_a_mirror_pod_that_nobody_stands_for_has_no_ports(mirrors):
    pod = {"metadata": {"name": "job", "namespace": "default", "uid": "u"}}
    with pytest.raises(BadRequest, match="only shows what runs without it"):
        mirrors.ports_of(pod)


async def test_a_port_that_the_router_has_not_is_refused(cluster, both, mirrors):
    await cluster.create(INGRESS, an_ingress())
    pod = await soon(lambda: shown(cluster))
    with pytest.raises(SessionFailed, match="80 and 443"):
        await session_to(mirrors, pod, 81)


def bound(port=0):
    sock = socket.socket()
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


def speak_for(door, sock, more=0):
    """As the agent does whose pod has connected a socket."""
    real, pod, to = sock.getsockname(), ("10.244.9.9", 5000), ("10.244.1.1", 80)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as said:
        words = Said(real, pod, to, door.ports[80], 1, more=more, when=time.time())
        said.sendto(write(bytes.fromhex(KEY), words, door.notice), ("127.0.0.1", door.notice))


async def connected(both, is_announced):
    """What a pod gets of the router's own port for pods."""
    door = await both.opened()
    sock = bound()
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", door.ports[80]))
    if is_announced:
        speak_for(door, sock)
    return sock


async def test_pods_are_let_in_by_their_agents_word_and_known_by_it(cluster, both, backend):
    await a_service(cluster, await backend(told))
    await cluster.create(INGRESS, an_ingress())

    async def is_answered():
        sock = await connected(both, True)
        reader, writer = await asyncio.open_connection(sock=sock)
        writer.write(b"GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        assert b'"x-forwarded-for": "10.244.9.9"' in answer

    await soon(is_answered)


class Asker:
    """Asks over one connection, again and again, whom the backend takes it for."""

    def __init__(self, sock):
        self._sock, self._streams = sock, None

    async def is_taken_for(self, expected):
        if self._streams is None:
            self._streams = await asyncio.open_connection(sock=self._sock)
        reader, writer = self._streams
        writer.write(b"GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n")
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        body = await reader.readexactly(int(length))
        assert head.startswith(b"http/1.1 200 "), body
        assert json.loads(body)["headers"]["x-forwarded-for"] == expected

    def close(self):
        if self._streams is not None:
            self._streams[1].close()
        self._sock.close()


async def test_a_pod_is_known_for_as_long_as_its_connection(cluster, both, backend):
    await a_service(cluster, await backend(told))
    await cluster.create(INGRESS, an_ingress())
    async with AsyncExitStack() as stack:
        askers = []
        for _ in range(3):
            askers.append(Asker(await connected(both, True)))
            stack.callback(askers[-1].close)
            await soon(lambda: askers[-1].is_taken_for("10.244.9.9"))
        for asker in askers:
            await asker.is_taken_for("10.244.9.9")


async def test_a_stranger_at_the_port_of_a_pods_connection_is_not_that_pod(
    cluster, router, ports, backend
):
    made = []

    def make(informers):
        made.append(router(informers))
        return made[0]

    await a_service(cluster, await backend(told))
    await cluster.create(INGRESS, an_ingress())
    async with cluster.running(make), AsyncExitStack() as stack:
        theirs = await connected(made[0], True)
        pod, stranger = Asker(theirs), bound(theirs.getsockname()[1])
        stack.callback(pod.close)
        await soon(lambda: pod.is_taken_for("10.244.9.9"))
        await asyncio.get_running_loop().sock_connect(stranger, ("127.0.0.1", ports[0]))
        other = Asker(stranger)
        stack.callback(other.close)
        await other.is_taken_for("127.0.0.1")


async def test_a_flood_of_notices_is_heard_bit_by_bit(authority):
    with socket.socket(type=socket.SOCK_DGRAM) as here, socket.socket(type=socket.SOCK_DGRAM) as by:
        here.bind(("127.0.0.1", 0))
        here.setblocking(False)
        for _ in range(ingress_listeners.HEARD_AT_ONCE + 1):
            by.sendto(b"nobody's", here.getsockname())
        async with asyncio.TaskGroup() as group:
            tls = authority.server_context(authority.apiserver)
            ingress_listeners.IngressListeners(web.Server(told), tls, KEY, group)._hear(here)
        assert here.recv(100) == b"nobody's"
        with pytest.raises(BlockingIOError):
            here.recv(100)


async def test_a_stranger_who_takes_the_port_of_a_pod_that_gave_up_is_turned_away(both):
    """The agent's word was for a connection that never came to be, not for its port."""
    door = await both.opened()
    theirs = bound()
    speak_for(door, theirs)
    port = theirs.getsockname()[1]
    theirs.close()
    await asyncio.sleep(0.05)
    with bound(port) as stranger:
        loop = asyncio.get_running_loop()
        await loop.sock_connect(stranger, ("127.0.0.1", door.ports[80]))
        assert await loop.sock_recv(stranger, 1) == b""


async def test_an_agent_is_told_that_its_connection_is_known(both):
    door = await both.opened()
    with bound() as sock, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as netd:
        netd.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, ("127.0.0.1", door.ports[80]))
        real, pod, to = sock.getsockname(), ("10.244.9.9", 5000), ("10.244.1.1", 80)
        said = Said(real, pod, to, door.ports[80], 1, when=time.time())
        for _ in range(2):  # the first answer may be lost
            raw = write(bytes.fromhex(KEY), said, door.notice)
            netd.sendto(raw, ("127.0.0.1", door.notice))
            raw = await loop.sock_recv(netd, LENGTH)
            heard = read(bytes.fromhex(KEY), raw, time.time(), netd.getsockname()[1])
            assert heard == said._replace(kind=Kind.ACK)


async def is_answered(sock):
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, b"GET / HTTP/1.0\r\n\r\n")
    try:
        return (await loop.sock_recv(sock, 100)).startswith(b"HTTP/")
    except ConnectionError:
        return False


@pytest.mark.parametrize("is_it", [True, False])
async def test_an_agent_of_this_host_says_which_socket_it_is(both, monkeypatch, is_it):
    """By the cookie that no other ever has; however late that is read."""
    cookies = []
    monkeypatch.setattr(ingress_listeners, "MAX_UNREAD", -1.0)
    monkeypatch.setattr(
        ingress_listeners, "cookie_of", lambda sock: cookies.append(cookie_of(sock)) or 77
    )
    door, loop = await both.opened(), asyncio.get_running_loop()
    with bound() as sock:
        await loop.sock_connect(sock, ("127.0.0.1", door.ports[80]))
        for _ in range(2):  # one that has come is taken at the first notice
            speak_for(door, sock, 77 if is_it else 78)
        assert await is_answered(sock) == is_it
    assert all(cookies)


@pytest.mark.parametrize("unread", [0.25, -1.0], ids=["fresh", "lay unread"])
async def test_what_lay_unread_lets_nobody_in(both, monkeypatch, unread):
    """Its sender may hold the connection no more, and another may have its port."""
    monkeypatch.setattr(ingress_listeners, "MAX_UNREAD", unread)
    with await connected(both, True) as sock:
        assert await is_answered(sock) == (unread > 0)


async def test_who_has_nobodys_word_is_turned_away(both):
    sock = await connected(both, False)
    with sock:
        assert await asyncio.get_running_loop().sock_recv(sock, 1) == b""


async def test_requests_of_http_1_0_are_answered(cluster, both, mirrors, backend):
    async def streamed(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"all")
        await response.write_eof()
        return response

    await a_service(cluster, await backend(streamed))
    await cluster.create(INGRESS, an_ingress())
    await soon(lambda: shown(cluster))

    async def is_answered():
        sock = await both.connect(80)
        reader, writer = await asyncio.open_connection(sock=sock)
        writer.write(b"GET / HTTP/1.0\r\nHost: shop.example\r\n\r\n")
        answer = await reader.read()
        writer.close()
        assert answer.endswith(b"\r\n\r\nall"), answer

    await soon(is_answered)


async def test_handshakes_are_made_within_the_process(cluster, both, authority):
    sock = await both.connect(443)
    reader, writer = await asyncio.open_connection(
        sock=sock, ssl=authority.client_context(authority.admin), server_hostname="127.0.0.1"
    )
    writer.write(b"GET / HTTP/1.1\r\nHost: nobody\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 404 ")
    writer.close()
