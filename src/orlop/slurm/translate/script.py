"""Writes the text of job.sh from a `JobSpec`, readable by anyone who knows sbatch.

Called by `jobs`; pure, and held by golden files. The script carries no secret: the agent finds the
pod's token and plan in the pod's folder, by file permissions.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from .job import JobSpec
from .sbatch_options import Option

_PLAIN = re.compile(r"[A-Za-z0-9_./:,=@%+&|*\[\]()!^~-]*")


def script(spec: JobSpec) -> str:
    """Return job.sh: options, environment, the site's prologue, and the agent in the shell's
    place.
    """
    parts = [
        "#!/bin/bash",
        f"# Orlop: {spec.title}. Written for sbatch; changing it changes nothing.",
        *(directive(option) for option in spec.options),
        "",
    ]
    if spec.prologue:
        # Not a login shell, which would run the user's own start-up files in every pod.
        parts.append(
            "[ -r /etc/profile ] && . /etc/profile  # defines `module`, where there is one"
        )
    parts += [
        "umask 077",
        *(f"export {name}={shlex.quote(value)}" for name, value in spec.environment),
        *([f"export PATH={shlex.quote(spec.path)}"] if spec.path else []),
    ]
    if spec.prologue:
        parts += ["", "# The site's prologue.", spec.prologue, ""]
    is_array = spec.value("array") is not None
    return "\n".join([*parts, *start(spec.command, is_array=is_array)]) + "\n"


def start(command: Sequence[str], *, is_array: bool = False) -> list[str]:
    """Return the lines that start the agent, by the interpreter of the control plane's host, or by
    the node's own.

    Its last argument is the pod's folder; a task of an array finds its own below that.
    """
    python, *arguments = command
    return [
        f"python={shlex.quote(python)}",
        '[ -x "$python" ] || python=python3  # where nodes differ from the host Orlop runs on',
        f'exec "$python" {shlex.join(arguments)}' + ('/"$SLURM_ARRAY_TASK_ID"' if is_array else ""),
    ]


def directive(option: Option) -> str:
    """Return one `#SBATCH` line, quoted as sbatch unquotes it."""
    name, value = option
    return f"#SBATCH --{name}" if value is None else f"#SBATCH --{name}={_quoted(value)}"


def _quoted(value: str) -> str:
    """Quote a value: sbatch takes backslash and quotes off as a shell does, but expands nothing."""
    if value and _PLAIN.fullmatch(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def signal_lead(text: str) -> float:
    """Return how many seconds before its time limit the agent of that script is told to end."""
    match = re.search(r"^#SBATCH --signal=B:\w+@(\d+)$", text, re.MULTILINE)
    return float(match.group(1)) if match else 0.0
