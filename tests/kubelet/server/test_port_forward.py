"""port-forward at the kubelet's listener, in every protocol that clients speak."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from orlop.kubelet.server.port_forward import TUNNEL
from orlop.kubelet.server.streaming import spdy

from ..conftest import eventually
from ..streams import SpdyCaller
from .test_exec import echoing, port_of, refused, tls_of, websocket

PATH = "/portForward/default/web"


async def test_pairs_of_streams_are_connections(site) -> None:
    async with echoing(site) as agent:
        head, caller = await SpdyCaller.dial(
            port_of(site), tls_of(site), PATH, "portforward.k8s.io"
        )
        assert "X-Stream-Protocol-Version: portforward.k8s.io" in head
        pairs = []
        for number, port in enumerate(("80", "81")):
            headers = {"port": port, "requestID": str(number)}
            pairs.append([caller.open(kind, **headers) for kind in ("error", "data")])
        for (_, data), text in zip(pairs, (b"one", b"two"), strict=True):
            caller.send(data, text, is_last=True)
        await caller.until_ended(pairs[0][1], pairs[1][1])
        assert [caller.received[data] for _, data in pairs] == [b"one", b"two"]
        assert [ask["port"] for ask in agent.asked] == [80, 81]
        caller.close()


async def test_clients_of_before_request_ids_open_the_error_stream_first(site) -> None:
    async with echoing(site):
        _, caller = await SpdyCaller.dial(port_of(site), tls_of(site), PATH, "portforward.k8s.io")
        _, data = caller.open("error", port="80"), caller.open("data", port="80")
        caller.send(data, b"x", is_last=True)
        await caller.until_ended(data)
        assert caller.received[data] == b"x"
        caller.close()


async def test_a_port_that_refuses_says_so_on_its_error_stream(site) -> None:
    async with echoing(site, "fail"):
        _, caller = await SpdyCaller.dial(port_of(site), tls_of(site), PATH, "portforward.k8s.io")
        error, data = caller.open("error", port="80"), caller.open("data", port="80")
        await caller.until_ended(error, data)
        assert caller.received[error].startswith(b"error forwarding port 80 to pod default/web")
        caller.close()


async def test_a_client_that_goes_closes_its_connections(site) -> None:
    async with echoing(site, "hang") as agent:
        _, caller = await SpdyCaller.dial(port_of(site), tls_of(site), PATH, "portforward.k8s.io")
        caller.open("error", port="80")
        caller.open("data", port="80")
        await eventually(lambda: agent.asked)
        caller.close()
        await eventually(lambda: agent.closed)


async def test_a_tunnel_carries_spdy_in_binary_messages(site) -> None:
    async with echoing(site), websocket(site, PATH, TUNNEL) as socket:
        assert socket.protocol == TUNNEL
        codec = spdy.Codec()
        sent = codec.open(1, {"streamtype": "error", "port": "80", "requestid": "0"})
        sent += codec.open(3, {"streamtype": "data", "port": "80", "requestid": "0"})
        sent += spdy.data(3, b"through", is_last=True)
        for at in range(0, len(sent), 11):  # bounds of messages mean nothing
            await socket.send_bytes(sent[at : at + 11])
        events: list[spdy.Event] = []
        async with asyncio.timeout(5):
            while spdy.Data(3, b"", True) not in events:
                events += codec.feed((await socket.receive()).data)
        assert spdy.Data(3, b"through") in events


@pytest.mark.parametrize("protocols", [("v4.channel.k8s.io",), ()], ids=["v4", "none"])
@pytest.mark.parametrize("query", ["ports=80&ports=443", "ports=80,443"])
async def test_ports_named_at_once_have_two_channels_each(site, protocols, query) -> None:
    async with echoing(site) as agent, websocket(site, f"{PATH}?{query}", *protocols) as socket:
        async with asyncio.timeout(5):
            opened = sorted([(await socket.receive()).data for _ in range(4)])
            assert opened == [b"\0\x50\0", b"\1\x50\0", b"\2\xbb\1", b"\3\xbb\1"]
            await socket.send_bytes(b"\2secret")
            assert (await socket.receive()).data == b"\2secret"
        assert sorted(ask["port"] for ask in agent.asked) == [80, 443]


async def test_ports_that_are_none_are_refused(site) -> None:
    async with echoing(site):
        for query, words in (("", "is required"), ("?ports=x", "unable to parse")):
            with pytest.raises(Exception, match="400"):
                async with websocket(site, PATH + query, "v4.channel.k8s.io"):
                    raise AssertionError(words)
        assert (await refused(site, "/portForward/default/nobody"))[0] == 404


@pytest.mark.parametrize(
    "streams",
    [
        [(1, "error", "80", "0"), (3, "data", "80", "0"), (3, "data", "80", "1")],
        [(3, "error", "80", "0"), (1, "data", "80", "0")],
        [(2 * n + 1, "error", "80", str(n)) for n in range(300)],
        [(1, "error", "80", "0"), (3, "data", "9" * 5_000, "0")],
        [(1, "error", "0", "0"), (3, "data", "0", "0")],
        [(1, "error", "80", "0"), (3, "data", "65536", "0")],
        [(1, "stdin", "80", "0")],
        [(1, "data", "80", "0"), (3, "data", "80", "0")],
    ],
    ids=[
        *("twice", "backwards", "without their half", "digits", "port 0", "beyond all ports"),
        *("of no pair", "two halves alike"),
    ],
)
async def test_streams_that_nobody_honest_opens_end_the_connection(site, streams) -> None:
    async with echoing(site, "hang") as agent:
        _, caller = await SpdyCaller.dial(port_of(site), tls_of(site), PATH, "portforward.k8s.io")
        for number, kind, port, request in streams:
            headers = {"streamtype": kind, "port": port, "requestid": request}
            caller.writer.write(caller.codec.open(number, headers))
        async with asyncio.timeout(20):
            while await caller.reader.read(1 << 16):
                pass
        assert len(agent.asked) <= 1
        caller.close()


async def test_streams_that_nobody_reads_hold_little(site) -> None:
    """However many there are: what fills one of them holds up its connection."""
    async with echoing(site, "hang"):
        _, caller = await SpdyCaller.dial(port_of(site), tls_of(site), PATH, "portforward.k8s.io")
        number = caller.open("error", port="80", requestID="0")
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 64 << 20:
                caller.writer.write(spdy.data(number, b"x" * (1 << 20)))
                sent += 1 << 20
                async with asyncio.timeout(2):
                    await caller.writer.drain()
        assert sent < 32 << 20, "the rest waits at the client"
        caller.close()


async def test_a_request_names_no_more_ports_than_anyone_needs(site) -> None:
    query = "&".join(["ports=80"] * 300)
    async with echoing(site):
        with pytest.raises(Exception, match="400"):
            async with websocket(site, f"{PATH}?{query}", "v4.channel.k8s.io"):
                raise AssertionError("more than anyone needs")
