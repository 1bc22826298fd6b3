"""Assembles a program made to measure: a static ELF file that makes a few system calls, then execs.

Used where a runtime can start a program in an image's root but cannot be trusted with its
environment, working directory or user: apptainer passes variables through shell code, and an image
may hold neither shell nor Python. The arguments of every call are in the file, so it parses nothing
and allocates nothing. Linux on x86-64 and aarch64.
"""

from __future__ import annotations

import struct

from ...linux.fast_imports import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

TEXT, DATA = 0x10000000, 0x20000000  # where the file is mapped: code, and what it refers to
PAGE = 0x10000  # the largest page of either architecture
ENOENT = 2
FAILED = 127  # exit code when the program could not be reached; its record says why
RECORD = struct.Struct("<qq")  # step, minus errno
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2

# Numbers of the same calls: x86-64, aarch64.
CALLS = {
    "write": (1, 64),
    "close": (3, 57),
    "ioctl": (16, 29),
    "fcntl": (72, 25),
    "execve": (59, 221),
    "exit": (60, 93),
    "chdir": (80, 49),
    "setsid": (112, 157),
    "setgroups": (116, 159),
    "setresuid": (117, 147),
    "setresgid": (119, 149),
    "capset": (126, 91),
    "prctl": (157, 167),
    "openat": (257, 56),
    "unlinkat": (263, 35),
    "ppoll": (271, 73),
    "unshare": (272, 97),
}


@value
class Cell:
    """Eight bytes of data, by their address: an argument that is known when the program runs."""

    address: int


if TYPE_CHECKING:
    Argument = Union[int, Cell]


class X86:
    """Instructions of x86-64, as bytes."""

    machine, column = 62, 0
    _REGISTERS = (7, 6, 2, 10, 8)  # rdi rsi rdx r10 r8

    def argument(self, index: int, number: int) -> bytes:  # mov register, number
        register = self._REGISTERS[index]
        return bytes([0x48 | register >> 3, 0xB8 | register & 7]) + _word(number)

    def argument_from(self, index: int, address: int) -> bytes:  # mov register, [address]
        register = self._REGISTERS[index]
        head = bytes([0x48 | register >> 3 << 2, 0x8B, 0x04 | (register & 7) << 3, 0x25])
        return head + struct.pack("<i", address)

    def call(self, number: int) -> bytes:  # mov eax, number; syscall
        return b"\xb8" + struct.pack("<I", number) + b"\x0f\x05"

    def store_result(self, address: int) -> bytes:  # mov [address], rax
        return b"\x48\xa3" + _word(address)

    def skip_if_good(self, length: int) -> bytes:  # test rax, rax; jns
        return b"\x48\x85\xc0\x0f\x89" + struct.pack("<i", length)

    def skip_if_error(self, errno: int, length: int) -> bytes:  # cmp eax, -errno; je
        return b"\x83\xf8" + struct.pack("<b", -errno) + b"\x0f\x84" + struct.pack("<i", length)


class Arm:
    """Instructions of aarch64, as bytes; x9 is ours."""

    machine, column = 183, 1

    def _load(self, register: int, number: int) -> bytes:  # movz, then movk three times
        code = b""
        for part in range(4):
            opcode = 0xD2800000 if part == 0 else 0xF2800000 | part << 21
            code += struct.pack("<I", opcode | (number >> 16 * part & 0xFFFF) << 5 | register)
        return code

    def argument(self, index: int, number: int) -> bytes:
        return self._load(index, number)

    def argument_from(self, index: int, address: int) -> bytes:  # ldr register, [x9]
        return self._load(9, address) + struct.pack("<I", 0xF9400000 | 9 << 5 | index)

    def call(self, number: int) -> bytes:  # svc #0
        return self._load(8, number) + struct.pack("<I", 0xD4000001)

    def store_result(self, address: int) -> bytes:  # str x0, [x9]
        return self._load(9, address) + struct.pack("<I", 0xF9000000 | 9 << 5)

    def skip_if_good(self, length: int) -> bytes:  # tbz x0, #63
        return struct.pack("<I", 0xB6000000 | 31 << 19 | (length // 4 + 1) << 5)

    def skip_if_error(self, errno: int, length: int) -> bytes:  # cmn w0, #errno; b.eq
        compare = 0x31000000 | errno << 10 | 31
        return struct.pack("<II", compare, 0x54000000 | (length // 4 + 1) << 5)


ARCHITECTURES: dict[str, type[X86] | type[Arm]] = {"x86_64": X86, "aarch64": Arm}


class Program:
    """Collects system calls, then gives the ELF file that makes them."""

    def __init__(self, machine: str) -> None:
        self._isa: X86 | Arm = ARCHITECTURES[machine]()
        self._code = bytearray()
        self._data = bytearray()
        self._report: Cell | None = None

    def data(self, content: bytes) -> int:
        """Keep bytes; return their address."""
        self._data += b"\0" * (-len(self._data) % 16)
        address = DATA + len(self._data)
        self._data += content
        return address

    def string(self, text: str) -> int:
        return self.data(text.encode(errors="surrogateescape") + b"\0")

    def number(self, value: int) -> Cell:
        """Keep a number that is known already."""
        return Cell(self.data(_word(value)))

    def strings(self, texts: list[str]) -> int:
        """Keep a null-terminated array of strings, as execve takes them; return its address."""
        addresses = [self.string(text) for text in texts]
        return self.data(b"".join(_word(address) for address in [*addresses, 0]))

    def call(self, name: str, *arguments: Argument, step: int = 0) -> Cell:
        """Make a call and keep its result; with a `step`, report a failure and end."""
        self._code += self._call(name, arguments)
        result = Cell(self.data(_word(0)))
        self._code += self._isa.store_result(result.address)
        if step:
            self._or_else(self._failure(step))
        return result

    def report_to(self, descriptor: Cell) -> None:
        """Write failures from here on to this descriptor, as a RECORD."""
        self._report = descriptor

    def become(self, paths: list[str], argv: list[str], env: list[str], step: int) -> None:
        """Try the paths in turn, as execvp does; report the error that says most."""
        argv_address, env_address = self.strings(argv), self.strings(env)
        record = self.data(RECORD.pack(step, -ENOENT))
        for path in paths:
            self._code += self._call("execve", (self.string(path), argv_address, env_address))
            store = self._isa.store_result(record + 8)
            self._code += self._isa.skip_if_error(ENOENT, len(store)) + store
        self._code += self._end(record)

    def _call(self, name: str, arguments: tuple[Argument, ...]) -> bytes:
        code = b""
        for index, argument in enumerate(arguments):
            if isinstance(argument, Cell):
                code += self._isa.argument_from(index, argument.address)
            else:
                code += self._isa.argument(index, argument)
        return code + self._isa.call(CALLS[name][self._isa.column])

    def _or_else(self, code: bytes) -> None:
        self._code += self._isa.skip_if_good(len(code)) + code

    def _failure(self, step: int) -> bytes:
        record = self.data(RECORD.pack(step, 0))
        return self._isa.store_result(record + 8) + self._end(record)

    def _end(self, record: int) -> bytes:
        code = b""
        if self._report is not None:
            code = self._call("write", (self._report, record, RECORD.size))
        return code + self._call("exit", (FAILED,))

    def elf(self) -> bytes:
        """Return the file: one segment of code, one of data."""
        code_at = PAGE
        data_at = code_at + len(self._code) + (-len(self._code) % PAGE)
        ident = b"\x7fELF\x02\x01\x01" + bytes(9)
        rest = (2, self._isa.machine, 1, TEXT, 64, 0, 0, 64, 56, 2, 0, 0, 0)
        header = ident + struct.pack("<HHIQQQIHHHHHH", *rest)
        header += _segment(5, code_at, TEXT, len(self._code))
        header += _segment(6, data_at, DATA, len(self._data))
        image = header.ljust(code_at, b"\0") + bytes(self._code)
        return image.ljust(data_at, b"\0") + bytes(self._data)


def confine(made: Program, filter: bytes, step: int) -> None:
    """Put a seccomp filter before what the program does from here on."""
    length = struct.pack("<H6xQ", len(filter) // 8, made.data(filter))  # struct sock_fprog
    made.call("prctl", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, made.data(length), 0, 0, step=step)


def _segment(flags: int, offset: int, address: int, size: int) -> bytes:
    return struct.pack("<IIQQQQQQ", 1, flags, offset, address, address, size, size, PAGE)


def _word(number: int) -> bytes:
    return struct.pack("<Q", number & 0xFFFFFFFFFFFFFFFF)
