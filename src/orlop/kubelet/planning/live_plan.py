"""Brings a plan up to date: new files for its volumes, new variables for containers yet to start.

Used by `live_updates` for pods that have a job already. Pure: it takes the plan as it was written
and what the API says now, and answers with the plan as it should be. What the pod was given for
good, its images, claims and mounts, stays; so does what cannot be had any more.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...api.objects import Obj
from ...slurm.translate.job import mpi_launcher
from .downward_api import with_addresses
from .environment import with_image
from .expansion import Room
from .plan import Inputs, Site, argv_of, counted, room_of_pod, variables_of
from .refusal import Refusal
from .sources import TokenWish
from .volumes import files_maker

REVISION = "revision"  # of the plan: raised with every change
_PIECE = 384 << 10  # characters of contents in one message: with all else less than a frame
_DAY = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class TokenRenewal:
    """The times at which tokens are renewed, as in pkg/kubelet/token: when so much of their life is
    over, or after a day.
    """

    aged: float = 0.8
    first_look: float = 300.0  # seconds; no token lives so short that it must be renewed before

    def due(self, token: str) -> float:
        """Return when a token should be replaced; at once, if it is none that we can read."""
        try:
            body = token.split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            issued = float(claims["iat"])
            # A token that lives on for old clients says when it should have been replaced.
            ends = float(claims.get("kubernetes.io", {}).get("warnafter") or claims["exp"])
        except (IndexError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return 0.0
        return issued + min(self.aged * (ends - issued), _DAY)


@dataclass(frozen=True, slots=True)
class PlannedImage:
    """The part of a plan that describes a container's image."""

    entrypoint: Sequence[str]
    cmd: Sequence[str]


def updated(
    plan: Obj, pod: Obj, site: Site, inputs: Inputs, refuse: Callable[[Refusal], None]
) -> Obj:
    """Return the plan as it should be now; `refuse` hears of what has to stay as it was."""
    pod = with_addresses(pod, inputs.pod_ip)
    files_of = files_maker(pod, inputs.sources, inputs.allocatable)
    volumes = [_volume(one, files_of, refuse) for one in plan["volumes"]]
    launcher = mpi_launcher(pod)
    inits = _containers(plan, pod, "initContainers", inputs, site, ())
    mains = _containers(plan, pod, "containers", inputs, site, launcher)
    new = {**plan, "volumes": volumes, "initContainers": inits, "containers": mains}
    return new if new == plan else {**new, REVISION: revision_of(plan) + 1}


def revision_of(plan: Obj) -> int:
    return int(plan.get(REVISION) or 0)


def _volume(
    volume: Obj, files_of: Callable[[str], list[Obj]], refuse: Callable[[Refusal], None]
) -> Obj:
    if volume["kind"] != "files" or volume.get("fixed"):
        return volume
    try:
        files = files_of(volume["name"])
    except Refusal as refusal:
        refuse(refusal)
        return volume
    return {**volume, "files": files}


def _containers(
    plan: Obj, pod: Obj, key: str, inputs: Inputs, site: Site, launcher: tuple[str, ...]
) -> list[Obj]:
    specs = {one["name"]: one for one in pod["spec"].get(key) or []}
    room = room_of_pod()
    return [
        _container(planned, pod, specs.get(planned["name"]), inputs, site, launcher, room)
        for planned in plan[key]
    ]


def _container(
    planned: Obj,
    pod: Obj,
    container: Obj | None,
    inputs: Inputs,
    site: Site,
    launcher: tuple[str, ...],
    room: Room,
) -> Obj:
    """Plan a container anew: its next run, if any, has the variables of that moment, as upstream
    has it.
    """
    found = planned.get("fromImage")
    if container is None or found is None:
        return planned
    try:
        variables = variables_of(pod, container, inputs, site)
        image = PlannedImage(found["entrypoint"], found["cmd"])
        argv = [*launcher, *argv_of(container, image, variables)]
        env = with_image(found["env"], variables)
        return counted({**planned, "argv": argv, "env": env}, room)
    except Refusal:
        return planned  # its last known variables are better than no restart


# Tokens


def tokens_in(plan: Obj, pod: Obj) -> dict[TokenWish, str]:
    """Return the tokens of service accounts that the plan holds, by what was asked for."""
    planned = {one["name"]: one for one in plan["volumes"] if one["kind"] == "files"}
    found = {}
    for volume in pod["spec"].get("volumes") or []:
        files = {
            one["path"]: one["data"] for one in planned.get(volume["name"], {}).get("files", [])
        }
        for source in (volume.get("projected") or {}).get("sources") or []:
            token = source.get("serviceAccountToken")
            if token and token["path"] in files:
                text = base64.b64decode(files[token["path"]]).decode(errors="replace")
                found[TokenWish.of(token)] = text
    return found


# What an agent is told


def messages(plan: Obj) -> Iterator[Obj]:
    """Yield all that a running pod may have anew, in pieces that fit a frame; the last makes it
    valid.
    """
    for volume in plan["volumes"]:
        if volume["kind"] == "files" and not volume.get("fixed"):
            for piece in pieces(volume["files"]):
                yield {"type": "volume-files", "volume": volume["name"], "files": piece}
    for container in [*plan["initContainers"], *plan["containers"]]:
        if "fromImage" in container:
            new = {"argv": container["argv"], "env": container["env"]}
            yield {"type": "environment", "container": container["name"], **new}
    yield {"type": "plan-revision", "revision": revision_of(plan)}


def pieces(files: Sequence[Obj]) -> Iterator[list[Obj]]:
    """Yield files in lists of limited size; what is larger comes in parts that are to be joined."""
    piece: list[Obj] = []
    room = _PIECE
    for file in files:
        data, is_first = file["data"], True
        while is_first or data:
            if room < 4096:
                yield piece
                piece, room = [], _PIECE
            part, data = data[: room & ~3], data[room & ~3 :]
            piece.append({**file, "data": part} | ({} if is_first else {"append": True}))
            room -= len(part) + len(file["path"]) + 128
            is_first = False
    yield piece
