"""Tells whether a partition can ever hold a gang, from what its members ask for and what there is.

Used by `gang_submission`; pure. Of an incomplete gang it judges what is certain, of a complete one
the bundles that Slurm would be asked for. What is free at the moment, and which hosts suit, is for
Slurm to say.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...engine import Machine
from ...errors import SubmitRejected
from ..query.partitions import MAX_CPUS_LABEL, MAX_MEMORY_LABEL
from .packing import NOTHING, Hosts, Packing, Shape, pack


def check_alone(shape: Shape, who: str, machine: Machine) -> None:
    """Check one member, before the others have said what they ask for."""
    _check(shape, machine, f"{who} asks for {_amounts(shape)}")


def packed(shapes: Sequence[Shape], machine: Machine | None) -> Packing:
    """Return the bundles of a complete gang; raise SubmitRejected where all of the partition is too
    small.
    """
    if machine is None:
        return pack(shapes)
    packing, asked = pack(shapes, _hosts(machine)), sum(shapes, NOTHING)
    words = f"the {len(shapes)} members ask for {_amounts(asked)}"
    if packing.total != asked:
        words += f", in {packing.count} equal bundles for {_amounts(packing.total)}"
    _check(packing.total, machine, words)
    return packing


def _hosts(machine: Machine) -> Hosts:
    cpus, memory = (machine.labels.get(name, "") for name in (MAX_CPUS_LABEL, MAX_MEMORY_LABEL))
    largest = Shape(int(cpus or machine.cpus), int(memory or 0))
    return Hosts(max(len(machine.hosts), 1), largest)


def _check(asked: Shape, machine: Machine, words: str) -> None:
    for what, much, all_of in (
        ("CPUs", asked.cpus, machine.cpus),
        ("MiB of memory", asked.memory_mib, machine.memory_mib),
    ):
        if all_of and much > all_of:
            has = f"all of partition {machine.name} has {all_of} {what}"
            raise SubmitRejected(f"{words}, and {has}; ask for less, or another partition")


def _amounts(shape: Shape) -> str:
    words = f"{shape.cpus} CPUs" if shape.cpus != 1 else "1 CPU"
    return f"{words} and {shape.memory_mib} MiB of memory" if shape.memory_mib else words
