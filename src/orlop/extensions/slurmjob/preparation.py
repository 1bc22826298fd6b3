"""Prepares the folder of a SlurmJob, and keeps what the job leaves in it afterwards.

Called by the controller before submission and after the end. Variables and volumes are read and
worded as the kubelet reads those of a pod. All of it is private to the user (0700, files 0600);
Secrets are passed in files. Work on files runs in a thread, and may be repeated; what is copied
between the job and its volumes is copied by the scripts of `transfers`.
"""

from __future__ import annotations

import asyncio
import base64
import glob
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...api.kinds import SECRET
from ...api.objects import Key, Obj, key_of, uid_of
from ...api.quantity import Quantity
from ...client.api import Api
from ...errors import ConfigError, NotFound
from ...files import open_regular, remove_below, write_private
from ...kubelet.planning.downward_api import Allocatable
from ...kubelet.planning.environment import container_variables
from ...kubelet.planning.source_reader import SourceReader
from ...kubelet.planning.volumes import planned_volumes
from ...settings import Paths
from ...slurm.submit import user_script
from . import transfers
from .kinds import FOLDER
from .plan import ENVIRONMENT, PROGRAM, VOLUMES, WORK, Plan, as_pod
from .transfers import FETCH, KEEP, PROBLEM, Input, Producer, Result

PROBLEM_LENGTH = 1 << 10  # characters of a message
LONGEST_COPY = 3600.0  # seconds for the results of one job
TEXT = 16 << 10  # bytes of a result that may stand in the status
VOLUMES_VARIABLE = "ORLOP_VOLUMES"
_NOTHING = Allocatable(Quantity(0), Quantity(0))


def folder_of(paths: Paths, job: Obj) -> Path:
    key = key_of(job)
    return paths.home / FOLDER / f"{key.namespace}_{key.name}_{uid_of(job)}"


async def prepare(api: Api, job: Obj, plan: Plan, producers: Sequence[Producer] = ()) -> None:
    """Make everything the job needs before submission; raise Refusal where something lacks.

    `producers` are jobs that it waits for and that may leave it something.
    """
    pod = as_pod(job)
    sources = await SourceReader(api).sources(pod)
    variables = container_variables(pod, pod["spec"]["containers"][0], sources, _NOTHING)
    volumes = planned_volumes(pod, sources, _NOTHING)
    await asyncio.to_thread(_write, job, plan, variables, volumes, producers)


def _write(
    job: Obj,
    plan: Plan,
    variables: dict[str, str],
    volumes: list[Obj],
    producers: Sequence[Producer],
) -> None:
    folder = plan.folder
    for each in (folder, folder / WORK, folder / VOLUMES):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    _link(folder / WORK / VOLUMES, folder / VOLUMES)
    for volume in volumes:
        _place(folder / VOLUMES / volume["name"], volume)
    inputs = _inputs(job, plan, waits=bool(producers or plan.effective.get("dependency")))
    fetch = transfers.fetching(folder, plan.work, inputs, producers)
    _write_or_remove(folder / FETCH, fetch)
    _write_keeping(job, plan)
    shown = {VOLUMES_VARIABLE: str(folder / VOLUMES), **variables}
    write_private(folder / ENVIRONMENT, user_script.variables(shown))
    write_private(folder / PROGRAM, plan.program, mode=0o700)
    before = transfers.starting(folder) if fetch else ()
    write_private(plan.script, plan.text(before), mode=0o700)


async def shell_of(api: Api, job: Obj) -> dict[str, str] | None:
    """Return the variables to call sbatch with; None for those of the control plane."""
    wanted = job["spec"].get("submitEnvironment")
    if not wanted:
        return None
    name, key = wanted["secretKeyRef"]["name"], wanted["secretKeyRef"]["key"]
    try:
        data = (await api.get(SECRET, Key(key_of(job).namespace, name))).get("data") or {}
    except NotFound:
        data = {}
    if key not in data:
        if wanted["secretKeyRef"].get("optional"):
            return None
        raise ConfigError(f"submitEnvironment: Secret {name} with a key {key} not found")
    return user_script.exported(base64.b64decode(data[key]))


def _write_or_remove(file: Path, text: str) -> None:
    if text:
        write_private(file, text)
    else:
        file.unlink(missing_ok=True)


def _write_keeping(job: Obj, plan: Plan) -> None:
    text = transfers.keeping(plan.folder, plan.work, _results(job, plan))
    _write_or_remove(plan.folder / KEEP, text)


def _inputs(job: Obj, plan: Plan, *, waits: bool) -> list[Input]:
    """Return the inputs; what no other job is still to write must be there now."""
    found = []
    for wanted in job["spec"].get("inputs") or []:
        source = _in_volume(plan, wanted["volume"], wanted["path"])
        if not waits and not source.exists():
            where = f"volume {wanted['volume']} has no {wanted['path']}"
            raise ConfigError(f"{where} yet, which inputs ask for; put it there")
        found.append(Input(source, wanted.get("to") or source.name))
    return found


def _results(job: Obj, plan: Plan) -> list[Result]:
    """Return the results that volumes are to have."""
    return [
        Result(one["path"], _in_volume(plan, one["volume"], one.get("to") or ""))
        for one in job["spec"].get("results") or []
        if one.get("volume")
    ]


def _place(place: Path, volume: Obj) -> None:
    """Make a folder of our own, or a link to one that is there already."""
    kind = volume["kind"]
    if kind in ("folder", "hostPath"):
        if volume.get("type") == "DirectoryOrCreate":
            Path(volume["path"]).mkdir(mode=0o755, parents=True, exist_ok=True)
        _link(place, Path(volume["path"]))
    elif kind == "emptyDir":
        place.mkdir(mode=0o700, exist_ok=True)
    elif kind == "files":
        place.mkdir(mode=0o700, exist_ok=True)
        for file in volume["files"]:
            path = place / file["path"]
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, base64.b64decode(file["data"]), mode=file["mode"] & 0o700)
    else:
        raise ConfigError(f"volume {volume['name']}: {kind} cannot be had by a job of Slurm's own")


def _link(place: Path, target: Path) -> None:
    if place.is_symlink():
        place.unlink()
    if not place.exists():
        place.symlink_to(target)


def _in_volume(plan: Plan, volume: str, path: str) -> Path:
    """Return a place in a volume of the job, never outside of it."""
    root = plan.folder / VOLUMES / volume
    if not root.exists():
        raise ConfigError(f"volume {volume!r} is not among the job's volumes")
    found = Path(os.path.normpath(root / path))
    if root != found and root not in found.parents:
        raise ConfigError(f"{path!r} leads out of the volume {volume}")
    return found


@dataclass(frozen=True, slots=True)
class Left:
    """The results that a job has left, and those it has not."""

    texts: dict[str, str]
    missing: list[str]


def problem(plan: Plan) -> str:
    """Return what kept the job from starting its program; empty if nothing did."""
    try:
        return (plan.folder / PROBLEM).read_text(errors="replace").strip()[:PROBLEM_LENGTH]
    except FileNotFoundError:
        return ""


async def collect(job: Obj, plan: Plan) -> Left:
    """Copy what the job has left to where it is wanted; return what is wanted as text."""
    # `results` may have changed since it was submitted.
    await asyncio.to_thread(_write_keeping, job, plan)
    if (plan.folder / KEEP).exists():
        await keep(plan.folder / KEEP)
    return await asyncio.to_thread(_left, job, plan)


def _left(job: Obj, plan: Plan) -> Left:
    texts: dict[str, str] = {}
    missing: list[str] = []
    for wanted in job["spec"].get("results") or []:
        found = sorted(glob.glob(str(plan.work / wanted["path"])))
        if not found:
            missing.append(wanted["path"])
        elif not wanted.get("volume"):
            name = wanted.get("name") or Path(found[0]).name
            texts[name] = _text(Path(found[0]))
    return Left(texts, missing)


def _text(file: Path) -> str:
    try:
        with open_regular(file) as opened:  # the job may have left a pipe there
            return opened.read(TEXT).decode(errors="replace")
    except OSError as error:
        raise ConfigError(f"{file} cannot be kept as text: {error.strerror}") from error


async def keep(script: Path, timeout: float = LONGEST_COPY) -> None:
    """Copy the results, unless a job that depends on this one has done so already.

    No thread waits for it, and shutdown does not either: a file system may hang, and a lock may be
    that of a host which has died.
    """
    child = await asyncio.create_subprocess_exec(
        "bash", script, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, start_new_session=True
    )
    try:
        async with asyncio.timeout(timeout):
            _, said = await child.communicate()
    except TimeoutError:
        raise ConfigError(f"results could not be copied within {timeout:g} s") from None
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # cp, too, which has the lock as well
    if child.returncode:
        words = said.decode(errors="replace").strip()
        raise ConfigError(f"results could not be copied: {words or child.returncode}")


def remove(folder: Path) -> None:
    """Remove all of it; what its volumes lead to stays."""
    if not folder.exists():
        return
    parent = os.open(folder.parent, os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        remove_below(folder.name, parent)
    finally:
        os.close(parent)
