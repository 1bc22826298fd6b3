"""Runs BridgeJobs of Bridge Operator (bridgejob.ibm.com/v1alpha1) as SlurmJobs of ours.

Run by the controller manager while its definition, and that of SlurmJobs, are ours. The cluster
that it names is the one Orlop runs on: `resourceURL` and `resourcesecret` need not be right,
because no REST server is asked. A script may be in S3, and what the job prints goes there after its
end. Jobs for LSF, Ray and quantum machines are refused in plain words.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ...api.kinds import SECRET
from ...api.objects import Key, Obj, key_of, meta
from ...api.reading import decode_json
from ...api.times import parse as parse_time
from ...errors import ConfigError, Error, Unavailable
from ..bundled import bundled_kind
from ..slurmjob.adapter import Adapter, job_status
from ..slurmjob.status import COMPLETE, IS_FAILED
from .s3 import Server

T = TypeVar("T")

BRIDGE_JOB = bundled_kind("bridgejob.ibm.com", "v1alpha1", "BridgeJob", "bridgejobs")

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
_ENDED = ("DONE", "FAILED", "KILLED", "UNKNOWN")
_LARGEST = 1_000_000  # bytes of a script
UNTIL_GIVEN_UP = 600.0  # seconds after a job's end in which a silent S3 server is asked again
# Of their own: a server that swallows packets must not hold up those who work on files.
_THREADS = ThreadPoolExecutor(4, thread_name_prefix="s3")
_STATES = {"CANCELLED": "KILLED", "SUSPENDED": "SUSPENDED", "UNKNOWN": "UNKNOWN"}


class BridgeJobs(Adapter):
    name = "bridge-job"
    kind = BRIDGE_JOB

    async def spec_of(self, obj: Obj) -> Obj:
        spec = obj["spec"]
        _check(spec)
        if spec.get("s3upload"):
            await self._server(obj)  # that it lacks is better known before the job has run
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
        script = await self._script(obj)
        made: Obj = {"script": script, "options": options, "env": env}
        if properties.get("currentWorkingDir"):
            made["workingDirectory"] = str(properties["currentWorkingDir"])
        if spec.get("kill"):
            made["cancel"] = True
        return made

    async def _script(self, obj: Obj) -> str:
        """Return the script: inline, a file of this cluster, or an object in S3."""
        data = obj["spec"]["jobdata"]
        place, text = data.get("scriptlocation") or "remote", str(data["jobscript"])
        if place == "inline":
            return text
        if place == "remote":
            return await asyncio.to_thread(_file, text)
        if place != "s3":
            expected = "expected inline, remote or s3"
            raise ConfigError(f"scriptlocation: {expected}, found {place!r}")
        bucket, colon, key = text.strip().partition(":")
        if not (bucket and colon and key):
            raise ConfigError(f"jobscript: expected bucket:object, found {text!r}")
        server = await self._server(obj)
        found = await _in_thread(partial(server.read, bucket, key.lstrip("/"), _LARGEST))
        try:
            return found.decode()
        except ValueError:
            raise ConfigError(f"{text}: expected a script, found bytes that are no text") from None

    async def _server(self, obj: Obj) -> Server:
        storage = obj["spec"].get("s3storage") or {}
        for field in ("s3secret", "endpoint"):
            if not storage.get(field):
                raise ConfigError(f"s3storage.{field} is needed for scripts and results in S3")
        name = storage["s3secret"]
        secret = await self.api.get(SECRET, Key(key_of(obj).namespace, name))
        access, hidden = (_value(secret, key, name) for key in ("accesskey", "secretkey"))
        endpoint, is_secure = storage["endpoint"].strip(), storage.get("secure", True)
        return Server(endpoint, access, hidden, is_secure=is_secure, destinations=self.destinations)

    def is_over(self, obj: Obj) -> bool:
        return (obj.get("status") or {}).get("jobstatus") in _ENDED

    async def ended(self, obj: Obj, job: Obj, status: Obj) -> Obj:
        """Upload what the job has left to S3, before its end is reported.

        Raises Unavailable while it is worth another try.
        """
        upload, former = obj["spec"].get("s3upload"), obj.get("status") or {}
        if not upload:
            return status
        if self.is_over(obj):
            return {**status, "message": former.get("message", "")}
        try:
            server = await self._server(obj)
            words = await _in_thread(partial(_upload, server, upload, job))
        except Error as error:
            if isinstance(error, Unavailable) and self.clock.now() < _until(job):
                raise
            words = f"not all is in S3: {error}"
            await self.recorder.event(obj, "Warning", "ResultsNotKept", words)
        return {**status, "message": "; ".join(filter(None, (status.get("message"), words)))}

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

    def waiting(self, obj: Obj, words: str) -> Obj:
        return {**self.status_of(obj, None), "message": words}

    def failed(self, obj: Obj, words: str) -> Obj:
        return {"jobstatus": "FAILED", "message": words}


def _check(spec: Obj) -> None:
    place = f"{spec.get('image', '')} {spec['resourceURL']}".lower()
    if "slurm" not in place:
        expected = "expected an image or a resourceURL of Slurm's"
        raise ConfigError(f"{expected}, found {place.strip()!r}; jobs run on this Slurm alone")


def _file(name: str) -> str:
    try:
        return Path(name).read_text()
    except (OSError, ValueError) as error:
        raise ConfigError(f"jobscript: {name} cannot be read: {error}") from error


def _value(secret: Obj, key: str, name: str) -> str:
    found = (secret.get("data") or {}).get(key)
    if not found:
        raise ConfigError(f"s3storage: expected the key {key} in the Secret {name}, found none")
    try:
        return base64.b64decode(found).decode().strip()  # `echo` has ended it with a line
    except ValueError:
        raise ConfigError(f"s3storage: expected text as {key} of the Secret {name}") from None


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)


def _until(job: Obj) -> float:
    """Return when to give up, counted from when the control plane has heard of the job's end."""
    conditions = job_status(job).get("conditions") or []
    heard = [one for one in conditions if one["type"] in (COMPLETE, IS_FAILED)]
    times = [parse_time(one["lastTransitionTime"]) for one in heard]
    return max(times, default=0.0) + UNTIL_GIVEN_UP


def _upload(server: Server, upload: Mapping[str, str], job: Obj) -> str:
    """Upload as Bridge Operator does: objects `<name of the job>/<name of the file>`."""
    bucket, name, status = upload["bucket"], meta(job)["name"], job_status(job)
    server.write(bucket, f"{name}/script", str(job["spec"]["script"]).encode())
    work = Path(status.get("workingDirectory") or "/")
    named = [file.strip() for file in (upload.get("files") or "").split(",")]
    wanted = {file.lstrip("/"): work / file for file in named if file}
    printed = [Path(status[stream]) for stream in ("stdout", "stderr") if status.get(stream)]
    wanted |= {file.name: work / file for file in printed}
    missing = [key for key, file in wanted.items() if not file.is_file()]
    for key, file in wanted.items():
        if key not in missing:
            server.write(bucket, f"{name}/{key}", file)
    lost = f", but {', '.join(missing)} is not there" if missing else ""
    return f"what it left is in S3 at {bucket}:{name}/{lost}"


def _properties(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        found = decode_json(text)
    except ValueError as error:
        raise ConfigError(f"jobproperties: expected an object in JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"jobproperties: expected an object in JSON, found {text!r}")
    return found
