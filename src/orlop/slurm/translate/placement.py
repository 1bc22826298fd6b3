"""Translates what a pod asks of a host beside CPUs and memory into sbatch's words.

Used by `job`; pure. GPUs, any other generic resource, licences, local scratch, huge pages and
switches come from the pod's resources and selected labels; what it says of the same thing in
Slurm's own words is stronger. Whether a partition has it all is for Slurm to say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ... import wellknown
from ...api.objects import Obj
from ...errors import ConfigError
from . import gres, host_selection, resources
from .host_selection import Selection

Options = dict[str, str | None]

_MIB = 1 << 20
GPU_OPTIONS = ("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
_HUGE_PAGES = "hugepages-"


@dataclass(frozen=True, slots=True)
class Place:
    """The facts known of the partition that a pod goes to; empty before it was looked at."""

    gres: tuple[gres.Gres, ...] = ()
    licenses: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()
    scratch_mib: int = 0  # of the host with the most; 0 where the site does not tell
    hosts: tuple[str, ...] = ()
    labelled: host_selection.Labelled = field(default_factory=dict)


def add(
    wanted: Options, asked: Options, pod: Obj, place: Place, *, is_of_tasks: bool = False
) -> list[str]:
    """Add to `wanted` what the pod's resources say, unless it is `asked` for in Slurm's words.

    Resources are those of each node, or, for GPUs, of each task. Return what cannot be asked of
    this site, as warnings.
    """
    amounts = {name: amount for name, amount in resources.amounts(pod).items() if amount > 0}
    selected = host_selection.of_pod(pod)
    counts = _counts(amounts, selected, place)
    _add_gres(wanted, asked, counts, is_of_tasks)
    _add_licenses(wanted, amounts, place)
    _exclude(
        wanted, host_selection.excluded(_unsaid(selected, counts), place.hosts, place.labelled)
    )
    _exclude(wanted, _of_other_makers(amounts, counts, place))
    return _add_scratch(wanted, amounts, place)


def huge_page_features(pod: Obj, place: Place) -> tuple[list[str], list[str]]:
    """Return features that promise the huge pages which the pod asks for, and what nothing
    promises.
    """
    sizes = [
        name for name, n in resources.amounts(pod).items() if n and name.startswith(_HUGE_PAGES)
    ]
    features, warnings = [], []
    for size in sizes:
        found = next((one for one in (size, "hugepages") if one in place.features), "")
        if found:
            features.append(found)
        else:
            words = f"{size}: no node of the partition has a feature {size} or hugepages"
            warnings.append(f"{words}, and Slurm cannot be asked for huge pages otherwise")
    return list(dict.fromkeys(features)), warnings


def huge_pages_of(features: Iterable[str], memory_mib: int) -> dict[str, int]:
    """Return how many MiB of each resource hosts with such features may have at the most."""
    sizes = [one for one in features if one in ("hugepages-2Mi", "hugepages-1Gi")]
    if "hugepages" in features:
        sizes = ["hugepages-2Mi", "hugepages-1Gi"]
    return dict.fromkeys(sizes, memory_mib)


def _add_gres(
    wanted: Options, asked: Options, counts: Mapping[gres.Gres, int], is_of_tasks: bool
) -> None:
    """Add the pod's own gres to others; its own give way to what it asks for in Slurm's words."""
    parts = _list(wanted.get("gres"))
    said = gres_names(asked.get("gres"))
    if any(name in asked for name in GPU_OPTIONS):
        said.add("gpu")
    mine = {one: count for one, count in counts.items() if one.name not in said}
    if not mine:
        return
    names = {one.name for one in mine}
    if "gpu" in names:
        for name in GPU_OPTIONS:
            wanted.pop(name, None)
    found = [part for part in parts if _name(part) not in names]
    if is_of_tasks and "gpu" in names:
        gpus = {one: mine.pop(one) for one in list(mine) if one.name == "gpu"}
        wanted["gpus-per-task"] = ",".join(
            one.asked(count).removeprefix("gpu:") for one, count in gpus.items()
        )
    if mine or found:
        wanted["gres"] = ",".join([*(one.asked(count) for one, count in mine.items()), *found])
    else:
        wanted.pop("gres", None)


def _counts(amounts: Mapping[str, int], selected: Selection, place: Place) -> dict[gres.Gres, int]:
    kind = _gpu_type(selected)
    found: dict[gres.Gres, int] = {}
    for resource in sorted(amounts, key=_gpus_first):
        one = gres.wanted(resource, place.gres)
        if one is None:
            continue
        if one.name == "gpu" and not one.kind:
            one = one._replace(kind=kind or _only_kind(resource, place))
        found[one] = found.get(one, 0) + math.ceil(amounts[resource] / 1000)
    return found


def _unsaid(selected: Selection, counts: Mapping[gres.Gres, int]) -> Selection:
    """Return the selection without features, which --constraint asks for, and the type of GPUs that
    --gres asks for.
    """
    is_typed = any(one.name == "gpu" and one.kind for one in counts)
    kinds = [wellknown.GPU_TYPE_LABEL_PREFIX] if is_typed else []
    return selected.without(wellknown.FEATURE_LABEL_PREFIX, *kinds)


def _only_kind(resource: str, place: Place) -> str:
    """Return the one type of a maker's GPUs, where GPUs of others are there that Slurm would take
    too.
    """
    kinds, others = gres.kinds_of(resource, place.gres)
    return kinds[0] if others and len(kinds) == 1 else ""


def _of_other_makers(
    amounts: Mapping[str, int], counts: Mapping[gres.Gres, int], place: Place
) -> list[str]:
    """Return hosts whose GPUs are all of another maker, or parts of one: Slurm takes no list of
    several types.
    """
    found: set[str] = set()
    for resource in gres.GPU_RESOURCES:
        kinds, others = gres.kinds_of(resource, place.gres)
        if resource not in amounts or gres.Gres("gpu", "", 0) not in counts or "" in kinds:
            continue
        if kinds and others:
            labels = [wellknown.GPU_TYPE_LABEL_PREFIX + kind for kind in kinds]
            fit = frozenset().union(*(place.labelled.get(label, frozenset()) for label in labels))
            found |= set(place.hosts) - fit
    return [host for host in place.hosts if host in found]


def _gpus_first(resource: str) -> tuple[bool, str]:
    return resource.startswith(wellknown.GRES_PREFIX), resource


def _gpu_type(selected: Selection) -> str:
    """Return the one type that is selected, of the labels that nodes have for their types."""
    kinds = selected.named(wellknown.GPU_TYPE_LABEL_PREFIX)
    if len(kinds) > 1:
        message = f"selected are the GPU types {', '.join(kinds)}: a GPU has one type"
        raise ConfigError(f"{message}; ask for them as nvidia.com/gpu-<type>")
    return kinds[0] if kinds else ""


def _add_licenses(wanted: Options, amounts: Mapping[str, int], place: Place) -> None:
    said = _list(wanted.get("licenses"))
    names = {part.partition(":")[0] for part in said}
    for resource in sorted(amounts):
        name = gres.wanted_license(resource, place.licenses)
        if name and name not in names:
            said.append(f"{name}:{math.ceil(amounts[resource] / 1000)}")
    if said:
        wanted["licenses"] = ",".join(said)


def _add_scratch(wanted: Options, amounts: Mapping[str, int], place: Place) -> list[str]:
    amount = amounts.get("ephemeral-storage")
    if not amount or "tmp" in wanted:
        return []
    if not place.scratch_mib:
        return ["ephemeral-storage: this Slurm does not tell what its nodes have (TmpDisk)"]
    wanted["tmp"] = f"{math.ceil(amount / 1000 / _MIB)}M"
    return []


def _exclude(wanted: Options, hosts: list[str]) -> None:
    if hosts:
        wanted["exclude"] = ",".join(dict.fromkeys([*_list(wanted.get("exclude")), *hosts]))


def gres_names(text: str | None) -> set[str]:
    """Return the names `gpu` and `nvme` of `gpu:a100:2,nvme:1`."""
    return {_name(part) for part in _list(text)}


def _name(part: str) -> str:
    return part.removeprefix("gres/").partition(":")[0]


def _list(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]
