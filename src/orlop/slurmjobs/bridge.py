"""BridgeJob of Bridge Operator (bridgejob.ibm.com/v1alpha1), run as a SlurmJob of ours.

Run by the control plane while its definition is ours. The cluster that it names is the one Orlop
runs on: `resourceURL` and `resourcesecret` need not be right, because no REST server is asked.
Jobs for LSF, Ray and quantum machines, and scripts and results in S3, are refused in plain words.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..api.objects import Obj
from ..errors import ConfigError
from .adapter import Adapter, job_status
from .kinds import BRIDGE_JOB

_OPTIONS = {
    "NodesNumber": "nodes",
    "Queue": "partition",
    "Tasks": "ntasks",
    "slurmJobName": "job-name",
    "OutputFileName": "output",
    "ErrorFileName": "error",
}
_VARIABLES = {"envPath": "PATH", "envLibPath": "LD_LIBRARY_PATH"}
_WORDS = {"Pending": "PENDING", "Running": "RUNNING", "Succeeded": "DONE", "Failed": "FAILED"}
_STATES = {"CANCELLED": "KILLED", "SUSPENDED": "SUSPENDED", "UNKNOWN": "UNKNOWN"}


class BridgeJobs(Adapter):
    name = "bridge-job"
    kind = BRIDGE_JOB

    def spec_of(self, obj: Obj) -> Obj:
        spec = obj["spec"]
        _check(spec)
        properties = _properties(spec.get("jobproperties") or "")
        options = {
            option: str(properties[name])
            for name, option in _OPTIONS.items()
            if properties.get(name)
        }
        env = [
            {"name": variable, "value": str(properties[name])}
            for name, variable in _VARIABLES.items()
            if properties.get(name)
        ]
        made: Obj = {"script": _script(spec["jobdata"]), "options": options, "env": env}
        if properties.get("currentWorkingDir"):
            made["workingDirectory"] = str(properties["currentWorkingDir"])
        if spec.get("kill"):
            made["cancel"] = True
        return made

    def change_of(self, obj: Obj, job: Obj) -> Obj:
        is_due = obj["spec"].get("kill") and not job["spec"].get("cancel")
        return {"cancel": True} if is_due else {}

    def status_of(self, obj: Obj, job: Obj | None) -> Obj:
        status = job_status(job)
        word = _STATES.get(status.get("state", "")) or _WORDS.get(
            status.get("phase", ""), "PENDING"
        )
        if status.get("reason") == "Cancelled":
            word = "KILLED"
        given = {
            "jobstatus": word,
            "starttime": status.get("startTime"),
            "completiontime": status.get("endTime"),
            "message": status.get("message"),
        }
        return {key: value for key, value in given.items() if value}

    def failed(self, obj: Obj, words: str) -> Obj:
        return {"jobstatus": "FAILED", "message": words}


def _check(spec: Obj) -> None:
    place = f"{spec.get('image', '')} {spec['resourceURL']}".lower()
    if "slurm" not in place:
        expected = "expected an image or a resourceURL of Slurm's"
        raise ConfigError(f"{expected}, found {place.strip()!r}; jobs run on this Slurm alone")
    if spec.get("s3upload"):
        raise ConfigError("s3upload is not supported: results stay in the working directory")


def _script(data: Obj) -> str:
    """Inline, or a file of this cluster."""
    place, text = data.get("scriptlocation") or "remote", str(data["jobscript"])
    if place == "inline":
        return text
    if place != "remote":
        raise ConfigError(f"scriptlocation {place!r} is not supported; use inline or remote")
    try:
        return Path(text).read_text()
    except (OSError, ValueError) as error:
        raise ConfigError(f"jobscript: {text} cannot be read: {error}") from error


def _properties(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"jobproperties: expected an object in JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"jobproperties: expected an object in JSON, found {text!r}")
    return found
