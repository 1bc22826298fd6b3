"""Surveys a site before `up` starts: engine, partitions, runtimes, home.

Called by `up`, which prints it. An engine that does not answer is told as such, since the control
plane can wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...engine import Machine
from ...errors import EngineError
from ...runtime.detect import Runtime, runtimes
from ...settings import Paths, Settings
from ..control_plane.engines import engine_for
from . import filesystem


@dataclass(frozen=True, slots=True)
class Survey:
    engine: str  # product and version, or why it does not answer
    machines: Sequence[Machine]
    runtimes: Sequence[Runtime]
    home: str

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield what is said of it, a subject and a sentence for each line."""
        yield "engine", self.engine
        for machine in self.machines:
            yield "", described(machine)
        found = ", ".join(map(str, self.runtimes))
        yield (
            "runtimes",
            found or "none on this host; where nodes have none either, Orlop does without",
        )
        yield "home", self.home


def described(machine: Machine) -> str:
    """Describe it as `main* (4 hosts, 32 CPUs, 31 GiB)`, like sinfo, which marks the default."""
    hosts = f"{len(machine.hosts)} hosts, " if len(machine.hosts) != 1 else "1 host, "
    memory = filesystem.in_words(machine.memory_mib << 20)
    gpus = "".join(f", {count} {name}" for name, count in machine.resources.items())
    size = f"({hosts}{machine.cpus} CPUs, {memory}{gpus})"
    trouble = f": {machine.message}" if machine.message else ""
    return f"{machine.name}{'*' if machine.is_default else ''} {size}{trouble}"


async def survey(engine: str, paths: Paths, settings: Settings) -> Survey:
    source = engine_for(engine, settings, paths)
    try:
        version, machines = await source.version(), await source.machines()
    except EngineError as error:
        version, machines = f"{engine} does not answer yet: {error}", []
    home = f"{paths.home} ({filesystem.of(paths.home)})"
    return Survey(version, machines, runtimes(settings.agent), home)
