"""Reads the words of an mpirun or mpiexec command: what it was to start, and how.

Asked for MPIJobs whose ranks srun starts. Pure. Knows the options of Open MPI's, MPICH's and
Intel's launchers: those about hosts and daemons fall away with the launcher, those about ranks are
kept in other words, and an option that it does not know, or could not keep, is refused by its name.
"""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ...slurm.numbers import whole

PROGRAMS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")


class NotStripped(Exception):
    """Raised where the launcher's command is no plain mpirun; the words are for an Event."""


@dataclass(slots=True)
class Stripped:
    """The command that mpirun was to start, without mpirun's own words."""

    argv: list[str] = field(default_factory=list)
    ranks: int | None = None
    per_node: int | None = None
    env: dict[str, str] = field(default_factory=dict)
    folder: str = ""  # where it runs; empty: where the image says
    flags: list[str] = field(default_factory=list)  # of srun, for where ranks go
    is_labelled: bool = False  # each line by its rank


def strip(words: Sequence[str]) -> Stripped:
    """Return the program and its arguments, without mpirun and its options."""
    rest = deque(_plain(words))
    if not rest or rest[0].rsplit("/", 1)[-1] not in PROGRAMS:
        raise NotStripped(f"wants the command mpirun or mpiexec, found {shlex.join(words)!r}")
    found = Stripped()
    rest.popleft()
    while rest and rest[0].startswith("-"):
        word = rest.popleft()
        if word == "--":
            break
        option, is_joined, value = word.partition("=")
        known = _KNOWN.get("-" + option.lstrip("-"))
        if known is None:
            raise NotStripped(
                f"does not know {option} of {words[0]}; leave it out if srun can do without it, "
                "or leave the ranks to mpirun"
            )
        taken, take = known
        if is_joined and not taken:
            raise NotStripped(f"{option} of {words[0]} takes no value, found {value!r}")
        if is_joined:
            rest.appendleft(value)
        if len(rest) < taken:
            raise NotStripped(f"expected {taken} words after {option}, found {len(rest)}")
        take(found, option, [rest.popleft() for _ in range(taken)])
    found.argv = list(rest)
    if not rest or ":" in rest:
        raise NotStripped(f"wants one program after mpirun, found {found.argv}")
    return found


def _plain(words: Sequence[str]) -> list[str]:
    """Return the words of a command; those of a shell's one line where it has no more than one."""
    is_shell = bool(words) and words[0].rsplit("/", 1)[-1] in ("sh", "bash", "dash")
    if not is_shell:
        return list(words)
    if len(words) != 3 or words[1] not in ("-c", "-ec", "-lc"):
        return []
    line = words[2].strip()
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        found = list(lexer)
    except ValueError:  # a quote that is not closed
        return []
    # What the shell would make more of, in quotes or not: rather refused than misunderstood.
    is_simple = not set(line) & set("\n$`*?[~{") and not any(set(w) & set(";&|<>()") for w in found)
    return found if is_simple else []


# What becomes of an option: told what was found so far, its name, and the words that belong to it.

Take = Callable[[Stripped, str, Sequence[str]], None]


def _ignore(found: Stripped, option: str, values: Sequence[str]) -> None:
    """Ignore an option about hosts, daemons or what they print."""


def _ranks(found: Stripped, option: str, values: Sequence[str]) -> None:
    found.ranks = _number(option, values[0])


def _per_node(found: Stripped, option: str, values: Sequence[str]) -> None:
    found.per_node = _number(option, values[0])


def _one_per_node(found: Stripped, option: str, values: Sequence[str]) -> None:
    found.per_node = 1


def _number(option: str, text: str) -> int:
    number = whole(text)
    if not number:
        raise NotStripped(f"expected a number after {option}, found {text[:50]!r}")
    return number


def _export(found: Stripped, option: str, values: Sequence[str]) -> None:
    name, is_set, value = values[0].partition("=")
    found.env |= {name: value} if is_set else {}  # what has no value is in the pod's own


def _set(found: Stripped, option: str, values: Sequence[str]) -> None:
    found.env[values[0]] = values[1]


def _parameter(prefix: str) -> Take:
    """Take a parameter of Open MPI's components: a variable says the same."""

    def take(found: Stripped, option: str, values: Sequence[str]) -> None:
        found.env[f"{prefix}_MCA_{values[0]}"] = values[1]

    return take


def _folder(found: Stripped, option: str, values: Sequence[str]) -> None:
    found.folder = values[0]


def _label(found: Stripped, option: str, values: Sequence[str]) -> None:
    found.is_labelled = True


def _by_node(found: Stripped, option: str, values: Sequence[str]) -> None:
    found.flags.append(_MAPPINGS["node"])


def _one_of(table: Mapping[str, str]) -> Take:
    """Translate a value into srun's word for it; other values are refused."""

    def take(found: Stripped, option: str, values: Sequence[str]) -> None:
        if values[0] not in table:
            expected = ", ".join(sorted(table))
            raise NotStripped(f"expected one of {expected} after {option}, found {values[0]!r}")
        found.flags += [table[values[0]]] if table[values[0]] else []

    return take


def _map_by(found: Stripped, option: str, values: Sequence[str]) -> None:
    by, *more = values[0].split(":")
    if by == "ppr" and len(more) > 1 and more[1] == "node":
        found.per_node = _number(option, more[0])
        more = more[2:]
    elif by in _MAPPINGS:
        found.flags.append(_MAPPINGS[by])
    elif by:
        expected = f"ppr:<n>:node, {', '.join(sorted(_MAPPINGS))}"
        raise NotStripped(f"expected one of {expected} after {option}, found {values[0]!r}")
    unknown = [word for word in more if word.lower() not in ("oversubscribe", "nooversubscribe")]
    if unknown:
        raise NotStripped(f"does not know {unknown[0]!r} after {option}")


_MAPPINGS = {
    "slot": "--distribution=block",
    "core": "--distribution=block",
    "node": "--distribution=cyclic",
    "socket": "--distribution=block:cyclic",
    "numa": "--distribution=block:cyclic",
}
_BINDINGS = {
    "none": "--cpu-bind=none",
    "core": "--cpu-bind=cores",
    "socket": "--cpu-bind=sockets",
    "numa": "--cpu-bind=ldoms",
    "hwthread": "--cpu-bind=threads",
}


def _options(taken: int, take: Take, names: str) -> dict[str, tuple[int, Take]]:
    return {f"-{name}": (taken, take) for name in names.split()}


# By one dash, which stands for two.
_KNOWN: dict[str, tuple[int, Take]] = {
    **_options(1, _ranks, "n np c"),
    **_options(1, _per_node, "ppn perhost npernode N"),
    **_options(0, _one_per_node, "pernode"),
    **_options(1, _export, "x"),
    **_options(2, _set, "genv env"),
    **_options(2, _parameter("OMPI"), "mca gmca omca"),
    **_options(2, _parameter("PRTE"), "prtemca"),
    **_options(2, _parameter("PMIX"), "pmixmca"),
    **_options(1, _folder, "wdir wd"),
    **_options(0, _label, "l tag-output prepend-rank"),
    **_options(0, _by_node, "bynode"),
    **_options(1, _map_by, "map-by"),
    **_options(1, _one_of(_BINDINGS), "bind-to"),
    **_options(1, _one_of({"slot": ""}), "rank-by"),
    **_options(1, _one_of({"none": ""}), "stdin"),
    **_options(1, _ignore, "f H host hosts hostfile machinefile machine default-hostfile prefix"),
    **_options(1, _ignore, "genvlist envlist launcher launcher-exec bootstrap bootstrap-exec rmk"),
    **_options(1, _ignore, "iface launch-agent pmi-port branch-count tmpdir"),
    **_options(0, _ignore, "allow-run-as-root oversubscribe use-hwthread-cpus verbose v quiet q"),
    **_options(0, _ignore, "nolocal localroot order-nodes byslot genvall envall disable-recovery"),
    **_options(0, _ignore, "display-map display-allocation display-devel-map report-bindings"),
    **_options(0, _ignore, "print-rank-map print-all-exitcodes timestamp-output debug-daemons"),
    **_options(0, _ignore, "merge-stderr-to-stdout leave-session-attached disable-x"),
    **_options(0, _ignore, "disable-hostname-propagation"),
}
