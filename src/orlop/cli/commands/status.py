"""`orlop status`: shows the control plane, engine, nodes, pods and the queue on one screen.

Called by people and, with --output json, by scripts. It reads the record and asks the API server
and the engine. Exit code 0: up; 3: not running; 1: running, but silent.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import click

from ... import wellknown
from ...api.objects import Obj, annotations_of, condition_of, is_terminal, key_of, phase_of
from ...errors import ApiError, ConfigError, EngineError
from ...settings import Paths, home_from_env, load
from ..control_plane.engines import engine_for, known_engine
from ..home.home_lock import resident
from ..home.record import Record
from ..kubeapi import KubeApi
from ..table import table

NOT_RUNNING = 3


@dataclass(frozen=True, slots=True)
class Status:
    """All that is shown, in either form."""

    home: str
    control_plane: Record | None
    engine: str
    engine_says: str  # its version, or why it does not answer
    answers: bool = True
    silence: str = ""  # why the API server does not answer
    nodes: list[Obj] = field(default_factory=list)
    pods: list[Obj] = field(default_factory=list)


@click.command("status")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text")
def command(output: str) -> None:
    """Show the control plane, the engine, nodes and pods."""
    status = observe(home_from_env())
    click.echo(json.dumps(as_json(status), indent=2) if output == "json" else as_text(status))
    if status.control_plane is None:
        sys.exit(NOT_RUNNING)
    sys.exit(1 if status.silence else 0)


def observe(paths: Paths) -> Status:
    running = resident(paths)
    engine, says, answers = asyncio.run(_ask_engine(paths))
    status = Status(str(paths.home), running, engine, says, answers)
    if running is None:
        return status
    try:
        api = KubeApi.at(paths.kubeconfig)
        nodes, pods = api.items("/api/v1/nodes"), api.items("/api/v1/pods")
        # What only stands for the control plane is counted as that.
        pods = [pod for pod in pods if wellknown.STANDS_FOR not in annotations_of(pod)]
    except (ApiError, ConfigError) as error:
        return Status(str(paths.home), running, engine, says, answers, str(error))
    return Status(str(paths.home), running, engine, says, answers, "", nodes, pods)


async def _ask_engine(paths: Paths) -> tuple[str, str, bool]:
    settings = load(paths)
    name = known_engine(settings, paths) or "none yet"
    if name == "none yet":
        return name, "`orlop up` chooses one", True
    try:
        return name, await engine_for(name, settings, paths).version(), True
    except EngineError as error:
        return name, str(error), False


def as_text(status: Status) -> str:
    lines = [f"home           {status.home}"]
    lines.append(f"control plane  {_control_plane(status)}")
    lines.append(f"engine         {status.engine}: {status.engine_says}")
    if status.control_plane is None or status.silence:
        return "\n".join(lines)
    phases = Counter(phase_of(pod) for pod in status.pods)
    counted = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
    lines.append(f"pods           {counted or 'none'}")
    lines.append("")
    rows = [
        tuple(str(value) for value in _node(node, status.pods).values()) for node in status.nodes
    ]
    lines.append(table(("NODE", "READY", "CPUS", "MEMORY", "PODS", "MESSAGE"), rows))
    if waiting := _queue(status.pods):
        lines.append("")
        rows = [
            (entry["pod"], entry["job"], entry["reason"], entry["message"]) for entry in waiting
        ]
        lines.append(table(("WAITING", "JOB", "REASON", "MESSAGE"), rows))
    return "\n".join(lines)


def _control_plane(status: Status) -> str:
    record = status.control_plane
    if record is None:
        return "not running; `orlop up` starts it"
    if status.silence:
        return f"on {record}, but {status.silence}"
    age = max(0, int(time.time() - record.started))
    since = f"{age // 86400}d{age // 3600 % 24:02}h{age // 60 % 60:02}m{age % 60:02}s"
    return f"up on {record}, for {since}, at {record.url}"


def as_json(status: Status) -> dict[str, Any]:
    record = status.control_plane
    phases = Counter(phase_of(pod) for pod in status.pods)
    return {
        "home": status.home,
        "controlPlane": {
            "running": record is not None,
            "answers": record is not None and not status.silence,
            **({"host": record.host, "pid": record.pid, "job": record.job} if record else {}),
            **({"url": record.url, "started": record.started} if record else {}),
            **({"message": status.silence} if status.silence else {}),
        },
        "engine": {
            "name": status.engine,
            "answers": status.answers,
            "version" if status.answers else "message": status.engine_says,
        },
        "nodes": [_node(node, status.pods) for node in status.nodes],
        "pods": dict(sorted(phases.items())),
        "queue": _queue(status.pods),
    }


def _node(node: Obj, pods: list[Obj]) -> dict[str, Any]:
    name = key_of(node).name
    ready = condition_of(node, "Ready") or {}
    capacity = (node.get("status") or {}).get("capacity") or {}
    held = [p for p in pods if (p.get("spec") or {}).get("nodeName") == name and not is_terminal(p)]
    return {
        "name": name,
        "ready": ready.get("status", "Unknown"),
        "cpus": capacity.get("cpu", ""),
        "memory": capacity.get("memory", ""),
        "pods": len(held),
        "message": ready.get("message", ""),
    }


def _queue(pods: list[Obj]) -> list[dict[str, str]]:
    """Return pods that wait for a machine, in Slurm's words where it has said any."""
    waiting = []
    for pod in pods:
        allocated = condition_of(pod, wellknown.ALLOCATED)
        if phase_of(pod) == "Pending" and allocated and allocated.get("status") == "False":
            waiting.append(
                {
                    "pod": str(key_of(pod)),
                    "job": annotations_of(pod).get(wellknown.JOB_ID, ""),
                    "reason": allocated.get("reason", ""),
                    "message": allocated.get("message", ""),
                }
            )
    return waiting
