"""Keeps the members of a gang on one node: one Slurm job carries them, and has one partition.

Asked by the scheduler for each pod and node. Pure. The first member that is placed chooses for the
others. Where the engine queues pods itself, what is free right now is left to the engine, which
starts all members or none: half a gang that is placed does not keep others from starting.
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import wellknown
from ..api.gangs import keys_of
from ..api.objects import Obj, labels_of, meta, uid_of
from .snapshot import Snapshot

ELSEWHERE = "node(s) didn't have the other members of its gang"


@dataclass(frozen=True, slots=True)
class Mates:
    is_gang: bool = False
    node: str = ""  # where the others are; empty: nowhere yet

    def refusal(self, node: Obj) -> str:
        return ELSEWHERE if self.node and meta(node)["name"] != self.node else ""

    def are_queued_on(self, node: Obj) -> bool:
        return self.is_gang and labels_of(node).get(wellknown.ENGINE_LABEL) == "local"


def prepare(pod: Obj, snapshot: Snapshot) -> Mates:
    for key in keys_of(pod):
        others = (name for one, name in snapshot.mates(key) if uid_of(one) != uid_of(pod))
        return Mates(True, next(others, ""))
    return Mates()
