"""The folder of a SlurmJob: what its job finds there, and what is fetched from it afterwards.

Called by the controller before submission and after the end. Variables and volumes are read and
worded as the kubelet reads those of a pod. All of it is for the user alone (0700, files 0600);
Secrets are in files only. Copying runs in a thread, and may be repeated.
"""

from __future__ import annotations

import asyncio
import base64
import glob
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..api.objects import Obj, key_of, uid_of
from ..api.quantity import Quantity
from ..client.api import Api
from ..errors import ConfigError
from ..files import remove_below, write_private
from ..kubelet.downward import Allocatable
from ..kubelet.environment import container_variables
from ..kubelet.source_reader import SourceReader
from ..kubelet.volumes import planned_volumes
from ..settings import Paths
from ..slurm import userscript
from .plan import ENVIRONMENT, PROGRAM, VOLUMES, WORK, Plan, as_pod

TEXT = 16 << 10  # bytes of a result that may stand in the status
VOLUMES_VARIABLE = "ORLOP_VOLUMES"
_NOTHING = Allocatable(Quantity(0), Quantity(0))


def folder_of(paths: Paths, job: Obj) -> Path:
    key = key_of(job)
    return paths.slurm_jobs / f"{key.namespace}_{key.name}_{uid_of(job)}"


async def prepare(api: Api, job: Obj, plan: Plan) -> None:
    """Everything the job needs, before it is submitted; kubelet.Refusal where something lacks."""
    pod = as_pod(job)
    sources = await SourceReader(api).sources(pod)
    variables = container_variables(pod, pod["spec"]["containers"][0], sources, _NOTHING)
    volumes = planned_volumes(pod, sources, _NOTHING)
    await asyncio.to_thread(_write, job, plan, variables, volumes)


def _write(job: Obj, plan: Plan, variables: dict[str, str], volumes: list[Obj]) -> None:
    folder = plan.folder
    for each in (folder, folder / WORK, folder / VOLUMES):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    _link(folder / WORK / VOLUMES, folder / VOLUMES)
    for volume in volumes:
        _place(folder / VOLUMES / volume["name"], volume)
    for wanted in job["spec"].get("inputs") or []:
        source = _in_volume(plan, wanted["volume"], wanted["path"])
        _copy(source, plan.work / (wanted.get("to") or source.name))
    shown = {VOLUMES_VARIABLE: str(folder / VOLUMES), **variables}
    write_private(folder / ENVIRONMENT, userscript.variables(shown))
    write_private(folder / PROGRAM, plan.program, mode=0o700)
    write_private(plan.script, plan.text, mode=0o700)


def _place(place: Path, volume: Obj) -> None:
    """A folder of our own, or a link to one that is there already."""
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
    """A place in a volume of the job, never outside of it."""
    root = plan.folder / VOLUMES / volume
    if not root.exists():
        raise ConfigError(f"volume {volume!r} is not among the job's volumes")
    found = Path(os.path.normpath(root / path))
    if root != found and root not in found.parents:
        raise ConfigError(f"{path!r} leads out of the volume {volume}")
    return found


@dataclass(frozen=True, slots=True)
class Left:
    """What a job has left, and has not, of what it was to leave."""

    texts: dict[str, str]
    missing: list[str]


async def collect(job: Obj, plan: Plan) -> Left:
    """Copy what the job has left to where it is wanted; what is wanted as text is returned."""
    return await asyncio.to_thread(_collect, job, plan)


def _collect(job: Obj, plan: Plan) -> Left:
    texts: dict[str, str] = {}
    missing: list[str] = []
    for wanted in job["spec"].get("results") or []:
        found = sorted(glob.glob(str(plan.work / wanted["path"])))
        if not found:
            missing.append(wanted["path"])
        if wanted.get("volume"):
            target = _in_volume(plan, wanted["volume"], wanted.get("to") or "")
            for name in found:
                _copy(Path(name), target / Path(name).name)
        elif found:
            name = wanted.get("name") or Path(found[0]).name
            texts[name] = _text(Path(found[0]))
    return Left(texts, missing)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(TEXT).decode(errors="replace")
    except OSError as error:
        raise ConfigError(f"{file} cannot be kept as text: {error.strerror}") from error


def _copy(source: Path, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)
    except (OSError, shutil.Error) as error:
        raise ConfigError(f"{source} could not be copied to {target}: {error}") from error


def remove(folder: Path) -> None:
    """All of it; what its volumes lead to stays."""
    if not folder.exists():
        return
    parent = os.open(folder.parent, os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        remove_below(folder.name, parent)
    finally:
        os.close(parent)
