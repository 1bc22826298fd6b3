"""What a pod asks of a host beside CPUs and memory, in sbatch's words.

Used by `job`; pure. GPUs, any other generic resource, licences, local scratch, huge pages and
switches come from the pod's resources and nodeSelector; what it says of the same thing in Slurm's
own words is stronger. Whether a partition has it all is for Slurm to say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .. import wellknown
from ..api.objects import Obj
from ..errors import ConfigError
from . import gres, resources

Options = dict[str, str | None]

_MIB = 1 << 20
_GPU_OPTIONS = ("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
_HUGE_PAGES = "hugepages-"


@dataclass(frozen=True, slots=True)
class Place:
    """What is known of the partition that a pod goes to; nothing, before it was looked at."""

    gres: tuple[gres.Gres, ...] = ()
    licenses: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()
    scratch_mib: int = 0  # of the host with the most; 0 where the site does not tell
    hosts: tuple[str, ...] = ()
    switches: Mapping[str, frozenset[str]] = field(default_factory=dict)  # their hosts


def add(wanted: Options, asked: Options, pod: Obj, place: Place) -> list[str]:
    """Add to `wanted` what the pod's resources say, unless it is `asked` for in Slurm's words.

    Returns what cannot be asked of this site, as warnings.
    """
    amounts = {name: amount for name, amount in resources.amounts(pod).items() if amount > 0}
    selector: Mapping[str, str] = (pod.get("spec") or {}).get("nodeSelector") or {}
    _add_gres(wanted, asked, amounts, selector, place)
    _add_licenses(wanted, amounts, place)
    _add_switches(wanted, selector, place)
    return _add_scratch(wanted, amounts, place)


def huge_page_features(pod: Obj, place: Place) -> tuple[list[str], list[str]]:
    """Features that promise the huge pages which the pod asks for, and what nothing promises."""
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
    """Resource -> MiB that hosts with such features may have of it, at the most."""
    sizes = [one for one in features if one in ("hugepages-2Mi", "hugepages-1Gi")]
    if "hugepages" in features:
        sizes = ["hugepages-2Mi", "hugepages-1Gi"]
    return dict.fromkeys(sizes, memory_mib)


def _add_gres(
    wanted: Options,
    asked: Options,
    amounts: Mapping[str, int],
    selector: Mapping[str, str],
    place: Place,
) -> None:
    """The pod's own join others, and give way to what it asks for in Slurm's words."""
    parts = _list(wanted.get("gres"))
    said = {_name(part) for part in _list(asked.get("gres"))}
    if any(name in asked for name in _GPU_OPTIONS):
        said.add("gpu")
    counts = _counts(amounts, selector, place)
    mine = {one: count for one, count in counts.items() if one.name not in said}
    if not mine:
        return
    names = {one.name for one in mine}
    others = [part for part in parts if _name(part) not in names]
    wanted["gres"] = ",".join([*(one.asked(count) for one, count in mine.items()), *others])
    if "gpu" in names:
        for name in _GPU_OPTIONS:
            wanted.pop(name, None)


def _counts(
    amounts: Mapping[str, int], selector: Mapping[str, str], place: Place
) -> dict[gres.Gres, int]:
    kind = _gpu_type(selector)
    found: dict[gres.Gres, int] = {}
    for resource in sorted(amounts, key=_gpus_first):
        one = gres.wanted(resource, place.gres)
        if one is None:
            continue
        if one.name == "gpu" and not one.kind and kind:
            one = one._replace(kind=kind)
        found[one] = found.get(one, 0) + math.ceil(amounts[resource] / 1000)
    return found


def _gpus_first(resource: str) -> tuple[bool, str]:
    return resource.startswith(wellknown.GRES_PREFIX), resource


def _gpu_type(selector: Mapping[str, str]) -> str:
    """The one type that the nodeSelector names, of the labels that nodes have for their types."""
    prefix = wellknown.GPU_TYPE_LABEL_PREFIX
    kinds = sorted(key.removeprefix(prefix) for key in selector if key.startswith(prefix))
    if len(kinds) > 1:
        message = f"nodeSelector names the GPU types {', '.join(kinds)}: a GPU has one type"
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


def _add_switches(wanted: Options, selector: Mapping[str, str], place: Place) -> None:
    """Hosts of other switches are excluded: --nodelist would ask for all those of this one."""
    prefix = wellknown.SWITCH_LABEL_PREFIX
    names = sorted(key.removeprefix(prefix) for key in selector if key.startswith(prefix))
    if not names:
        return
    hosts: frozenset[str] = frozenset(place.hosts)
    for name in names:
        if name not in place.switches:
            known = ", ".join(sorted(place.switches)) or "none"
            raise ConfigError(f"nodeSelector {prefix}{name}: no such switch; there are: {known}")
        hosts &= place.switches[name]
    others = [host for host in place.hosts if host not in hosts]
    wanted["exclude"] = ",".join([*_list(wanted.get("exclude")), *others])
    if not wanted["exclude"]:
        del wanted["exclude"]


def _name(part: str) -> str:
    return part.removeprefix("gres/").partition(":")[0]


def _list(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]
