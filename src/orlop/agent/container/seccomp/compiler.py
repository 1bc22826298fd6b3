"""Compiles a seccomp profile to the kernel's own code, classic BPF.

Given the rules of one machine by `of_container`. Numbers are found by halving, so that the first
call in a long list costs what the last does; calls of programs of another word size are not known
by the same numbers, and end the program.
"""

from __future__ import annotations

import struct

from ...netd.seccomp.syscall_numbers import AUDIT, X32
from .calls import numbers
from .profile import ACTIONS, EPERM, KILL, WITH_NUMBER, operator_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, value
    Code = list[Instruction]

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP, _EQUAL, _GREATER, _AT_LEAST = 0x05, 0x15, 0x25, 0x35
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_HALF = 0xFFFFFFFF
MAX_JUMP = 255
MAX_LENGTH = 4096  # BPF_MAXINSNS


def compiled(rules: dict[str, Any], machine: str) -> bytes:
    """Return the filter, as seccomp(2) takes it; raise OSError if it is too long for the kernel."""
    otherwise = _action(rules["defaultAction"], rules.get("defaultErrnoRet"))
    by_number = _by_number(rules, machine)
    leaves: list[tuple[int, Code]] = [(0, _ending(otherwise))]
    for number in sorted(by_number):
        leaf = _leaf(by_number[number], otherwise)
        if leaves[-1][1] != leaf:
            leaves.append((number, leaf))
        if number + 1 not in by_number and leaves[-1][1] != _ending(otherwise):
            leaves.append((number + 1, _ending(otherwise)))
    if machine == "x86_64":
        leaves.append((X32, _ending(ACTIONS[KILL])))
    code = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, AUDIT[machine]),
        *_ending(ACTIONS[KILL]),
        (_LOAD, 0, 0, _NUMBER),
        *_tree(leaves),
    ]
    if len(code) > MAX_LENGTH:
        raise OSError(f"the seccomp profile is {len(code)} instructions long, of {MAX_LENGTH}")
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _by_number(rules: dict[str, Any], machine: str) -> dict[int, list[dict[str, Any]]]:
    """Map each number to its rules, in their order."""
    known = numbers(machine)
    found: dict[int, list[dict[str, Any]]] = {}
    for rule in rules["syscalls"]:
        for name in rule["names"]:
            found.setdefault(known[name], []).append(rule)
    return found


def _leaf(rules: list[dict[str, Any]], otherwise: int) -> Code:
    """Return the code for one call: the first rule whose arguments fit, else one without any."""
    code: Code = []
    last = otherwise
    for rule in rules:
        action = _action(rule["action"], rule.get("errnoRet"))
        arguments = rule.get("args") or []
        if not arguments:
            last = action
            continue
        for group in _groups(arguments):
            code += _guarded(group, action)
    return code + _ending(last)


def _groups(arguments: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group what must all fit; as in runc, each is a rule if one argument is named twice."""
    indexes = [argument["index"] for argument in arguments]
    if len(set(indexes)) < len(indexes):
        return [[argument] for argument in arguments]
    return [arguments]


def _guarded(arguments: list[dict[str, Any]], action: int) -> Code:
    """Return the action where all arguments fit; else go on after it."""
    code = _ending(action)
    for argument in reversed(arguments):
        code = _test(argument, len(code)) + code
    return code


def _test(argument: dict[str, Any], beyond: int) -> Code:
    """Skip `beyond` instructions after it unless the argument fits; both halves are compared."""
    value, two = int(argument.get("value", 0)), int(argument.get("valueTwo", 0))
    operator, offset = operator_of(argument), _ARGUMENTS + 8 * argument["index"]
    low, high = (_LOAD, 0, 0, offset), (_LOAD, 0, 0, offset + 4)
    if operator == "MASKED_EQ":
        return [
            high, (_AND, 0, 0, value >> 32), (_EQUAL, 0, beyond + 3, two >> 32),
            low, (_AND, 0, 0, value & _HALF), (_EQUAL, 0, beyond, two & _HALF),
        ]  # fmt: skip
    top, bottom = value >> 32, value & _HALF
    if operator == "EQ":
        return [high, (_EQUAL, 0, beyond + 2, top), low, (_EQUAL, 0, beyond, bottom)]
    if operator == "NE":
        return [high, (_EQUAL, 0, 2, top), low, (_EQUAL, beyond, 0, bottom)]
    compare = _GREATER if operator in ("GT", "LE") else _AT_LEAST
    if operator in ("GT", "GE"):
        return [
            high, (_GREATER, 3, 0, top), (_EQUAL, 0, beyond + 2, top),
            low, (compare, 0, beyond, bottom),
        ]  # fmt: skip
    return [
        high, (_GREATER, beyond + 3, 0, top), (_EQUAL, 0, 2, top),
        low, (compare, beyond, 0, bottom),
    ]  # fmt: skip


def _tree(leaves: list[tuple[int, Code]]) -> Code:
    """Find the leaf of a number, which is in the accumulator: the last that begins before it."""
    if len(leaves) == 1:
        return leaves[0][1]
    middle = len(leaves) // 2
    left, right = _tree(leaves[:middle]), _tree(leaves[middle:])
    start = leaves[middle][0]
    if len(left) <= MAX_JUMP:
        return [(_AT_LEAST, len(left), 0, start), *left, *right]
    return [(_AT_LEAST, 0, 1, start), (_JUMP, 0, 0, len(left)), *left, *right]


def _ending(action: int) -> Code:
    return [(_RETURN, 0, 0, action)]


def _action(name: str, number: object) -> int:
    if name not in WITH_NUMBER:
        return ACTIONS[name]
    return ACTIONS[name] | (EPERM if number is None else int(str(number)) & 0xFFFF)
