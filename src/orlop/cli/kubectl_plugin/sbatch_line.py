"""Reads a command line as sbatch does, and makes the SlurmJob of it.

Used by `kubectl slurm sbatch`; asks no server. Options come before the script's name, the script's
arguments behind it; without a name the script is what comes in. What sbatch would refuse before it
asked Slurm is refused here in its words; all else is left to sbatch itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...api.objects import Obj
from ...errors import ConfigError
from ...slurm.submit import user_script
from ...slurm.submit.user_script import Options
from ...slurm.translate.sbatch_options import NO_VALUE, SHORT, VALUE_MAY_FOLLOW

CONDITIONS = ("after", "afterok", "afternotok", "afterany", "aftercorr")
_OWN = ("namespace", "kubeconfig", "context", "name")
_OWN_FLAGS = ("wait", "follow", "dry-run", "parsable")
_NUMBER = re.compile(r"\d+(_(\d+|\*))?(\+\d+)?")  # how Slurm names a job in a dependency


@dataclass
class Asked:
    """A command line, taken apart."""

    own: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    script: str = ""  # empty: it comes in by standard input
    arguments: list[str] = field(default_factory=list)
    wrap: str | None = None


def split(words: list[str]) -> Asked:
    """Take a command line apart as sbatch does, and pick out the options that are ours."""
    asked, rest = Asked(), list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word[2:].partition("=") if word.startswith("--") else ("", "", "")
        if not name and word[1:2] in SHORT and SHORT[word[1]] == "wait":
            name = "wait"
        if name in _OWN_FLAGS:
            asked.own[name] = "yes"
        elif name in (*_OWN, "wrap"):
            value = value if equals else _next(rest, word)
            if name == "wrap":
                asked.wrap = value
            else:
                asked.own[name] = value
        else:
            asked.flags.append(word)
            if _takes_next(word):
                asked.flags.append(_next(rest, word))
    if asked.wrap is None and rest:
        asked.script, *rest = rest
    asked.arguments = rest
    return asked


def _next(rest: list[str], word: str) -> str:
    if not rest:
        raise ConfigError(f"{word} needs a value, found none")
    return rest.pop(0)


def _takes_next(word: str) -> bool:
    """Return whether the value of an option is the next word."""
    if word.startswith("--"):
        name = word[2:]
        return "=" not in word and name not in NO_VALUE and name not in VALUE_MAY_FOLLOW
    name = SHORT.get(word[1], "")
    return len(word) == 2 and name not in NO_VALUE and name not in VALUE_MAY_FOLLOW


def manifest(
    asked: Asked,
    folder: Path,
    incoming: Callable[[], bytes],
    numbers: Callable[[], Mapping[str, str]],
    defaults: Mapping[str, str],
) -> Obj:
    """Return the SlurmJob for a command line given in that folder.

    `incoming` reads standard input; `numbers` has the names of SlurmJobs by those of their jobs;
    `defaults` are options that the user keeps in variables, stronger than the script's lines.
    """
    text, name = _script(asked, folder, incoming)
    wanted = user_script.from_words(asked.flags, "sbatch")
    options = {name: value for name, value in defaults.items() if name not in wanted}
    given = {**user_script.header(text).options, **options, **wanted}
    if not given.get("job-name"):
        options["job-name"] = name
    if not given.get("output"):
        options["output"] = "slurm-%A_%a.out" if given.get("array") else "slurm-%j.out"
    # As sbatch: a relative folder begins where it was called.
    spec: Obj = {"script": text, "options": options}
    spec["workingDirectory"] = str(folder / (given.get("chdir") or ""))
    flags = _without_names(spec, asked.flags, wanted, numbers)
    if flags:
        spec["flags"] = flags
    if asked.arguments:
        spec["args"] = asked.arguments
    named = _named(asked, str(given.get("job-name") or name))
    kind = {"apiVersion": "slurm.orlop.dev/v1", "kind": "SlurmJob"}
    return {**kind, "metadata": named, "spec": spec}


def _script(asked: Asked, folder: Path, incoming: Callable[[], bytes]) -> tuple[str, str]:
    """Return its text, and the name that sbatch would give the job."""
    if asked.wrap is not None:
        if asked.arguments:
            raise ConfigError("script arguments not permitted with --wrap option")
        return f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{asked.wrap}\n", "wrap"
    path = folder / asked.script
    where = str(path) if asked.script else "standard input"
    try:
        data = path.read_bytes() if asked.script else incoming()
        text = data.decode()
    except OSError as error:
        raise ConfigError(f"unable to open file {path}: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{where} is no batch script: expected text, found bytes") from None
    user_script.check(text, where)
    return text, path.name if asked.script else "sbatch"


def _without_names(
    spec: Obj, flags: list[str], wanted: Options, numbers: Callable[[], Mapping[str, str]]
) -> list[str]:
    """Set the object to wait for other SlurmJobs; return the flags without what it then says."""
    if not wanted.get("dependency"):
        return flags
    found, rest = depends(str(wanted["dependency"]), numbers())
    if not found:
        return flags
    spec["dependencies"] = found
    others = {name: value for name, value in wanted.items() if name != "dependency"}
    return user_script.flags({**others, "dependency": rest} if rest else others)


def depends(text: str, numbers: Mapping[str, str]) -> tuple[list[Obj], str]:
    """Read `--dependency=afterok:train:17`: return the SlurmJobs named, and the rest for Slurm."""
    jobs = [job for part in re.split("[,?]", text) for job in part.split(":")[1:]]
    if "?" in text:
        if all(_NUMBER.fullmatch(job) for job in jobs):
            return [], text
        raise ConfigError(f"--dependency={text}: one of several (?) is for Slurm's numbers only")
    found: list[Obj] = []
    rest: list[str] = []
    for part in text.split(","):
        kind, *jobs = part.split(":")
        left = [job for job in jobs if job not in numbers and _NUMBER.fullmatch(job)]
        named = [numbers.get(job, job) for job in jobs if job not in left]
        if named and kind not in CONDITIONS:
            expected = f"expected one of {', '.join(CONDITIONS)} before {named[0]}"
            raise ConfigError(f"--dependency={text}: {expected}, found {kind!r}")
        if any("+" in name for name in named):
            raise ConfigError(f"--dependency={text}: minutes (+) are for Slurm's numbers only")
        found += [{"name": name, "condition": kind} for name in named]
        rest += [":".join([kind, *left])] if left or not jobs else []
    return found, ",".join(rest)


def taken_along(spec: Obj, shell: Mapping[str, str]) -> dict[str, str] | None:
    """Return a shell's variables that sbatch would hand on to this job: by --export, or all.

    Returns None where it is told to look at no shell.
    """
    wanted = user_script.from_words(spec.get("flags") or [], "sbatch").get("export")
    wanted = wanted or (spec.get("options") or {}).get("export")
    wanted = wanted or user_script.header(spec["script"]).options.get("export") or "ALL"
    names = wanted.split(",")
    if names[0].upper() in ("NONE", "NIL"):
        return None
    takes_all = "ALL" in (name.upper() for name in names)
    of_slurm = ("SLURM", "SBATCH_")  # of the job, if any, that the shell itself runs in
    return {
        name: value
        for name, value in shell.items()
        if (takes_all or name in names) and not name.startswith(of_slurm)
    }


def _named(asked: Asked, name: str) -> Obj:
    if asked.own.get("name"):
        return {"name": asked.own["name"]}
    low = re.sub(r"[^a-z0-9]+", "-", name.rpartition("/")[2].lower()).strip("-")[:40]
    return {"generateName": f"{low.strip('-') or 'job'}-"}
