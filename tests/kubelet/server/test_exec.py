"""exec and attach at the kubelet's listener, in every protocol that clients speak."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from orlop.engine import JobState

from ..conftest import eventually
from ..objects import running, started
from ..streams import EchoAgent, SpdyCaller

EXEC = "/exec/default/web/main?output=1&error=1&command=sh&command=-c&command=a%20b"
WITH_INPUT = EXEC + "&input=1"


@asynccontextmanager
async def echoing(site: Any, behave: str = "echo", **hello: Any) -> AsyncIterator[EchoAgent]:
    """A running pod and its agent."""
    await site.create()
    agent = await site.agent()
    site.engine.set("17", JobState.RUNNING)
    await agent.say(started(), running())
    await site.until_phase("Running")
    echo = EchoAgent(agent, behave)
    await echo.hello(**(hello or {"streams": 1}))
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(echo.run())
        yield echo
        serving.cancel()


def port_of(site: Any) -> int:
    endpoints = json.loads(site.paths.endpoint.read_text())["endpoints"]
    return int(endpoints[-1].rpartition(":")[2])


def tls_of(site: Any) -> Any:
    return site.authority.client_context(site.authority.apiserver_kubelet_client)


@asynccontextmanager
async def websocket(site: Any, path: str, *protocols: str) -> AsyncIterator[Any]:
    url = f"https://127.0.0.1:{port_of(site)}{path}"
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls_of(site))) as session,
        session.ws_connect(
            url, protocols=protocols, server_hostname="orlop-kubelet", max_msg_size=0
        ) as socket,
    ):
        yield socket


async def messages(socket: Any) -> list[bytes]:
    """All until the server closes, without the empty one that begins."""
    found = []
    async for message in socket:
        data = message.data if isinstance(message.data, bytes) else message.data.encode()
        if len(data) > 1:
            found.append(data)
    return sorted(found)


async def refused(site: Any, path: str) -> tuple[int, str]:
    url = f"https://127.0.0.1:{port_of(site)}{path}"
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls_of(site))) as session,
        session.get(url, server_hostname="orlop-kubelet") as response,
    ):
        return response.status, await response.text()


# WebSocket


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_output_errors_and_the_exit_code_have_channels(site, protocol) -> None:
    async with echoing(site, "exit") as agent, websocket(site, EXEC, protocol) as socket:
        assert socket.protocol == protocol
        out, err, status = await messages(socket)
        assert (out, err) == (b"\x01out", b"\x02err")
        assert json.loads(status[1:])["details"]["causes"][0]["message"] == "42"
        assert status[0] == 3
    asked = agent.asked[0]
    assert (asked["argv"], asked["container"]) == (["sh", "-c", "a b"], "main")
    assert not asked["tty"]


async def test_base64_is_text_with_digits(site) -> None:
    async with (
        echoing(site, "exit"),
        websocket(site, EXEC, "base64.v4.channel.k8s.io") as socket,
    ):
        out, err, status = await messages(socket)
        assert (out, err) == (b"1" + base64.b64encode(b"out"), b"2" + base64.b64encode(b"err"))
        assert json.loads(base64.b64decode(status[1:]))["reason"] == "NonZeroExitCode"


@pytest.mark.parametrize("protocols", [("channel.k8s.io",), ()], ids=["v1", "none"])
async def test_old_clients_get_words(site, protocols) -> None:
    async with echoing(site, "exit"), websocket(site, EXEC, *protocols) as socket:
        assert (await messages(socket))[2].startswith(b"\x03command terminated")


async def test_v5_can_end_its_input(site) -> None:
    async with echoing(site), websocket(site, WITH_INPUT, "v5.channel.k8s.io") as socket:
        await socket.send_bytes(b"\x00hello")
        await socket.send_bytes(b"\xff\x00")
        out, status = await messages(socket)
        assert out == b"\x01hello"
        assert json.loads(status[1:])["status"] == "Success"


async def test_a_megabyte_comes_back_through_small_windows(site) -> None:
    data = bytes(range(256)) * 4096
    async with echoing(site), websocket(site, WITH_INPUT, "v5.channel.k8s.io") as socket:
        for at in range(0, len(data), 50_000):
            await socket.send_bytes(b"\x00" + data[at : at + 50_000])
        await socket.send_bytes(b"\xff\x00")
        found = b""
        async for message in socket:
            if message.data[0] == 1:
                found += message.data[1:]
        assert found == data


async def test_sizes_reach_the_agent(site) -> None:
    path = WITH_INPUT + "&tty=1"
    async with echoing(site) as agent, websocket(site, path, "v4.channel.k8s.io") as socket:
        await socket.send_bytes(b'\x04{"Width":90,"Height":30}')
        await eventually(lambda: agent.resized == [(90, 30)])
        assert agent.asked[0]["tty"]


async def test_a_client_that_goes_ends_its_command(site) -> None:
    async with echoing(site, "hang") as agent:
        async with websocket(site, WITH_INPUT, "v5.channel.k8s.io"):
            await eventually(lambda: agent.asked)
        await eventually(lambda: agent.closed == [agent.asked[0]["stream"]])


async def test_what_cannot_run_says_why(site) -> None:
    async with echoing(site, "fail"), websocket(site, EXEC, "v5.channel.k8s.io") as socket:
        (status,) = await messages(socket)
        assert "executable file not found in $PATH" in json.loads(status[1:])["message"]


async def test_an_agent_that_is_lost_ends_the_session_with_a_word(site) -> None:
    path = WITH_INPUT
    async with echoing(site, "hang") as agent, websocket(site, path, "v5.channel.k8s.io") as socket:
        await eventually(lambda: agent.asked)
        agent.agent.writer.close()
        (status,) = await messages(socket)
        assert "the connection to the pod's agent broke" in json.loads(status[1:])["message"]


async def test_attach_asks_for_the_containers_own_streams(site) -> None:
    path = "/attach/default/web/main?output=1&input=1"
    async with echoing(site) as agent, websocket(site, path, "v5.channel.k8s.io") as socket:
        await socket.send_bytes(b"\x00typed")
        await socket.send_bytes(b"\xff\x00")
        assert (await messages(socket))[0] == b"\x01typed"
        assert agent.asked[0]["type"] == "attach"


# SPDY


@pytest.mark.parametrize("version", ["v4.channel.k8s.io", "v3.channel.k8s.io", "channel.k8s.io"])
async def test_spdy_has_a_stream_for_each(site, version) -> None:
    async with echoing(site):
        offered = ("v9.channel.k8s.io", version)
        head, caller = await SpdyCaller.dial(port_of(site), tls_of(site), WITH_INPUT, *offered)
        assert head.startswith("HTTP/1.1 101")
        assert f"X-Stream-Protocol-Version: {version}" in head
        error, stdin, stdout, stderr = map(caller.open, ("error", "stdin", "stdout", "stderr"))
        caller.send(stdin, b"hello", is_last=True)
        await caller.until_ended(error, stdout, stderr)
        assert caller.received[stdout] == b"hello"
        said = caller.received[error]
        expected = b"Success" in said if version.startswith("v4") else said == b""
        assert expected, said
        caller.close()


async def test_spdy_terminals_have_sizes(site) -> None:
    path = "/exec/default/web/main?output=1&input=1&tty=1&command=sh"
    async with echoing(site, "hang") as agent:
        _, caller = await SpdyCaller.dial(
            port_of(site), tls_of(site), path, "v4.channel.k8s.io, v3.channel.k8s.io"
        )
        numbers = [caller.open(name) for name in ("error", "stdin", "stdout", "resize")]
        caller.send(numbers[3], b'{"Width":100,"Height":40}\n')
        await eventually(lambda: agent.resized == [(100, 40)])
        caller.close()
        await eventually(lambda: agent.closed)


async def test_protocols_that_nobody_serves_are_refused(site) -> None:
    async with echoing(site):
        head, caller = await SpdyCaller.dial(port_of(site), tls_of(site), EXEC, "v9.channel.k8s.io")
        assert head.startswith("HTTP/1.1 403")
        caller.close()


async def test_garbage_ends_the_connection_and_the_command(site) -> None:
    async with echoing(site, "hang") as agent:
        _, caller = await SpdyCaller.dial(port_of(site), tls_of(site), EXEC, "v4.channel.k8s.io")
        for name in ("error", "stdout", "stderr"):
            caller.open(name)
        await eventually(lambda: agent.asked)
        caller.writer.write(b"\x80\x02GARBAGE!" * 4)
        await eventually(lambda: agent.closed)
        caller.close()


# Refusals


async def test_refusals_are_upstreams_words(site) -> None:
    async with echoing(site):
        table = [
            ("/exec/default/nobody/main?output=1&command=a", 404, "pod does not exist"),
            ("/exec/default/web/x?output=1&command=a", 500, 'container not found ("x")'),
            ("/exec/default/web/main?command=a", 400, "you must specify at least 1 of stdin"),
            ("/exec/default/web/main?output=1", 400, "at least 1 command"),
            (EXEC, 400, "Upgrade request required"),
            ("/portForward/default/web", 400, "Upgrade request required"),
        ]
        for path, code, words in table:
            status, text = await refused(site, path)
            assert (status, words in text) == (code, True), (path, status, text)


async def test_commands_are_for_masters(site) -> None:
    url = f"https://127.0.0.1:{port_of(site)}{EXEC}"
    connector = aiohttp.TCPConnector(ssl=site.authority.client_context())
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(url, server_hostname="orlop-kubelet") as response,
    ):
        assert response.status == 401


async def test_an_agent_that_is_away_is_said_within_seconds(site, monkeypatch) -> None:
    monkeypatch.setattr("orlop.kubelet.server.server.REACH_TIME", 0.2)
    async with echoing(site) as agent:
        agent.agent.writer.close()
        await eventually(
            lambda: all(state.connection is None for state in site.parts.shared.cache.pods)
        )
        status, text = await refused(site, EXEC)
        assert status == 503
        assert "is not connected" in text


async def test_an_agent_of_an_earlier_version_is_said_to_be_one(site) -> None:
    async with echoing(site, seq=0):
        status, text = await refused(site, EXEC)
        assert status == 503
        assert "earlier version" in text
