"""Sets the variables by which distributed programs find each other: torch, jax and tensorflow.

Asked by the controllers that make pods with an index, for templates with the annotation
`slurm.orlop.dev/distributed`. Pure. A rank is a pod; who starts several processes in a pod, as
torchrun does, numbers these itself. What a container sets on its own stays.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import overload

from ....api.objects import Obj, annotations_of, meta
from ....api.reading import decode_json
from ....wellknown import DISTRIBUTED, DISTRIBUTED_PLACE, DISTRIBUTED_PORT

PORTS = {"torch": 29500, "jax": 1234, "tensorflow": 2222}
_GPUS = ("nvidia.com/gpu", "amd.com/gpu")
MOST_LISTED = 10_000  # hosts in one variable


class Hosts(Sequence[str]):
    """The hosts of numbered pods, each named when it is asked for: there may be millions."""

    def __init__(self, name: str, numbers: range, suffix: str) -> None:
        self._name, self._numbers, self._suffix = name, numbers, suffix

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Hosts: ...
    def __getitem__(self, at: int | slice) -> str | Hosts:
        found = self._numbers[at]
        if isinstance(found, range):
            return Hosts(self._name, found, self._suffix)
        return f"{self._name}-{found}{self._suffix}"


@dataclass(frozen=True, slots=True)
class Place:
    """The rank of a pod among those of its program."""

    rank: int
    hosts: Sequence[str]  # of all of them, by rank

    def moved(self, index: int) -> Place:
        return Place(self.rank + index, self.hosts)


def distributed_annotations(owner: Obj) -> dict[str, str]:
    """Return the annotation of a workload that asks for these variables, for its pods."""
    names = (DISTRIBUTED, DISTRIBUTED_PORT)
    given = annotations_of(owner)
    return {name: given[name] for name in names if name in given}


def place_annotation(place: Place) -> dict[str, str]:
    """Return a place as an annotation, for pods that another controller makes and numbers."""
    return {DISTRIBUTED_PLACE: json.dumps({"rank": place.rank, "hosts": list(place.hosts)})}


def place_in(template: Obj, index: int, hosts: Sequence[str]) -> Place:
    """Return the place of the pod with this index: as annotated, else among its workload's own."""
    note = annotations_of(template).get(DISTRIBUTED_PLACE)
    if not note:
        return Place(index, hosts)
    found = decode_json(note)
    return Place(int(found["rank"]), found["hosts"]).moved(index)


def is_wanted(template: Obj) -> bool:
    return annotations_of(template).get(DISTRIBUTED, "").lower() in PORTS


def with_variables(pod: Obj, place: Place) -> Obj:
    """Set the variables on the pod in place, where its annotation asks for them; return it."""
    if not is_wanted(pod):
        return pod
    framework = annotations_of(pod)[DISTRIBUTED].lower()
    port = annotations_of(pod).get(DISTRIBUTED_PORT, str(PORTS[framework]))
    for container in pod["spec"]["containers"]:
        given = {one["name"] for one in container.get("env") or []}
        found = variables(framework, place, port, _gpus(container))
        added = [{"name": n, "value": v} for n, v in found.items() if n not in given]
        container["env"] = [*(container.get("env") or []), *added]
    (meta(pod).get("annotations") or {}).pop(DISTRIBUTED_PLACE, None)  # it may be long
    return pod


def _gpus(container: Obj) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return max((int(limits[name]) for name in _GPUS if name in limits), default=0)


def variables(framework: str, place: Place, port: str, gpus: int = 0) -> dict[str, str]:
    first, size, rank = place.hosts[0], str(len(place.hosts)), str(place.rank)
    if framework == "jax":
        return {
            "JAX_COORDINATOR_ADDRESS": f"{first}:{port}",
            "JAX_COORDINATOR_PORT": port,
            "JAX_NUM_PROCESSES": size,
            "JAX_PROCESS_ID": rank,
        }
    if framework == "tensorflow":
        # As many are more than a variable holds, which is then said on the pod.
        workers = [f"{host}:{port}" for host in islice(place.hosts, MOST_LISTED)]
        task = {"type": "worker", "index": place.rank}
        return {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": task})}
    return {
        "MASTER_ADDR": first,
        "MASTER_PORT": port,
        "WORLD_SIZE": size,
        "RANK": rank,
        "LOCAL_RANK": "0",
        "PET_NNODES": size,
        "PET_NODE_RANK": rank,
        "PET_MASTER_ADDR": first,
        "PET_MASTER_PORT": port,
        **({"PET_NPROC_PER_NODE": str(gpus)} if gpus else {}),
    }
