"""Chooses how a container is started on this node: what every runtime is given, what it answers.

`choose` takes the first runtime of the plan that the node has; each of the modules beside this one
composes a `Launch` from a `Box`, and the supervisor starts it.
"""

from __future__ import annotations

import os

from ....wellknown import RUNTIME_ANNOTATION
from ...linux.fast_imports import value
from ...plan import Container, Plan
from ...pod.sandbox import Sandbox
from ...pod.volumes import Bind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from ..seccomp import Profile

SETUID = ("apptainer", "singularity")  # may work where user namespaces are denied


@value
class Box:
    """One run of one container: all that does not depend on the runtime."""

    container: Container
    restart: int
    folder: str  # for this run alone, in memory
    root: str  # what becomes /; empty: the node's own root
    binds: list[Bind]  # parents before what is below them
    env: list[tuple[str, str]]
    sandbox: Sandbox
    shares_pids: bool = False  # with the other containers, or with the node
    joins: int = 0  # a process whose process namespace it enters; 0: none
    seccomp: Profile | None = None  # None: not confined

    @property
    def has_own_pids(self) -> bool:
        """Return whether all it starts dies with its first process."""
        return self.sandbox.has_own_pids and not self.shares_pids and not self.joins

    @property
    def id(self) -> str:
        return f"{self.container.name}-{self.restart}"


@value
class Launch:
    """Tells the supervisor how to start a container, and how it learns that it runs.

    A child runs `body`. Either it leaves the number of the container's first process in `pid_file`
    and ends, with 0 when that runs; or it stays, and its exit is the container's, while a stub in
    the container reports at the FIFO `status` (runtimes/stub.py).
    """

    body: Callable[[], object]
    pid_file: str = ""
    error_file: str = ""  # the launcher's words, beside what it printed
    status: str = ""
    console: str = ""  # a socket at which the launcher hands over the container's terminal
    leads: bool = False  # it stays, `pid_file` tells of another's child, signals are for itself
    meeting: str = ""  # where the ranks that it leads are entered


if TYPE_CHECKING:

    class Runtime(Protocol):
        name: str

        def version(self) -> str:
            """Return product and version, for people."""
            ...

        def compose(self, box: Box) -> Launch: ...

        def words(self, box: Box, launch: Launch, output: str, report: bytes) -> str:
            """Say why a container did not start, from the launcher's output and the report."""
            ...

        def remove(self, box: Box) -> None:
            """Forget a container that has ended."""
            ...


def find(names: Sequence[str]) -> str:
    """Return the path of the first of `names` that is a program on this node; else empty."""
    for name in names:
        folders = [""] if "/" in name else (os.environ.get("PATH") or os.defpath).split(":")
        for folder in folders:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    return ""


def choose(names: Sequence[str], folder: str) -> Runtime:
    """Return the runtime for containers with an image; `folder` is where it may keep its state.

    Where the node has none of those named, the agent does without: see native.py.
    """
    path = find(names)
    if not path:
        from .native import Native

        return Native()
    if os.path.basename(path) in SETUID:
        from .apptainer import Apptainer

        return Apptainer(path, folder)
    from .crun import Oci

    return Oci(path, folder)


class Kit:
    """The runtimes of this pod, each found when the first container wants it."""

    def __init__(self, plan: Plan, sandbox: Sandbox, folder: str) -> None:
        self._plan, self._sandbox, self._folder = plan, sandbox, folder
        self._chosen: Runtime | None = None

    def runtime_for(self, container: Container, joins: int = 0) -> Runtime:
        """Return a container's runtime; ours where it joins a namespace, as apptainer cannot."""
        if not container.rootfs or (joins and self._sandbox.is_isolated and self._is_apptainer()):
            from .native import Native

            return Native()
        return self._choose()

    def _is_apptainer(self) -> bool:
        return self._choose().name in SETUID

    def _choose(self) -> Runtime:
        if self._chosen is None:
            names = self._plan.runtimes
            if not self._sandbox.is_isolated:
                names = [name for name in names if os.path.basename(name) in SETUID]
            if self._plan.runtime_required and not find(names):
                raise OSError(_missing(self._plan.runtimes, self._sandbox))
            self._chosen = choose(names, self._folder)
        return self._chosen

    def lack(self) -> str:
        """Say what the settings ask for and this node does not have; else empty."""
        asked, has_image = self._plan.runtime_setting, any(c.rootfs for c in self._plan.containers)
        if not asked or self._plan.runtime_required or not has_image:
            return ""
        try:
            has_it = self._choose().name == os.path.basename(asked)
        except OSError:
            has_it = False
        why = "this node does not have it" if self._sandbox.is_isolated else self._sandbox.problem
        words = f"agent.runtime is {asked}, and {why}: the agent runs the containers itself"
        remedy = "let slurm.prologue load it, choose nodes that have it, or leave the setting out"
        return "" if has_it else f"{words}; {remedy}"

    def version(self) -> str:
        """Return what runs the images of this pod, for people; `host` if none has an image."""
        for container in self._plan.containers:
            if container.rootfs:
                try:
                    return self.runtime_for(container).version()
                except OSError:
                    return ""  # asked for, and not there: the containers will say so
        return "host"


def _missing(asked: Sequence[str], sandbox: Sandbox) -> str:
    wanted = " or ".join(asked)
    if not sandbox.is_isolated:
        return f"{RUNTIME_ANNOTATION} asks for {wanted}, which cannot run here: {sandbox.problem}"
    remedy = "leave the annotation out, or choose nodes that have it"
    return f"{RUNTIME_ANNOTATION} asks for {wanted}, which this node does not have; {remedy}"
