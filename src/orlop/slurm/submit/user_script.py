"""Reads a user's own batch script and its `#SBATCH` lines, and makes what sbatch is given instead.

Used to submit Slurm's own jobs; pure. What sbatch gets has the script's lines for sbatch and then
only starts the script, with its variables from a file: so no value of a Secret is in a script that
slurmctld keeps, and a script may be of any language. What the user wrote is not changed.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...errors import ConfigError
from .. import numbers
from ..translate.sbatch_options import NO_VALUE, SHORT, VALUE_MAY_FOLLOW

Options = dict[str, str | None]

# What would have sbatch do something else than submit one job of this cluster and say its number.
_REFUSED = {
    "clusters": "Orlop follows jobs of its own cluster only",
    "export-file": "give variables in env and envFrom",
    "gid": "a job runs as the user who runs Orlop",
    "help": "it asks sbatch for something else than a job",
    "test-only": "it would submit nothing",
    "uid": "a job runs as the user who runs Orlop",
    "usage": "it asks sbatch for something else than a job",
    "version": "it asks sbatch for something else than a job",
    "wait": "Orlop follows the job anyway",
    "wrap": "give a script or a command",
}
_SILENT = ("parsable", "quiet", "verbose")  # Orlop's own business
_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class Header:
    """The lines of a script that are for sbatch, and the options in them."""

    lines: tuple[str, ...]
    options: Options


def header(script: str) -> Header:
    """Return what sbatch would read: comments before the first line that is none."""
    lines: list[str] = []
    options: Options = {}
    for line in script.splitlines():
        text = line.strip()
        if text and not text.startswith("#"):
            break
        if not text.startswith("#SBATCH"):
            continue
        found = _of_line(text.removeprefix("#SBATCH"))
        if not (found.keys() & _REFUSED.keys() or found.keys() & set(_SILENT)):
            lines.append(text)
            options |= found
    return Header(tuple(lines), options)


def _of_line(text: str) -> Options:
    """Return the options of a line, taken apart as sbatch does; what it would not understand either
    is left out.
    """
    try:
        return from_words(shlex.split(text, comments=True), "script", is_strict=False)
    except (ValueError, ConfigError):
        return {}


def from_words(words: Iterable[str], where: str, *, is_strict: bool = True) -> Options:
    """Return flags as on sbatch's command line; raise ConfigError for those that cannot be used."""
    options: Options = {}
    rest = deque(words)
    while rest:
        word = rest.popleft()
        if word.startswith("--") and len(word) > 2:
            name, equals, given = word[2:].partition("=")
            value: str | None = given if equals else None
            if not equals and not _takes_none(name) and rest:
                value = rest.popleft()
            options[name] = value
        elif word.startswith("-") and len(word) > 1:
            options |= _short(word[1:], rest, where)
        else:
            raise ConfigError(f"{where}: expected options such as --nodes=2, found {word!r}")
    return (
        {name: checked(name, value, where) for name, value in options.items()}
        if (is_strict)
        else options
    )


def _short(letters: str, rest: deque[str], where: str) -> Options:
    found: Options = {}
    for place, letter in enumerate(letters, 1):
        if letter not in SHORT:
            raise ConfigError(f"{where}: -{letter} is no option of sbatch; see `sbatch --help`")
        name = SHORT[letter]
        if _takes_none(name):
            found[name] = None
            continue
        tail = letters[place:]
        if not tail and not rest:
            raise ConfigError(f"{where}: -{letter} (--{name}) needs a value, found none")
        return found | {name: tail.removeprefix("=") if tail else rest.popleft()}
    return found


def _takes_none(name: str) -> bool:
    return name in NO_VALUE or name in VALUE_MAY_FOLLOW


def checked(name: str, value: str | None, where: str) -> str | None:
    """Return the value, if the option can be passed on; else raise ConfigError that says why
    not.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: {name!r} is no option of sbatch; see `sbatch --help`")
    if name in _REFUSED:
        raise ConfigError(f"{where}: --{name} cannot be used: {_REFUSED[name]}")
    if value is not None and "\0" in value:
        raise ConfigError(f"{where}: the value of --{name} has a zero byte")
    return value


def from_map(given: Mapping[str, object]) -> Options:
    """Return the `options` of an object: an empty value, or true, is a flag without one."""
    options: Options = {}
    for name, value in given.items():
        text = str(value)
        if text.lower() == "false" and _takes_none(name):
            continue
        is_bare = not text or (text.lower() == "true" and _takes_none(name))
        options[name] = checked(name, None if is_bare else text, "options")
    return options


def flags(options: Mapping[str, str | None]) -> list[str]:
    """Return the options as on a command line."""
    given = {name: value for name, value in options.items() if name not in _SILENT}
    return [f"--{name}" if value is None else f"--{name}={value}" for name, value in given.items()]


def wrapper(
    lines: Iterable[str], program: str, environment: str, before: Iterable[str] = ()
) -> str:
    """Return what sbatch is given: the user's lines for it, then the user's script in the shell's
    place.

    What comes `before` has only the job's own variables. `exec`, so that signals of
    `--signal=B:` and of scancel reach the script itself.
    """
    return "\n".join(
        [
            "#!/bin/bash",
            *lines,
            "# Orlop: starts the script beside this file, with the variables of the one after it.",
            *before,
            f"set -a; . {shlex.quote(environment)}; set +a",
            f'exec {shlex.quote(program)} "$@"',
            "",
        ]
    )


def check(script: str, where: str) -> None:
    """Refuse, in sbatch's words, what sbatch would not even send."""
    if not script:
        raise ConfigError(f"{where}: batch script is empty!")
    if not script.startswith("#!"):
        expected = "the first line must start with #! followed by the path to an interpreter"
        raise ConfigError(f"{where} does not look like a batch script: {expected}, as #!/bin/sh")
    if "\0" in script:
        raise ConfigError(f"{where}: the batch script contains a null character")
    refuse_dos(script, where)


def refuse_dos(script: str, where: str) -> None:
    if "\r\n" in script:
        found = "contains DOS line breaks (\\r\\n) instead of expected UNIX line breaks (\\n)"
        raise ConfigError(f"{where}: batch script {found}; dos2unix mends it")


def program(script: str, command: Iterable[str]) -> str:
    """Return the file that is run: the user's script, with a first line where it has none."""
    if not script:
        return f"#!/bin/sh\nexec {shlex.join(command)}\n"
    # As sbatch, which refuses it, would want; a script without the line is meant for a shell.
    return script if script.startswith("#!") else f"#!/bin/sh\n{script}"


def variables(values: Mapping[str, str]) -> str:
    """Return the file of variables, as a shell reads it."""
    bad = [name for name in values if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
    if bad:
        raise ConfigError(f"env: {bad[0]!r} is no name that a shell's variable can have")
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def exported(data: bytes) -> dict[str, str]:
    """Return variables as a shell had them, functions among them: NAME=value, zero bytes between
    them.
    """
    pairs = (one.partition("=") for one in os.fsdecode(data).split("\0"))
    return {name: value for name, equals, value in pairs if name and equals}


# Far more than sites let an array have (MaxArraySize in slurm.conf is 1001 if nothing is said).
MOST_TASKS = 1_000_000
_WIDEST = 10  # that sbatch writes a number
_PATTERN = re.compile(r"%(%|(\d*)([AajJNnstux]))")


def output_file(template: str, facts: Mapping[str, str]) -> str:
    """Return a file name of `--output`, as sbatch(1)'s "filename pattern" has it.

    `facts` has a value for each letter. A backslash anywhere means that nothing is replaced.
    """
    if "\\" in template:
        return template.replace("\\", "")

    def value(match: re.Match[str]) -> str:
        if match.group(1) == "%":
            return "%"
        text, digits = facts.get(match.group(3), ""), match.group(2)
        width = numbers.whole(digits) if digits else 0
        return text.zfill(_WIDEST if width is None else min(width, _WIDEST))

    return _PATTERN.sub(value, template)


def tasks(array: str) -> list[int]:
    """Return the numbers of an array's tasks: `0-15:4,20%2` is 0, 4, 8, 12 and 20."""
    found: dict[int, None] = {}
    count = 0
    for part in array.partition("%")[0].split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part.strip())
        if match is None:
            raise ConfigError(
                f"array: {array[:80]!r} cannot be read; expected e.g. 0-15, 1,3,5 or 0-8:2%4"
            )
        first, last, step = match.group(1), match.group(2) or match.group(1), match.group(3) or "1"
        if max(map(len, (first, last, step))) > numbers.MOST_DIGITS:
            raise ConfigError(f"array: {array[:80]!r} has a number beyond all of Slurm's")
        if int(step) < 1:
            raise ConfigError(f"array: the step in {array[:80]!r} must be at least 1")
        tasks = range(int(first), int(last) + 1, int(step))
        count += len(tasks)
        if count > MOST_TASKS:
            raise ConfigError(f"array: {array[:80]!r} has more than {MOST_TASKS} tasks")
        found |= dict.fromkeys(tasks)
    return list(found)
