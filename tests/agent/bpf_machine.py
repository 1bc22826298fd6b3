"""Runs a filter as the kernel does: what becomes of a call."""

from __future__ import annotations

import struct


def run(filter: bytes, number: int, args: tuple[int, ...] = (), arch: int = 0) -> int:
    """As kernel/bpf's classic machine, as far as our filters use it."""
    padded = [*args, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number, arch, 0, *padded)
    at, accumulator = 0, 0
    while True:
        code, then, otherwise, value = struct.unpack_from("<HBBI", filter, 8 * at)
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif code == 0x54:
            accumulator &= value
        elif code == 0x06:
            return int(value)
        elif code == 0x05:
            at += value
        else:
            tests = {0x15: accumulator == value, 0x25: accumulator > value}
            tests[0x45] = accumulator & value
            is_true = tests.get(code, accumulator >= value)
            at += then if is_true else otherwise
