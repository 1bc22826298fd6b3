"""The log of the control plane stays of a size, whoever has it written."""

from __future__ import annotations

import asyncio
import io
import logging
import os
from pathlib import Path

import pytest
from aiohttp import web

from orlop import log
from orlop.cli.control_plane.log_output import BURST, Moderation, Output, put_aside


@pytest.fixture
def spoken():
    """What was logged before is logged so again afterwards."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:], root.level = before, level


@pytest.fixture
def process(tmp_path: Path):
    """The log file as the two outputs of a process have it."""
    path = tmp_path / "orlop.log"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    descriptors = (os.dup(file), os.dup(file))
    os.close(file)
    yield path, descriptors
    for descriptor in descriptors:
        os.close(descriptor)


def test_a_log_goes_on_in_another_file_while_the_process_runs(process):
    path, descriptors = process
    output = Output(path, 1000, descriptors)
    for number in range(1000):
        output.write(f"{number}\n")
        assert path.stat().st_size <= 1000
    old = path.with_name("orlop.log.1")
    assert sorted(each.name for each in path.parent.iterdir()) == ["orlop.log", "orlop.log.1"]
    assert (old.read_text() + path.read_text()).split()[-1] == "999"
    assert path.stat().st_mode & 0o777 == 0o600
    os.write(descriptors[1], b"from a library\n")
    assert path.read_text().endswith("999\nfrom a library\n")


def test_what_is_not_the_log_file_is_left_alone(tmp_path):
    path = tmp_path / "orlop.log"
    path.write_text("another's")
    read, write = os.pipe()
    output = Output(path, 10, (write, write))
    output.write("x" * 100)
    output.flush()
    assert os.read(read, 1000) == b"x" * 100
    assert path.read_text() == "another's"
    os.close(read)
    os.close(write)


def test_a_link_in_the_place_of_the_log_is_not_written_to(process, tmp_path):
    path, descriptors = process
    (tmp_path / "victim").write_text("")
    output = Output(path, 10, descriptors)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "victim")
    output.write("x" * 100)
    output.write("y" * 100)
    assert (tmp_path / "victim").read_text() == ""


def test_a_log_is_put_aside_when_it_is_large(tmp_path):
    path = tmp_path / "orlop.log"
    assert not put_aside(path)
    path.write_text("x" * 10)
    assert not put_aside(path, 10)
    assert put_aside(path, 9)
    assert [each.name for each in tmp_path.iterdir()] == ["orlop.log.1"]


def test_what_anybody_may_cause_is_told_a_few_times_and_then_counted(spoken):
    time = 0.0
    log.configure(stream=spoken, moderation=Moderation(lambda: time))
    for number in range(10_000):
        log.logger("orlop.x").warning("nonsense", number=number)
    assert len(spoken.getvalue().splitlines()) == BURST
    time = 100.0
    log.logger("orlop.x").warning("nonsense")
    log.logger("orlop.x").warning("something else")
    lines = spoken.getvalue().splitlines()[BURST:]
    assert lines[0].endswith(f"nonsense left_out={10_000 - BURST}")
    assert lines[1].endswith("something else")


def test_what_we_tell_of_ourselves_is_all_told(spoken):
    log.configure(stream=spoken, moderation=Moderation())
    for number in range(1000):
        log.logger("orlop.x").info("submitted job", job=number)
    assert len(spoken.getvalue().splitlines()) == 1000


BAD = [
    b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x1b[2J\r\n2026-01-01T00:00:00.000Z INFO forged line\r\n\r\n",
]


async def test_a_flood_of_nonsense_is_little_in_the_log(spoken):
    """aiohttp tells each such request with its stack and its bytes."""

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response()

    log.configure(stream=spoken, moderation=Moderation())
    server = web.Server(answer)
    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        for number in range(400):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(BAD[number % len(BAD)])
            await reader.read(10)
            writer.close()
        await server.shutdown(0.1)
    said = spoken.getvalue()
    assert 0 < len(said) < 20_000
    assert "Traceback" not in said
    assert "forged" not in said
    assert all(line[:4].isdigit() for line in said.splitlines())
