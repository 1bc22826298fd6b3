"""Makes one job array of pods that ask for the same; its folder says which task is which pod.

Used by `array_submission` where pods of one owner, or a crowd of nobody's, wait for sbatch at the
same time. `arrays/<id>/` holds job.sh, a link from each task's number to its pod's folder, and the
submit file and lock of the one sbatch; the pods' own submit files lead there until their numbers
are known. Every pod stays a pod of its own: its task is cancelled, followed and accounted for by
`<array>_<task>`.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ... import wellknown
from ...api.objects import Key, Obj, controller_of, key_of, uid_of
from ..translate.job import JobSpec, array_of
from .sbatch import LOCK_FILE, TASK_FILE, Folder

MOST = 500  # tasks of one array: sites with small limits of submitted jobs are common
CROWD = 16  # pods without an owner that go as one array, under a name that is none of theirs
# What is each pod's own although all else is alike.
_OWN = frozenset({"job-name", "comment", "chdir", "output"})


class Member(NamedTuple):
    """A pod of an array, as its folder is called."""

    uid: str
    key: Key


def shape(pod: Obj, spec: JobSpec) -> object:
    """Return a value that is equal for pods that may share an array.

    A name that the user chose is part of it, because an array has one name.
    """
    if "array" in dict(spec.options):
        return uid_of(pod)
    owner = controller_of(pod)
    whose = owner["uid"] if owner is not None else key_of(pod).namespace
    named = spec.value("job-name")
    name = "" if named == str(key_of(pod)) else named
    rest = tuple(option for option in spec.options if option[0] not in _OWN)
    return whose, name, rest, spec.command[:-1], spec.environment, spec.prologue, spec.path


def least(pod: Obj) -> int:
    """Return how many pods make an array: in a crowd nobody looks for one pod's name in squeue."""
    return 2 if controller_of(pod) is not None else CROWD


def name_of(pod: Obj, spec: JobSpec) -> str:
    """Return the name of the whole array: the one that the user chose, else the owner's, else the
    namespace's.
    """
    chosen = spec.value("job-name") or ""
    if chosen != str(key_of(pod)):
        return chosen
    owner = controller_of(pod)
    return f"{key_of(pod).namespace}/{owner['name'] if owner is not None else 'pods'}"


class Array:
    """One folder of `arrays/`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def id(self) -> str:
        return self.folder.name

    @classmethod
    def make(cls, root: Path, pods: Sequence[Path]) -> Array:
        """Make an array with all of `pods` as tasks; from now on their submit files lead here."""
        array = cls(root / uuid.uuid4().hex[:12])
        array.folder.mkdir(mode=0o700, parents=True)
        for name in (wellknown.SUBMIT_FILE, LOCK_FILE):
            (array.folder / name).touch(mode=0o600)
        for index, pod in enumerate(pods):
            (array.folder / str(index)).symlink_to(pod)
            array._join(pod, index)
        return array

    def _join(self, pod: Path, index: int) -> None:
        (pod / TASK_FILE).write_text(str(index))
        follow(pod, self.folder)

    def dissolve(self, pods: Sequence[Path]) -> None:
        """Dissolve the array that Slurm has refused: its pods are on their own again."""
        for pod in pods:
            leave(Folder(pod))
        self.remove()

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def is_over(self) -> bool:
        """Return whether the folders of all its pods are gone."""
        links = [entry for entry in self.folder.iterdir() if entry.name.isdecimal()]
        return not any(entry.exists() for entry in links)


def follow(pod: Path, folder: Path) -> None:
    """Make the pod's submission that of `folder`, which belongs to many pods.

    The same lock under another name: whoever asks for the pod's waits for the folder's.
    """
    _replace(pod / LOCK_FILE, lambda new: os.link(folder / LOCK_FILE, new))
    target = folder / wellknown.SUBMIT_FILE
    _replace(pod / wellknown.SUBMIT_FILE, lambda new: new.symlink_to(target))
    script = folder / wellknown.SCRIPT_FILE
    _replace(pod / wellknown.SCRIPT_FILE, lambda new: new.symlink_to(script))


def sweep(root: Path) -> None:
    """Remove the arrays of which no pod is left."""
    try:
        arrays = [Array(entry) for entry in root.iterdir()]
    except FileNotFoundError:
        return
    for array in arrays:
        if array.is_over:
            array.remove()


def joined(folder: Folder) -> Path | None:
    """Return the array that a pod's submission is part of, as long as its number is not known."""
    submit = folder.submit_file
    return Path(os.readlink(submit)).parent if submit.is_symlink() else None


def leave(folder: Folder) -> None:
    """Take the pod out of an array that was refused, or not handed in: it is on its own again."""
    folder.forget()
    for name in (TASK_FILE, LOCK_FILE, wellknown.SCRIPT_FILE):
        (folder.folder / name).unlink(missing_ok=True)


def member(root: Path, comment: str, task: str) -> Member | None:
    """Return which pod a task is, by its job's comment and its number; None if it is not known."""
    array = array_of(comment)
    if not array or not task.isdecimal():
        return None
    try:
        folder = Path(os.readlink(root / array / task))
    except OSError:
        return None
    namespace, name, uid = folder.name.split("_")
    return Member(uid, Key(namespace, name))


def _replace(path: Path, make: Callable[[Path], object]) -> None:
    """Replace `path` in one step, so that it is there at every moment; for most pods it does not
    exist yet.
    """
    try:
        make(path)
    except FileExistsError:
        _make_beside(path, make)


def _make_beside(path: Path, make: Callable[[Path], object]) -> None:
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    make(new)
    new.replace(path)
