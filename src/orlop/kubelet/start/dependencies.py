"""Finds what a pod waits for before its job may start: Jobs, pods and others of its namespace.

Asked by `starter` before anything is prepared. Where the pod's `dependency` names objects, their
Slurm jobs' numbers take the place of the names, and Slurm does the waiting; until they have such
numbers the pod is not submitted. A Job may try again and has no one Slurm job, a pod of a gang
shares one with others: they are waited for until they have ended themselves.
"""

from __future__ import annotations

from ... import errors
from ...api.dependencies import Wait, awaited_kind, holds, names_objects, parse
from ...api.kinds import JOB, POD, Kind
from ...api.objects import Key, Obj, annotations_of, condition_of, controller_of, key_of, phase_of
from ...client.api import Api
from ...wellknown import DEPENDENCY, JOB_ID


class Dependencies:
    def __init__(self, api: Api) -> None:
        self._api = api

    async def met(self, pod: Obj) -> Obj:
        """Return the pod as it can be submitted now: with numbers in place of names.

        Raises WaitingForDependency with what it waits for, DependencyNeverSatisfied, ConfigError.
        """
        text = annotations_of(pod).get(DEPENDENCY, "")
        if not names_objects(text):
            return pod
        return _with(pod, [await self._part(pod, wait) for wait in parse(text, DEPENDENCY)])

    def without_names(self, pod: Obj) -> Obj:
        """Return the pod with just what Slurm itself is asked for."""
        text = annotations_of(pod).get(DEPENDENCY, "")
        return _with(pod, [str(wait) for wait in parse(text, DEPENDENCY) if not wait.kind])

    async def _part(self, pod: Obj, wait: Wait) -> str:
        """Return what sbatch is told of it; empty where it has come true."""
        if not wait.kind:
            return str(wait)
        if _is_own(pod, wait):
            raise errors.ConfigError(f"{DEPENDENCY}: {_words(wait)} is the pod's own")
        key = Key(key_of(pod).namespace, wait.name)
        try:
            target = await self._api.get(_kind(wait.kind), key)
        except errors.NotFound:
            raise errors.WaitingForDependency(f"{_words(wait)} is not there yet") from None
        ended = _ended(wait.kind, target)
        if ended is not None:
            if not holds(wait.condition, ended):
                how = "has succeeded" if ended else "has failed"
                message = f"{wait.condition} cannot come true: {_words(wait)} {how}"
                raise errors.DependencyNeverSatisfied(message)
            return ""
        return _number_of(wait, target)


def _kind(name: str) -> Kind:
    found = awaited_kind(name)
    if found is not None:
        return found.kind
    return JOB if name == JOB.kind else POD


def _with(pod: Obj, parts: list[str]) -> Obj:
    annotations = {name: text for name, text in annotations_of(pod).items() if name != DEPENDENCY}
    if any(parts):
        annotations[DEPENDENCY] = ",".join(filter(None, parts))
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}


def _words(wait: Wait) -> str:
    return f"{wait.kind} {wait.name}"


def _is_own(pod: Obj, wait: Wait) -> bool:
    owner = controller_of(pod)
    is_owner = owner is not None and (owner["kind"], owner["name"]) == (wait.kind, wait.name)
    return is_owner or (wait.kind, wait.name) == ("Pod", key_of(pod).name)


def _ended(kind: str, target: Obj) -> bool | None:
    """Return whether it has succeeded; None while it has not ended."""
    if kind == "Job":
        for name, has_succeeded in (("Complete", True), ("Failed", False)):
            if (condition_of(target, name) or {}).get("status") == "True":
                return has_succeeded
        return None
    brought = awaited_kind(kind)
    if brought is not None:
        return brought.has_succeeded(target)
    return {"Succeeded": True, "Failed": False}.get(phase_of(target))


def _number_of(wait: Wait, target: Obj) -> str:
    """Return the dependency on its Slurm job; empty for what need only have begun, and has."""
    status = target.get("status") or {}
    brought = awaited_kind(wait.kind)
    number = brought.job_of(target) if brought is not None else annotations_of(target).get(JOB_ID)
    is_of_gang = wait.kind == "Pod" and "+" in (number or "")
    if wait.kind == "Job" or is_of_gang:
        has_begun = status.get("ready") or status.get("succeeded") or phase_of(target) == "Running"
        if wait.condition == "after" and has_begun:
            return ""
        has_to = "begun" if wait.condition == "after" else "ended"
        raise errors.WaitingForDependency(f"{_words(wait)} has not {has_to} yet")
    if not number:
        raise errors.WaitingForDependency(f"{_words(wait)} has no Slurm job yet")
    return f"{wait.condition}:{number}"
