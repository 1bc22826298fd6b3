"""The listener: who may come in, agents' conversations, logs over them."""

from __future__ import annotations

import asyncio
import json
import struct

import aiohttp
import pytest

from orlop.engine import JobState
from orlop.kubelet.agents import connection

from ..conftest import eventually
from ..fakes import FakeAgent
from ..objects import exited, finished, running, started

STAMP = "2026-01-01T00:00:0{}Z stdout F"


class Client:
    """Requests to the kubelet with a certificate, or without."""

    def __init__(self, site, session):
        endpoints = json.loads(site.paths.endpoint.read_text())["endpoints"]
        self.url = f"https://127.0.0.1:{endpoints[-1].rpartition(':')[2]}"
        self.session = session

    async def get(self, path):
        async with self.session.get(self.url + path, server_hostname="orlop-kubelet") as response:
            return response.status, await response.text()

    def open(self, path):
        return self.session.get(self.url + path, server_hostname="orlop-kubelet")


@pytest.fixture
async def master(site):
    pair = site.authority.apiserver_kubelet_client
    connector = aiohttp.TCPConnector(ssl=site.authority.client_context(pair))
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Client(site, session)


@pytest.fixture
async def nobody(site):
    connector = aiohttp.TCPConnector(ssl=site.authority.client_context())
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Client(site, session)


async def a_running_pod(site):
    await site.create()
    agent = await site.agent()
    site.engine.set("17", JobState.RUNNING)
    await agent.say(started(), running())
    await site.until_phase("Running")
    return agent


# Who may come in


async def test_anybody_may_ask_whether_it_is_well(nobody):
    assert await nobody.get("/healthz") == (200, "ok")


async def test_logs_are_for_masters_with_a_certificate(site, master, nobody):
    agent = await a_running_pod(site)
    agent.log("main", 0, STAMP.format(1) + " secret")
    await agent.say(exited(0), finished("Succeeded"))
    assert await nobody.get("/containerLogs/default/web/main") == (401, "Unauthorized")
    assert await master.get("/containerLogs/default/web/main") == (200, "secret\n")


async def test_a_certificate_of_another_group_reads_no_logs(site, tmp_path):
    await a_running_pod(site)
    context = site.authority.client_context()
    certificate, key = site.authority.issue("jane", ["developers"])
    (tmp_path / "jane.pem").write_bytes(certificate + key)
    context.load_cert_chain(tmp_path / "jane.pem")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        status, _ = await Client(site, session).get("/containerLogs/default/web/main")
    assert status == 401


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({}, "101"),
        ({"token": "wrong"}, "401"),
        ({"token": ""}, "401"),
        ({"uid": "00000000-another-pod"}, "401"),
    ],
)
async def test_an_agent_comes_in_by_the_token_of_its_own_pod_alone(site, options, answer):
    await site.create()
    await site.submitted()
    agent = FakeAgent(site.folder())
    said = await agent.dial(site.authority.client_context(), **options)
    assert said.split()[1] == answer
    await agent.hang_up()


async def test_the_token_of_one_pod_opens_no_other(site):
    await site.create("one")
    await site.create("two")
    await site.submitted("one")
    await site.submitted("two")
    other = (site.folder("two") / "token").read_text()
    agent = FakeAgent(site.folder("one"))
    assert "401" in await agent.dial(site.authority.client_context(), token=other)
    await agent.hang_up()


async def test_a_pod_that_is_gone_has_no_agents(site):
    from orlop.kubelet.pod.folder import agent_token

    await site.create()
    await site.submitted()
    agent = FakeAgent(site.folder())
    uid = "11111111-2222-3333-4444-555555555555"
    token = agent_token(site.authority.token_key, uid)
    said = await agent.dial(site.authority.client_context(), token=token, uid=uid)
    assert said.split()[1] == "404"
    await agent.hang_up()


# Conversations


async def test_a_new_connection_takes_the_place_of_the_old(site):
    first = await a_running_pod(site)
    second = await site.agent()
    assert second.acked == 2
    await first.reader.read()  # to its end
    second.seq = 2
    await second.say(exited(0), finished("Succeeded"))
    await site.until_phase("Succeeded")
    await second.hang_up()


@pytest.mark.parametrize(
    "garbage",
    [
        b"not json",
        b"[]",
        b"{}",
        b'{"type":"closed","stream":"x"}',
        b'{"type":"record"}',
        b"\xff\xff",
    ],
)
async def test_an_agent_that_speaks_nonsense_is_cut_off_and_may_come_again(site, garbage):
    agent = await a_running_pod(site)
    agent.tell(garbage)
    async with asyncio.timeout(2):
        await agent.reader.read()
    again = await site.agent()
    again.seq = 2
    await again.say(exited(0), finished("Succeeded"))
    await site.until_phase("Succeeded")
    await again.hang_up()


@pytest.mark.parametrize(
    "message",
    [
        {"type": "news", "of": "the future"},
        {"type": "pong"},
        {"type": "closed", "stream": 99, "error": ""},
        {"type": "record", "record": {"seq": "x"}},
        {"type": "record", "record": None},
    ],
)
async def test_messages_of_another_version_are_passed_over(site, message):
    agent = await a_running_pod(site)
    agent.tell(message)
    agent.tell(b"nobody asked for this", stream=42)
    await agent.say(exited(0), finished("Succeeded"))
    await site.until_phase("Succeeded")
    await agent.hang_up()


async def test_a_frame_that_is_too_long_ends_the_connection(site):
    agent = await a_running_pod(site)
    agent.writer.write(struct.pack(">II", 1 << 30, 0))
    async with asyncio.timeout(2):
        await agent.reader.read()
    await agent.hang_up()


async def test_agents_are_pinged_and_the_dead_are_given_up(site, monkeypatch):
    monkeypatch.setattr(connection, "PING_INTERVAL", 0.05)
    monkeypatch.setattr(connection, "SILENCE", 0.3)
    agent = await a_running_pod(site)
    for _ in range(10):
        await agent.hear("ping")
        agent.tell({"type": "pong"})
    [state] = list(site.parts.shared.cache.pods)
    assert state.connection is not None
    await eventually(lambda: state.connection is None, "silence is noticed")
    await agent.hang_up()


async def test_hundreds_of_agents_are_heard(site):
    count = 120
    await asyncio.gather(*(site.create(f"p{n}") for n in range(count)))
    for n in range(count):
        await site.submitted(f"p{n}")
    every = await asyncio.gather(*(site.agent(f"p{n}") for n in range(count)))
    await asyncio.gather(*(agent.say(started(), running()) for agent in every))
    for n in range(count):
        await site.until_phase("Running", f"p{n}")
    await asyncio.gather(*(agent.hang_up() for agent in every))


# Logs over a conversation


async def test_a_followed_log_comes_live_from_the_agent(site, master):
    agent = await a_running_pod(site)
    agent.log("main", 0, STAMP.format(1) + " one")
    path = "/containerLogs/default/web/main?follow=true"
    async with master.open(path) as response:
        assert await response.content.readline() == b"one\n"
        asked = await agent.hear("logs")
        size = len((agent.folder / "logs/main/0.log").read_bytes())
        assert (asked["container"], asked["restart"], asked["offset"]) == ("main", 0, size)
        agent.tell({"type": "opened", "stream": asked["stream"], "size": size})
        agent.tell(f"{STAMP.format(2)} two\n".encode(), stream=asked["stream"])
        assert await response.content.readline() == b"two\n"
        agent.tell({"type": "closed", "stream": asked["stream"], "error": ""})
        assert await response.content.read() == b""
    await agent.hang_up()


async def test_a_reader_who_goes_away_ends_the_stream(site, master):
    agent = await a_running_pod(site)
    agent.log("main", 0, STAMP.format(1) + " one")
    async with master.open("/containerLogs/default/web/main?follow=true") as response:
        await response.content.readline()
        asked = await agent.hear("logs")
        response.close()
    assert (await agent.hear("close"))["stream"] == asked["stream"]
    await agent.hang_up()


async def test_a_slow_reader_does_not_hold_up_the_pods_reports(site, master, monkeypatch):
    monkeypatch.setattr(connection, "MAX_BUFFERED", 1000)
    agent = await a_running_pod(site)
    async with master.open("/containerLogs/default/web/main?follow=true") as response:
        asked = await agent.hear("logs")
        text = "".join(f"{STAMP.format(1)} {n:0100d}\n" for n in range(50)).encode()
        # In one frame: far more than may wait, so that the stream is closed and asked for anew.
        agent.tell(text, stream=asked["stream"])
        assert (await agent.hear("close"))["stream"] == asked["stream"]
        lines = [await response.content.readline() for _ in range(50)]
        assert lines[-1] == b"%0100d\n" % 49
        again = await agent.hear("logs")
        assert again["offset"] == len(text)
        agent.tell(b"late, and of the old stream", stream=asked["stream"])
        agent.tell(f"{STAMP.format(2)} end\n".encode(), stream=again["stream"])
        assert await response.content.readline() == b"end\n"
        agent.tell({"type": "closed", "stream": again["stream"], "error": ""})
    await agent.hang_up()


async def test_a_log_is_followed_over_a_new_connection_when_the_old_breaks(site, master):
    agent = await a_running_pod(site)
    async with master.open("/containerLogs/default/web/main?follow=true") as response:
        asked = await agent.hear("logs")
        agent.tell(f"{STAMP.format(1)} one\n".encode(), stream=asked["stream"])
        assert await response.content.readline() == b"one\n"
        await agent.hang_up()
        again = await site.agent()
        asked = await again.hear("logs")
        again.tell(f"{STAMP.format(2)} two\n".encode(), stream=asked["stream"])
        assert await response.content.readline() == b"two\n"
        again.tell({"type": "closed", "stream": asked["stream"], "error": ""})
        assert await response.content.read() == b""
    await again.hang_up()


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("default/nosuch/main", 404, 'pod "nosuch" does not exist'),
        ("default/web/nosuch", 404, 'container "nosuch" not found in pod "web"'),
        ("default/web/main?previous=true", 400, "previous terminated container"),
        ("default/web/main?tailLines=x", 400, "tailLines"),
    ],
)
async def test_what_cannot_be_shown_is_refused_in_words(site, master, path, status, words):
    agent = await a_running_pod(site)
    found, text = await master.get(f"/containerLogs/{path}")
    assert found == status
    assert words in text
    await agent.hang_up()


async def test_the_log_of_a_queued_pod_says_what_it_waits_for(site, master):
    await site.create()
    await site.until(lambda pod: "job waits" in json.dumps(pod["status"]))
    status, text = await master.get("/containerLogs/default/web/main")
    assert status == 400
    assert text.endswith("is waiting to start: job waits in partition main")


async def test_an_agent_speaks_for_its_own_pod_whatever_it_says(site):
    """Nothing in a message says whose it is: the connection does."""
    agent = await a_running_pod(site)
    await site.create("other")
    await site.submitted("other")
    uid = (await site.pod("other"))["metadata"]["uid"]
    claim = {"uid": uid, "pod": "default/other", "namespace": "default", "podIP": "10.9.9.9"}
    body = {"protocol": "tcp", "port": 80, "real": 4000, "address": "10.9.9.9", "tcp": {"80": 4000}}
    for kind in ("net-state", "net-listen"):
        agent.tell({"type": kind, **claim, **body})
    await agent.say({**exited(3), **claim}, {**finished("Failed"), **claim})
    await site.until_phase("Failed")  # its own, which it may end
    other = await site.pod("other")
    assert other["status"].get("phase", "Pending") == "Pending"
    told = other["status"].get("containerStatuses", [])
    assert not any("terminated" in one["state"] for one in told)
    assert uid not in site.parts.network.network.view.places
