"""Parsers with a fault each, by which the fuzzer itself is tried: it must find every one of them.

Never among the targets. Each fault is behind a few bytes that must be met first.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time

from .native import DRIVER, library
from .target import Registry, Target

target = Registry()
_SEEDS = (b'{"kind": "a", "count": 3}', b'{"kind": "b", "items": [1, 2]}')
_kept: list[bytes] = []


class Refused(ValueError):
    """What these parsers may raise."""


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refused(str(error)) from error


def _planted(run: object) -> Target:
    return Target(run=run, seeds=_SEEDS, refuses=(Refused,), is_json=True)  # type: ignore[arg-type]


@target("planted-nothing", "no fault at all", "nobody")
def nothing() -> Target:
    return _planted(_parsed)


@target("planted-error", "an exception that is none of its own", "nobody")
def error() -> Target:
    def run(data: bytes) -> None:
        found = _parsed(data)
        if isinstance(found, dict) and "count" in found:
            range(10)[found["count"]]

    return _planted(run)


@target("planted-crash", "the end of its process", "nobody")
def crash() -> Target:
    def run(data: bytes) -> None:
        found = _parsed(data)
        if isinstance(found, dict) and found.get("kind") is None:
            os.kill(os.getpid(), signal.SIGSEGV)

    return _planted(run)


@target("planted-slow", "a loop as long as an input says", "nobody")
def slow() -> Target:
    def run(data: bytes) -> None:
        found = _parsed(data)
        count = found.get("count") if isinstance(found, dict) else 0
        if isinstance(count, int) and count > 1000:
            until = time.process_time() + 1.5
            while time.process_time() < until:
                pass

    return _planted(run)


@target("planted-hang", "waiting for what never comes", "nobody")
def hang() -> Target:
    def run(data: bytes) -> None:
        found = _parsed(data)
        if isinstance(found, dict) and found.get("count") is None:
            time.sleep(3600)

    return _planted(run)


@target("planted-memory", "a number believed as a size", "nobody")
def memory() -> Target:
    def run(data: bytes) -> None:
        found = _parsed(data)
        count = found.get("count") if isinstance(found, dict) else 0
        if isinstance(count, int) and count > 1000:
            bytearray(384 << 20)[::4096] = b"x" * (98304)

    return _planted(run)


@target("planted-growth", "something of each input kept for ever", "nobody")
def growth() -> Target:
    def run(data: bytes) -> None:
        _kept.append(data[:1] * (1 << 18))
        _parsed(data)

    return _planted(run)


@target("planted-quadratic", "time as the square of a length", "nobody")
def quadratic() -> Target:
    def run(data: bytes) -> None:
        left = data[data.find(b"[") :]
        while left[:1] == b"[":
            left = left[1:]
            for _ in range(25):  # seconds for 64 KiB, also on quick machines
                left.count(b"x")
        raise Refused

    return _planted(run)


@target("planted-native", "a write beyond what was allocated, in C", "nobody", is_native=True)
def native() -> Target:
    driver = ctypes.CDLL(str(library(DRIVER)))

    def run(data: bytes) -> None:
        driver.fuzz_planted(data, len(data))

    return Target(run, (b"x\0\0\0\0\0", b"yes\0\0\0"))
