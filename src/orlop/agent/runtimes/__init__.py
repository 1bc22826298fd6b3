"""How a container is started on this node: what every runtime is given, and what it answers.

`choose` takes the first runtime of the plan that the node has; each of the modules beside this
one composes its command line or bundle from a `Box`. Nothing here starts a process: the
supervisor does, with the `Launch` it gets back.
"""

from __future__ import annotations

import os

from ..lean import value
from ..plan import Container
from ..sandbox import Sandbox
from ..volumes import Bind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Optional, Protocol


@value
class Box:
    """One run of one container: all that does not depend on the runtime."""

    container: Container
    restart: int
    folder: str  # for this run alone, in memory
    root: str  # what becomes /; writable unless the node cannot; empty: the node's own root
    binds: list[Bind]  # parents before what is below them
    env: list[tuple[str, str]]
    sandbox: Sandbox

    @property
    def id(self) -> str:
        return f"{self.container.name}-{self.restart}"


@value
class Launch:
    """How the supervisor starts a container, and how it learns that it runs.

    The child runs `body`. With a `pid_file`, it leaves the number of the container's first
    process there and ends: with 0 when that runs, else with its words in `error_file`.
    """

    body: Callable[[], object]
    pid_file: str
    error_file: str


if TYPE_CHECKING:

    class Runtime(Protocol):
        name: str

        def version(self) -> str:
            """Product and version, for people."""
            ...

        def compose(self, box: Box) -> Launch: ...

        def words(self, launch: Launch, output: str) -> str:
            """Why a container could not be started; `output` is what the launcher printed."""
            ...

        def remove(self, box: Box) -> None:
            """Forget a container that has ended."""
            ...


class NoRuntime(Exception):
    """The node has none of the runtimes the plan names."""


def find(names: Sequence[str]) -> Optional[str]:
    """The path of the first of `names` that is a program on this node."""
    for name in names:
        folders = [""] if "/" in name else (os.environ.get("PATH") or os.defpath).split(":")
        for folder in folders:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    return None


def choose(names: Sequence[str], folder: str) -> Runtime:
    """The runtime for containers with an image; `folder` is where it may keep its state."""
    path = find(names)
    if path is None:
        wanted = ", ".join(names)
        where = os.environ.get("PATH", "")
        raise NoRuntime(
            f"none of {wanted} is on {os.uname().nodename} (PATH={where}); set agent.runtime or "
            "agent.path in config.yaml, load a module in slurm.prologue, or use `image: host`"
        )
    from .crun import Oci

    return Oci(path, folder)
