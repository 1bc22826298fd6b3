"""Writes the shell scripts that copy volumes' files to a SlurmJob, and its results to volumes.

Made by `preparation`; pure. A job fetches its inputs itself, on its first node, when Slurm starts
it: what it depends on may have written them a moment before. Results are kept by whoever needs them
first: the control plane after the end, or a job that depends on them at its own start, which Slurm
starts without asking Orlop. If the scripts run twice, or at once, they copy once.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import NamedTuple

FETCH, KEEP = "fetch", "keep"
PROBLEM = "fetch.errors"  # what kept the job from starting
FETCHED, KEPT = "fetched", "kept"
NOTHING_FETCHED = 66  # the exit code of such a job: EX_NOINPUT of sysexits.h
_PART = "part"  # argument of KEEP: others of the array still write


class Input(NamedTuple):
    source: Path
    target: str  # relative to where the job starts; a file goes into what ends with a slash


class Result(NamedTuple):
    pattern: str  # relative to where the job starts
    target: Path


class Producer(NamedTuple):
    """A job that ends, or one of whose tasks ends, before this one starts."""

    folder: Path
    is_whole: bool


def fetching(
    folder: Path, work: Path, inputs: Iterable[Input], producers: Iterable[Producer]
) -> str:
    """Return what the job runs before its program; empty if there is nothing to do."""
    producers = list(producers)
    wanted = [f"fetch {quote(str(one.source))} {quote(one.target)} || exit" for one in inputs]
    kept = [_kept(one) for one in producers]
    if not wanted and not kept:
        return ""
    is_in_parts = any(not one.is_whole for one in producers)
    # Of an array the first task fetches for all, and what another task's counterpart has written
    # since, for who depends on that one alone; files that others read stay as they are.
    again = "update=-u" if is_in_parts else "exit 0"
    return _script(
        folder / f"{FETCH}.lock",
        *kept,
        f"cd {quote(str(work))} || exit",
        "update=",
        f"[ ! -e {quote(str(folder / FETCHED))} ] || {again}",
        "fetch() {",
        '  if [ -d "$1" ]; then',
        '    mkdir -p -- "$2" && cp -RPp $update -- "$1/." "$2/"',
        "  else",
        '    mkdir -p -- "$(dirname -- "$2.")" && cp -p $update -- "$1" "$2"',
        "  fi",
        "}",
        *wanted,
        f": > {quote(str(folder / FETCHED))}",
    )


def _kept(producer: Producer) -> str:
    """Return the command that keeps a producer's results; a deleted one takes them along."""
    script = quote(str(producer.folder / KEEP))
    run = f"bash {script}" if producer.is_whole else f"bash {script} {_PART}"
    return f"[ ! -e {script} ] || {run} || [ ! -e {script} ] || exit"


def keeping(folder: Path, work: Path, results: Iterable[Result]) -> str:
    """Return the script that copies what the job has left; empty if no volume gets anything."""
    wanted = [f"keep {quote(one.pattern)} {quote(str(one.target))} || exit" for one in results]
    if not wanted:
        return ""
    mark = quote(str(folder / KEPT))
    return _script(
        folder / f"{KEEP}.lock",
        f"[ ! -e {mark} ] || exit 0",
        f"cd {quote(str(work))} || exit",
        "keep() {",
        '  mkdir -p -- "$2" || return',
        "  for each in $1; do",  # unquoted: a pattern, and IFS leaves its spaces alone
        '    if [ -d "$each" ]; then',
        '      cp -RPp -- "$each" "$2/" || return',
        '    elif [ -e "$each" ]; then',
        '      cp -p -- "$each" "$2/" || return',
        "    fi",
        "  done",
        "}",
        *wanted,
        f'[ "$1" = {_PART} ] || : > {mark}',
    )


def _script(lock: Path, *lines: str) -> str:
    """Return the script, with a lock where the file system has locks and the node has flock."""
    first = [
        "#!/bin/bash",
        "PATH=$PATH:/usr/bin:/bin",
        "IFS=",
        f"exec 9>> {quote(str(lock))} || exit",
        "flock 9 2> /dev/null",
    ]
    return "\n".join([*first, *lines, ""])


def starting(folder: Path) -> list[str]:
    """Return what the job does first; if that fails, its words are left for the object."""
    script, words = quote(str(folder / FETCH)), quote(str(folder / PROBLEM))
    return [
        f"words=$(bash {script} 2>&1) || {{",
        f'  printf "%s\\n" "$words" | tee {words} >&2; exit {NOTHING_FETCHED}',
        "}",
    ]
