"""Reads the options of srun that a container may use; others are refused with a reason.

Used by the srun shim (srun_shim.py); pure. The site's srun runs outside of the container, as its
user: an option that names a file, a program or another job there would be a way out, so that listed
options go on, with values of listed forms, each spelled out.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_NUMBER = r"\d{1,9}"
_NUMBERS = r"[\d:,\-]{1,200}"
_SIZE = r"\d{1,15}[KMGTkmgt]?[Bb]?"
_WORDS = r"[\w.,:=*+\-]{1,4096}"
_AMOUNTS = r"[\w.,:=/\-]{1,4096}"
_HOSTS = r"[\w.,\[\]\-]{1,65536}"  # no slash: with one it would be the name of a file
_TEXT = r"[^\x00-\x1f\x7f]{1,256}"
_STREAM = r"none|all|\d{1,9}"  # any other word would be a file
_ANY = r"(?s).*"
_BARE = ""

_ALLOWED = {
    # How many, and where in the job
    "nodes": _NUMBERS, "ntasks": _NUMBER, "ntasks-per-node": _NUMBER, "ntasks-per-core": _NUMBER,
    "ntasks-per-socket": _NUMBER, "ntasks-per-gpu": _NUMBER, "tasks-per-node": _NUMBER,
    "nodelist": _HOSTS, "exclude": _HOSTS, "relative": _NUMBER, "distribution": _WORDS,
    # With what
    "cpus-per-task": _NUMBER, "cpus-per-gpu": _NUMBER, "mem": _SIZE, "mem-per-cpu": _SIZE,
    "mem-per-gpu": _SIZE, "gres": _AMOUNTS, "gres-flags": _WORDS, "gpus": _AMOUNTS,
    "gpus-per-node": _AMOUNTS, "gpus-per-socket": _AMOUNTS, "gpus-per-task": _AMOUNTS,
    "tres-per-task": _AMOUNTS, "overlap": _BARE, "exact": _BARE, "exclusive": _WORDS,
    "overcommit": _BARE, "oversubscribe": _WORDS, "external-launcher": _BARE, "time": r"[\w:\-]+",
    "immediate": _NUMBER,
    # Bound to what
    "cpu-bind": _WORDS, "cpu_bind": _WORDS, "mem-bind": _WORDS, "mem_bind": _WORDS,
    "gpu-bind": _WORDS, "tres-bind": _AMOUNTS, "accel-bind": _WORDS, "hint": _WORDS,
    "extra-node-info": _WORDS, "cores-per-socket": _NUMBERS, "sockets-per-node": _NUMBERS,
    "threads-per-core": _NUMBER,
    # How they start, print and end
    "mpi": r"\w+", "label": _BARE, "unbuffered": _BARE, "quiet": _BARE, "verbose": _BARE,
    "wait": _NUMBER, "kill-on-bad-exit": r"[01]", "no-kill": r"off", "disable-status": _BARE,
    "quit-on-interrupt": _BARE, "job-name": _TEXT, "input": _STREAM, "output": _STREAM,
    "error": _STREAM, "version": _BARE, "help": _BARE, "usage": _BARE,
    # What is done here, and never reaches srun
    "export": _ANY, "chdir": _ANY, "jobid": _NUMBER,
}  # fmt: skip
_ALIASES = {"tasks-per-node": "ntasks-per-node"}
_MAY_HAVE_VALUE = ("exclusive", "oversubscribe", "immediate", "kill-on-bad-exit", "no-kill")
_ALONE = ("version", "help", "usage")  # they ask srun about itself, and want no command

_FILES = "it would run, read or write files of the node, outside of the container"
_JOB = "it is for the whole job; annotations of the pod say it (slurm.orlop.dev/...)"
_OTHERS = "tasks run in this container's image, as its user, in this job"
_TERMINAL = "there is no terminal for tasks"
# What srun of 20.11 to 25.05 knows beside, as far as it is known here: what may be meant by the
# beginning of a name.
_REFUSED = {
    **dict.fromkeys((
        "bcast", "bcast-exclude", "compress", "epilog", "export-file", "get-user-env", "multi-prog",
        "nodefile", "open-mode", "prolog", "propagate", "send-libs", "task-epilog", "task-prolog",
    ), _FILES),
    **dict.fromkeys((
        "account", "acctg-freq", "allocation", "batch", "bb", "bbf", "begin", "bell",
        "burst-buffer", "cluster-constraint", "clusters", "comment", "consolidate-segments",
        "constraint", "contiguous", "core-spec", "cpu-freq", "deadline", "delay-boot", "dependency",
        "extra", "gpu-freq", "hold", "kill-on-invalid-dep", "licenses", "mail-type", "mail-user",
        "mcs-label", "mincores", "mincpus", "minsockets", "minthreads", "msg-timeout", "network",
        "nice", "no-allocate", "no-bell", "oom-kill-step", "partition", "power", "prefer",
        "priority", "profile", "qos", "reboot", "reservation", "resv-ports", "segment", "signal",
        "slurmd-debug", "spread-job", "spread-segments", "stepmgr", "switches", "test-only",
        "thread-spec", "threads", "time-min", "tmp", "treewidth", "use-min-nodes", "wckey", "whole",
    ), _JOB),
    **dict.fromkeys((
        "container", "container-id", "gid", "het-group", "pack-group", "preserve-env", "uid",
    ), _OTHERS),
    **dict.fromkeys((
        "interactive", "pty", "x11",
    ), _TERMINAL),
}  # fmt: skip
_SHORT = {
    "A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "E": "preserve-env",
    "F": "nodefile", "G": "gpus", "H": "hold", "I": "immediate", "J": "job-name",
    "K": "kill-on-bad-exit", "L": "licenses", "M": "clusters", "N": "nodes", "O": "overcommit",
    "Q": "quiet", "S": "core-spec", "T": "threads", "V": "version", "W": "wait",
    "X": "disable-status", "Z": "no-allocate", "b": "begin", "c": "cpus-per-task",
    "d": "dependency", "e": "error", "h": "help", "i": "input", "k": "no-kill", "l": "label",
    "m": "distribution", "n": "ntasks", "o": "output", "p": "partition", "q": "qos",
    "r": "relative", "s": "oversubscribe", "t": "time", "u": "unbuffered", "v": "verbose",
    "w": "nodelist", "x": "exclude",
}  # fmt: skip
# Slurm's own of the caller's variables: each task is told its own, and srun those of the job.
_OF_SLURM = ("SLURM", "SRUN_", "SPANK_", "_SLURM")


class Refused(Exception):
    """Raised with the reason why something is not done, in words for whoever called."""


class Wanted:
    """A parsed request of a caller of srun."""

    def __init__(self, options: list[tuple[str, str | None]], command: list[str]) -> None:
        self.command = command
        self.folder = ""  # where tasks are to start; empty: where the caller is
        self._export = "ALL"
        self._options: list[tuple[str, str | None]] = []
        for name, value in options:
            if name == "chdir":
                self.folder = value or ""
            elif name == "export":
                self._export = value or ""
            elif name != "jobid":  # its own, and that is said anyway
                self._options.append((_ALIASES.get(name, name), value))

    @property
    def is_question(self) -> bool:
        """Return whether srun is asked about itself, as by --version."""
        return any(name in _ALONE for name, _ in self._options)

    def options(self) -> list[str]:
        """Return the options for srun, with the program's name and leave to run beside others."""
        said = {name for name, _ in self._options}
        words = [] if said & {"overlap", "exact", "exclusive"} else ["--overlap"]
        words += [] if said & {"mem", "mem-per-cpu", "mem-per-gpu"} else ["--mem=0"]
        name = re.sub(r"[^\w.+-]", "_", "".join(self.command[:1]).rpartition("/")[2])[:64]
        words += [f"--job-name={name}"] if name and "job-name" not in said else []
        given = [f"--{name}" + ("" if v is None else f"={v}") for name, v in self._options]
        return words + given

    def exported(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return which variables of the caller its tasks have, as srun's --export says it."""
        own = {name: text for name, text in env.items() if not name.startswith(_OF_SLURM)}
        found: dict[str, str] = {}
        for word in _quoted(self._export):
            name, is_set, text = word.partition("=")
            if is_set:
                found[name] = text
            elif name.upper() == "ALL":
                found = {**own, **found}
            elif name in own:
                found[name] = own[name]
        return {name: text for name, text in found.items() if not name.startswith(_OF_SLURM)}


def read(words: list[str], job: str) -> Wanted:
    """Return what srun's command line says; raise Refused where a container may not say that."""
    options: list[tuple[str, str | None]] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        options += _long(word[2:], rest) if word.startswith("--") else _short(word[1:], rest)
    for name, value in options:
        if name == "jobid" and value != job:
            raise Refused(f"--jobid={value}: expected the job of this container, {job}")
    wanted = Wanted(options, rest)
    if ":" in rest:
        raise Refused("one program a call: what stands after ':' would be none of the container's")
    if not rest and not wanted.is_question:
        raise Refused("no command given to execute")
    return wanted


def _long(word: str, rest: list[str]) -> list[tuple[str, str | None]]:
    """Split `name=value`, or `name` and the next word; a name may be cut where it is clear."""
    begun, has_value, value = word.partition("=")
    name = _name(begun)
    return [(name, _value(name, value if has_value else None, rest))]


def _short(letters: str, rest: list[str]) -> list[tuple[str, str | None]]:
    """Split letters behind one dash: `-lN2`; what follows one that takes a value is that."""
    found: list[tuple[str, str | None]] = []
    while letters:
        letter, letters = letters[0], letters[1:]
        name = _name(_SHORT.get(letter, ""), f"-{letter}")
        if _ALLOWED[name] == _BARE or name == "oversubscribe":
            found.append((name, None))
            continue
        found.append((name, _value(name, letters or None, rest)))
        break
    return found


def _name(begun: str, letter: str = "") -> str:
    """Return the option that is meant: its beginning will do, where no other begins like it."""
    shown = letter or f"--{begun}"
    known = [name for name in (*_ALLOWED, *_REFUSED) if begun and name.startswith(begun)]
    if begun in known:
        known = [begun]
    if len({name.replace("_", "-") for name in known}) > 1:
        raise Refused(f"{shown} may be any of {', '.join(f'--{name}' for name in sorted(known))}")
    if not known:
        raise Refused(f"{shown} is not allowed in a container: nothing is known of it here")
    if known[0] in _REFUSED:
        full = f" (--{known[0]})" if known[0] != begun or letter else ""
        raise Refused(f"{shown}{full} is not allowed in a container: {_REFUSED[known[0]]}")
    return known[0]


def _value(name: str, value: str | None, rest: list[str]) -> str | None:
    form = _ALLOWED[name]
    if form == _BARE:
        if value is not None:
            raise Refused(f"--{name} takes no value, found {value!r}")
        return None
    if value is None and name in _MAY_HAVE_VALUE:
        return None
    if value is None:
        if not rest:
            raise Refused(f"--{name} wants a value")
        value = rest.pop(0)
    if not re.fullmatch(form, value, re.ASCII | re.IGNORECASE):
        why = _FILES if form in (_STREAM, _HOSTS) else "it has another form than such values have"
        raise Refused(f"--{name}={value} is not allowed in a container: {why}")
    return value


def _quoted(text: str) -> list[str]:
    """Split at commas, as srun reads --export; commas in quotes part nothing."""
    words, quote = [""], ""
    for letter in text:
        if letter == quote:
            quote = ""
        elif letter in "'\"" and not quote:
            quote = letter
        elif letter == "," and not quote:
            words.append("")
        else:
            words[-1] += letter
    return [word for word in words if word]
