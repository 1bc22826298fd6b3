"""Knows sbatch's options: their names, which take values, which Orlop keeps for itself.

Used by `job` to read annotations and raw flags; pure. An option that is not known here is passed
on: sbatch knows best what sbatch understands.
"""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Iterable

from ...errors import ConfigError

Option = tuple[str, str | None]  # long name, value or None for a bare flag

# Short options of sbatch 20.11 to 25.05.
SHORT = {
    "A": "account", "a": "array", "B": "extra-node-info", "b": "begin", "C": "constraint",
    "c": "cpus-per-task", "D": "chdir", "d": "dependency", "e": "error", "F": "nodefile",
    "G": "gpus", "H": "hold", "h": "help", "I": "immediate", "i": "input", "J": "job-name",
    "k": "no-kill", "L": "licenses", "M": "clusters", "m": "distribution", "N": "nodes",
    "n": "ntasks", "O": "overcommit", "o": "output", "p": "partition", "Q": "quiet", "q": "qos",
    "S": "core-spec", "s": "oversubscribe", "t": "time", "u": "usage", "V": "version",
    "v": "verbose", "W": "wait", "w": "nodelist", "x": "exclude",
}  # fmt: skip

NO_VALUE = frozenset({
    "contiguous", "help", "hold", "ignore-pbs", "no-requeue", "overcommit", "oversubscribe",
    "parsable", "quiet", "reboot", "requeue", "spread-job", "stepmgr", "test-only", "usage",
    "use-min-nodes", "verbose", "version", "wait",
})  # fmt: skip

# A value only after `=`, never as the next word.
VALUE_MAY_FOLLOW = frozenset({
    "exclusive", "get-user-env", "immediate", "nice", "no-kill", "parsable", "propagate",
    "resv-ports",
})  # fmt: skip

_OURS = "Orlop sets it itself"
_ONE_JOB = "a pod is one job"
REFUSED = {
    "array": f"{_ONE_JOB}; use a Kubernetes Job with completions and parallelism instead",
    "clusters": "Orlop follows jobs of its own cluster only; run another Orlop there",
    "comment": f"{_OURS}, to find the pod's job again; use labels or annotations of the pod",
    "container": "the pod's images say in which root its containers run",
    "container-id": "the pod's images say in which root its containers run",
    "export": "the job's environment is Orlop's; give variables in the containers' env",
    "export-file": "the job's environment is Orlop's; give variables in the containers' env",
    "gid": "a job runs as the user who runs Orlop",
    "help": "it asks sbatch for something else than a job",
    "het-group": f"{_ONE_JOB}",
    "input": "the job's standard input is Orlop's",
    "test-only": "it would submit nothing",
    "uid": "a job runs as the user who runs Orlop",
    "usage": "it asks sbatch for something else than a job",
    "version": "it asks sbatch for something else than a job",
    "wait": "it would block until the pod has ended; Orlop follows the job anyway",
    "wrap": "it would replace the pod by a command; use the container's command",
}

# Manifests of earlier systems carry these; they change nothing that the pod's author can see.
IGNORED = {
    "chdir": "containers start in their workingDir",
    "error": "`kubectl logs` shows what containers print",
    "get-user-env": "containers get the env of the pod",
    "immediate": "sbatch has dropped it",
    "open-mode": _OURS,
    "output": "`kubectl logs` shows what containers print",
    "parsable": _OURS,
    "quiet": _OURS,
    "verbose": _OURS,
}

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def checked(name: str, value: str | None, where: str) -> Option:
    """Return the option if it can be passed on; else raise ConfigError that says why not."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: {name!r} is no option of sbatch; see `sbatch --help`")
    if name in REFUSED:
        raise ConfigError(f"{where}: --{name} cannot be used: {REFUSED[name]}")
    if name not in IGNORED and (meant := _beginning_of(name)):
        # sbatch takes the beginning of an option's name for the whole.
        raise ConfigError(f"{where}: --{name} could be --{meant}; write options out")
    if value is not None and _CONTROL.search(value):
        raise ConfigError(f"{where}: the value of --{name} has a line break or control character")
    if name in NO_VALUE and value is not None:
        raise ConfigError(f"{where}: --{name} takes no value, found {value!r}")
    return name, value


def _beginning_of(name: str) -> str:
    """Return an option that Orlop does not pass on, and that sbatch may understand by this
    abbreviation.
    """
    return next((one for one in (*REFUSED, *IGNORED) if one.startswith(name)), "")


def from_annotation(name: str, value: str, where: str) -> Option | None:
    """Return one option named by an annotation; `"false"` says a flag is not wanted."""
    text = value.strip()
    if name in NO_VALUE or name in VALUE_MAY_FOLLOW:
        word = text.lower()
        if word in ("false", "no"):
            return None
        if word in ("", "true", "yes"):
            return checked(name, None, where)
    if not text and name not in REFUSED:
        raise ConfigError(f"{where}: --{name} needs a value, found none")
    return checked(name, text, where)


def from_flags(flags: str, where: str) -> list[Option]:
    """Return raw flags as on sbatch's command line, quotes and all."""
    try:
        words = shlex.split(flags)
    except ValueError as error:
        raise ConfigError(f"{where}: {flags!r} cannot be read: {error}") from None
    return from_words(words, where)


def from_words(words: Iterable[str], where: str) -> list[Option]:
    options: list[Option] = []
    rest = deque(words)
    while rest:
        word = rest.popleft()
        if word.startswith("--") and len(word) > 2:
            options.append(_long(word[2:], rest, where))
        elif word.startswith("-") and len(word) > 1 and word != "--":
            options.extend(_short(word[1:], rest, where))
        else:
            expected = "expected options such as --nodes=2"
            raise ConfigError(f"{where}: {expected}, found {word!r}; the job script is Orlop's")
    return options


def _long(word: str, rest: deque[str], where: str) -> Option:
    name, equals, value = word.partition("=")
    if equals:
        return checked(name, value, where)
    takes_none = name in NO_VALUE or name in VALUE_MAY_FOLLOW or name in REFUSED
    if takes_none or not rest or rest[0].startswith("-"):
        return checked(name, None, where)
    return checked(name, rest.popleft(), where)


def _short(letters: str, rest: deque[str], where: str) -> list[Option]:
    """Read `-N2`, `-N 2`, or several flags in one word as `-HO`."""
    found: list[Option] = []
    for place, letter in enumerate(letters, 1):
        if letter not in SHORT:
            raise ConfigError(f"{where}: -{letter} is no option of sbatch; see `sbatch --help`")
        name = SHORT[letter]
        if name in NO_VALUE or name in VALUE_MAY_FOLLOW:
            found.append(checked(name, None, where))
            continue
        tail = letters[place:]
        if not tail and not rest:
            raise ConfigError(f"{where}: -{letter} (--{name}) needs a value, found none")
        return [*found, checked(name, tail.removeprefix("=") if tail else rest.popleft(), where)]
    return found
