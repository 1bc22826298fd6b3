"""Makes new inputs of known ones: bytes, lengths, words and nesting, and trees of JSON.

Used by the worker for each input. The same seed makes the same inputs. Most changes are small; a
few make an input as large as may be by one thing said over and over, which is what parsers that
are not linear, or that call themselves, fall over.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

INTERESTING = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 65, 127, 128, 192, 254, 255)
LENGTHS = (
    0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0xFFFFFF,
    0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF,
)  # fmt: skip
WORDS: tuple[bytes, ...] = (
    *(b"0", b"-1", b"00", b"1e999", b"-0.0", b"NaN", b"Infinity", b"0x10", b"1_0", b"+1"),
    *(b"2147483648", b"4294967296", b"9223372036854775808", b"18446744073709551616"),
    *(b"9" * 310, b"1" * 4301, b"1e400000000", b"0.1e-400000000"),
    *(b"\0", b"\r\n", b"\n", b"\r", b"\t", b" ", b"\x1f", b"\x7f", b"\x80", b"\xff\xff\xff\xff"),
    *(b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xe2\x80\xa8"),
    *("İ".encode(), "ß".encode(), "٣".encode(), "²".encode(), "\uff11".encode(), "\u0085".encode()),
    *(b"..", b"../", b"/", b"//", b"%2f", b"%252f", b"%00", b"%", b"%zz", b"\\", b'"', b"'"),
    *(b"null", b"true", b"false", b"None", b"{}", b"[]", b'""', b"{", b"}", b"[", b"]", b"(", b")"),
    *(b",", b":", b";", b"=", b"-", b"_", b".", b"*", b"&", b"@", b"#", b"$", b"?", b"|", b"~"),
)
# What opens and what closes it: the depth that some parsers cannot bear.
NESTS: tuple[tuple[bytes, bytes], ...] = (
    (b"[", b"]"), (b"{", b"}"), (b"(", b")"), (b'{"a":', b"}"), (b"[[", b"]]"), (b"[{", b"}]"),
    (b"!", b""), (b"-", b""), (b"- ", b""), (b"a: ", b""), (b"? ", b""), (b"&a [", b"]"),
    (b"a.", b""), (b"/a", b""), (b"'", b"'"), (b"\\", b""), (b"[a(", b")]"), (b"%25", b""),
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 0.5, -0.0,
    1e308, "", "a", "0", "-1", "1" * 4301, "\0", "\ud7ff", "é", "a" * 300, "../x", "/", [], {},
    [[]], [None], {"": None}, [{}], {"a": {}}, ["a"], [1],
)  # fmt: skip


class Mutator:
    def __init__(
        self,
        chance: random.Random,
        words: Sequence[bytes],
        *,
        is_json: bool = False,
        longest: int = 4096,
        largest: int = 1 << 16,
    ) -> None:
        self._random = chance.random
        self._bits = chance.getrandbits
        self._own = tuple(words)
        self._words = (*self._own, *WORDS)
        self._is_json = is_json
        self._longest, self._largest = longest, largest
        self._names = _names(self._own)
        self._ways: tuple[Callable[[bytearray], None], ...] = (
            *(self._flip, self._set, self._set, self._insert, self._delete, self._repeat),
            *(self._number, self._length, self._length, self._move, self._truncate),
            *(self._word, self._word, self._word_over, self._word_over),
        )

    def change(self, data: bytes, other: bytes) -> bytes:
        """Something like `data`, with a part of `other` now and then."""
        chance = self._random()
        if chance < 0.004:
            return self._amplified(data)
        if self._is_json and chance < 0.6:
            found = self._tree(data, other)
            if found is not None and chance < 0.5:
                return found[: self._longest]
            data = found or data
        changed = bytearray(self._spliced(data, other) if chance > 0.9 else data)
        while True:
            self._ways[int(self._random() * len(self._ways))](changed)
            if self._random() < 0.4:
                return bytes(changed[: self._longest])

    def _below(self, limit: int) -> int:
        return int(self._random() * limit)

    def _place(self, data: bytearray, most: int = 16) -> tuple[int, int]:
        """Begin and end of a piece, mostly a short one."""
        start = self._below(len(data) + 1)
        return start, min(len(data), start + 1 + self._below(most))

    # Bytes

    def _flip(self, data: bytearray) -> None:
        if data:
            data[self._below(len(data))] ^= 1 << self._below(8)

    def _set(self, data: bytearray) -> None:
        if data:
            is_any = self._random() < 0.5
            made = self._below(256) if is_any else INTERESTING[self._below(len(INTERESTING))]
            data[self._below(len(data))] = made

    def _insert(self, data: bytearray) -> None:
        at, count = self._below(len(data) + 1), 1 + self._below(8)
        data[at:at] = self._bits(8 * count).to_bytes(count, "big")

    def _delete(self, data: bytearray) -> None:
        start, end = self._place(data)
        del data[start:end]

    def _repeat(self, data: bytearray) -> None:
        start, end = self._place(data, 64)
        data[end:end] = data[start:end] * (1 + self._below(8))

    def _move(self, data: bytearray) -> None:
        start, end = self._place(data, 32)
        piece = data[start:end]
        del data[start:end]
        at = self._below(len(data) + 1)
        data[at:at] = piece

    def _truncate(self, data: bytearray) -> None:
        if self._random() < 0.3:
            del data[self._below(len(data) + 1) :]

    # What has a meaning

    def _length(self, data: bytearray) -> None:
        """A field of 2, 3, 4 or 8 bytes that says how long something is, or where."""
        size = (2, 2, 3, 4, 4, 8)[self._below(6)]
        if len(data) < size:
            return
        at = self._below(len(data) - size + 1)
        order = ("big", "little")[self._below(2)]
        if self._random() < 0.5:
            found = LENGTHS[self._below(len(LENGTHS))]
        else:
            found = int.from_bytes(data[at : at + size], order) + self._below(33) - 16  # type: ignore[arg-type]
        data[at : at + size] = (found & (1 << 8 * size) - 1).to_bytes(size, order)  # type: ignore[arg-type]

    def _number(self, data: bytearray) -> None:
        """A number in words."""
        at = self._below(len(data) + 1)
        for start in range(at, min(at + 64, len(data))):
            if 48 <= data[start] <= 57:
                end = start + 1
                while end < len(data) and 48 <= data[end] <= 57:
                    end += 1
                words = self._words[self._below(len(WORDS))] if self._random() < 0.3 else None
                data[start:end] = words or str(LENGTHS[self._below(len(LENGTHS))]).encode()
                return

    def _word(self, data: bytearray) -> None:
        at = self._below(len(data) + 1)
        data[at:at] = self._some_word()

    def _word_over(self, data: bytearray) -> None:
        word, at = self._some_word(), self._below(len(data) + 1)
        data[at : at + len(word)] = word

    def _some_word(self) -> bytes:
        if self._own and self._random() < 0.6:
            return self._own[self._below(len(self._own))]
        return self._words[self._below(len(self._words))]

    def _spliced(self, data: bytes, other: bytes) -> bytes:
        start, end = self._below(len(data) + 1), self._below(len(other) + 1)
        return data[:start] + other[end:]

    def _amplified(self, data: bytes) -> bytes:
        """As much of one thing as may be: nested, or one behind the other."""
        is_most = self._random() < 0.3
        size = self._largest if is_most else 1 << self._below(self._largest.bit_length())
        at = self._below(len(data) + 1)
        way = self._random()
        if way < 0.4:
            begin, end = NESTS[self._below(len(NESTS))]
            count = size // (len(begin) + len(end))
            return data[:at] + begin * count + end * count + data[at:]
        piece = self._some_word() if way < 0.7 else data[at : at + 1 + self._below(32)]
        return data[:at] + piece * (size // max(1, len(piece))) + data[at:]

    # Trees

    def _tree(self, data: bytes, other: bytes) -> bytes | None:
        """JSON with something in it changed; None where it is none."""
        try:
            tree = [json.loads(data)]
            self._change_in(tree, other)
            return json.dumps(tree[0]).encode()
        except (ValueError, RecursionError):
            return None

    def _change_in(self, tree: Any, other: bytes) -> None:
        holder, key = tree, 0
        while self._random() < 0.85:
            below = holder[key]
            if isinstance(below, dict) and below:
                names = list(below)
                holder, key = below, names[self._below(len(names))]
            elif isinstance(below, list) and below:
                holder, key = below, self._below(len(below))
            else:
                break
        self._change_at(holder, key, other)

    def _change_at(self, holder: Any, key: Any, other: bytes) -> None:
        way = self._below(8)
        if way < 3:
            holder[key] = VALUES[self._below(len(VALUES))]
        elif way == 3:
            holder[key] = self._some_word().decode("utf-8", "replace")
        elif way == 4:
            holder[key] = json.loads(other)
        elif way == 5 and isinstance(holder, dict):
            holder[self._names[self._below(len(self._names))]] = holder.pop(key)
        elif way == 6 and isinstance(holder[key], list):
            holder[key] = holder[key] * (1 + self._below(3))
        else:
            for _ in range(1 + self._below(60 if self._random() < 0.1 else 3)):
                holder[key] = [holder[key]] if self._random() < 0.5 else {"a": holder[key]}


def _names(words: Sequence[bytes]) -> tuple[str, ...]:
    """What keys may be renamed to."""
    return ("", "a", "$patch", "\0", *(word.decode("utf-8", "replace") for word in words))
