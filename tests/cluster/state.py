"""What a cluster's folder says of it: its spec, the first process of each node, its owner.

Written by the cluster at every change, read by a later command that attaches to it and by the
sweep that removes what killed test runs left. It never touches a process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .process import Process
from .spec import Spec

NAME = "cluster.json"


@dataclass(frozen=True, slots=True)
class State:
    spec: Spec
    dev_root: Path
    nodes: Mapping[str, Process] = field(default_factory=dict)
    owner: Process | None = None
    """The process with which the cluster dies; None for one that outlives its starter."""

    def save(self, root: Path) -> None:
        text = json.dumps(
            {
                "spec": self.spec.to_json(),
                "dev_root": str(self.dev_root),
                "nodes": {name: process.to_json() for name, process in self.nodes.items()},
                "owner": self.owner.to_json() if self.owner else None,
            },
            indent=1,
        )
        new = root / f"{NAME}.new"
        new.write_text(text)
        new.rename(root / NAME)

    @classmethod
    def load(cls, root: Path) -> State:
        try:
            data = json.loads((root / NAME).read_text())
        except FileNotFoundError:
            raise LookupError(f"no cluster in {root}; `up` starts one") from None
        return cls(
            Spec.from_json(data["spec"]),
            Path(data["dev_root"]),
            {name: Process(**process) for name, process in data["nodes"].items()},
            Process(**data["owner"]) if data["owner"] else None,
        )


def is_cluster(root: Path) -> bool:
    return (root / NAME).exists()
