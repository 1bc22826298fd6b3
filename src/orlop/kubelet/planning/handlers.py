"""Plans the probes and hooks of a container: names of ports become numbers.

Used by `plan`; pure. When and how they are carried out is the agent's business. A port that the
container does not name stays as it is written, and the agent says that there is none.
"""

from __future__ import annotations

from typing import Any

from ...api.objects import Obj
from .expansion import expand_all

PROBES = {
    "startup": "startupProbe",
    "liveness": "livenessProbe",
    "readiness": "readinessProbe",
}
HOOKS = ("postStart", "preStop")


def planned_handlers(container: Obj) -> Obj:
    """Return probes, hooks, and what follows an exit, each where the container has it."""
    lifecycle = container.get("lifecycle") or {}
    probes = {kind: container[name] for kind, name in PROBES.items() if container.get(name)}
    found = {
        "probes": {kind: _probe(probe, container) for kind, probe in probes.items()},
        "hooks": {name: _with_port(lifecycle[name], container) for name in HOOKS
                  if lifecycle.get(name)},
        "restartPolicy": container.get("restartPolicy"),
        "restartPolicyRules": container.get("restartPolicyRules"),
    }  # fmt: skip
    return {key: value for key, value in found.items() if value}


def _probe(probe: Obj, container: Obj) -> Obj:
    found = _with_port(probe, container)
    if "exec" in probe:
        # As ExpandContainerCommandOnlyStatic: hooks are not expanded, probes are.
        env = container.get("env") or []
        known = {each["name"]: each["value"] for each in env if each.get("value")}
        command = expand_all(probe["exec"].get("command") or [], known)
        found["exec"] = {"command": command}
    return found


def _with_port(handler: Obj, container: Obj) -> Obj:
    found = dict(handler)
    for kind in ("httpGet", "tcpSocket", "grpc"):
        if kind in found:
            found[kind] = {**found[kind], "port": _number(found[kind].get("port"), container)}
    return found


def _number(port: Any, container: Obj) -> Any:
    """Return a port's number as pkg/probe/util.go: ResolveContainerPort; numbers may be written as
    text.
    """
    for each in container.get("ports") or []:
        if each.get("name") and each["name"] == port:
            return each["containerPort"]
    return int(port) if isinstance(port, str) and port.isdecimal() else port
