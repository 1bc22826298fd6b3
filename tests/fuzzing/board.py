"""What a worker is doing now, in a file that both it and its watcher have mapped.

Written before each input, so that the input which kills a worker, or never ends, is known. Nobody
waits for anybody here.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

ROOM = 8 << 20  # bytes; no input is larger
_HEAD = struct.Struct("<4Q")  # writes so far, which target, which input, its length


class Board:
    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        if is_new:
            with path.open("wb") as file:
                file.truncate(_HEAD.size + ROOM)
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _HEAD.size + ROOM)
        self._writes = 0

    def write(self, target: int, number: int, data: bytes) -> None:
        end = _HEAD.size + len(data)
        self._memory[_HEAD.size : end] = data
        self._writes += 1
        _HEAD.pack_into(self._memory, 0, self._writes, target, number, len(data))

    @property
    def place(self) -> tuple[int, int]:
        """Which target it is at, and which of its inputs."""
        _, target, number, _ = _HEAD.unpack_from(self._memory)
        return target, number

    @property
    def writes(self) -> int:
        """How often it has written: whether it gets on."""
        return int(_HEAD.unpack_from(self._memory)[0])

    @property
    def input(self) -> bytes:
        length = _HEAD.unpack_from(self._memory)[3]
        return self._memory[_HEAD.size : _HEAD.size + length]

    def close(self) -> None:
        self._memory.close()
