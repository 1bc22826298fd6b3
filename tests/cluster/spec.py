"""What a test cluster shall be: nodes, partitions, options, as values.

Made by tests and by the command line, read by everything else here and kept in the cluster's
folder so that a later process finds the same cluster. It never starts or reads anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tools.devroot import TEST_USER

HEAD = "head"
NETWORK = "10.77.0"
HEAD_ADDRESS = f"{NETWORK}.254"


# For tests of failing nodes: NODE_FAIL some fifteen seconds after a power cut. A busy machine may
# lose a healthy node that way, so other tests keep the patience of the default.
# Under five seconds the slurmctld of Slurm 24.11 takes nodes that answer for dead ones, too.
QUICK_TO_FAIL = {"SlurmdTimeout": "5", "MessageTimeout": "3", "TCPTimeout": "1"}


@dataclass(frozen=True, slots=True)
class Partition:
    name: str
    nodes: str = "ALL"
    settings: Mapping[str, str] = field(default_factory=dict)


DEFAULT_PARTITIONS = (
    Partition("main", settings={"Default": "YES", "MaxTime": "INFINITE"}),
    Partition("short", settings={"MaxTime": "5", "DefaultTime": "1", "PriorityTier": "2"}),
    Partition("single", nodes="n1", settings={"MaxTime": "INFINITE"}),
)


@dataclass(frozen=True, slots=True)
class Spec:
    """The defaults are what most tests want: up in about a second, quick to start and to fail."""

    nodes: int = 4
    cpus: int = 8
    memory: int = 8000
    user: str = TEST_USER
    accounting: bool = False
    rest: bool = False
    cgroups: bool = False
    gpus: int = 0
    """Fake GPUs on each of the first two nodes."""
    gres: Mapping[str, int] = field(default_factory=dict)
    """Other generic resources that every node has: names and counts."""
    gres_lines: tuple[str, ...] = ()
    """Lines of gres.conf, for nodes that `equipment` gives what they say."""
    equipment: Mapping[str, str] = field(default_factory=dict)
    """Words of single nodes' own lines in slurm.conf: Gres, Sockets, …"""
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Device files below /dev that single nodes have, with no driver behind them."""
    scratch: int = 0
    """MiB of local disk that every node says it has."""
    switches: Mapping[str, str] = field(default_factory=dict)
    """Leaf switches and their nodes; with any, Slurm has a topology."""
    runtimes: tuple[str, ...] = ("crun", "apptainer")
    """Container runtimes the cluster has; every other one of the machine is hidden on the nodes."""
    partitions: tuple[Partition, ...] = DEFAULT_PARTITIONS
    features: Mapping[str, str] = field(
        default_factory=lambda: {"n1": "intel,ib", "n2": "intel", "n3": "amd,ib", "n4": "amd"}
    )
    settings: Mapping[str, str] = field(default_factory=dict)
    """Lines of slurm.conf that replace ours or are added to them."""

    @property
    def node_names(self) -> list[str]:
        return [f"n{number}" for number in range(1, self.nodes + 1)]

    @property
    def addresses(self) -> dict[str, str]:
        nodes = {name: f"{NETWORK}.{number}" for number, name in enumerate(self.node_names, 1)}
        return {HEAD: HEAD_ADDRESS, **nodes}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Spec:
        values = {name: data[name] for name in (f.name for f in fields(cls)) if name in data}
        values["runtimes"] = tuple(values["runtimes"])
        values["gres_lines"] = tuple(values.get("gres_lines", ()))
        devices = values.get("devices", {})
        values["devices"] = {name: tuple(files) for name, files in devices.items()}
        values["partitions"] = tuple(Partition(**partition) for partition in values["partitions"])
        return cls(**values)
