"""Generic resources and licences: Slurm's names for them, and Kubernetes' names for the same.

Used by `partitions`, which says what nodes have, and by `placement`, which asks for it; pure. A
resource name that Kubernetes would not take is left out: such a thing can still be asked for in
Slurm's own words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ... import wellknown
from .. import numbers

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
_MIG = "nvidia.com/mig-"
_GPU_MAKERS = {"mi": "amd.com/gpu", "amd": "amd.com/gpu", "gfx": "amd.com/gpu"}
_MIG_PROFILE = re.compile(r"(?:.*[_.-])?(\d+g\.\d+gb(?:[+.]me(?:\.all)?)?)", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_COUNT = re.compile(rf"({numbers.DIGITS})([KMGT]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Gres(NamedTuple):
    """One entry of a node's list, as `gpu:a100:4`."""

    name: str
    kind: str
    number: int

    def asked(self, count: int) -> str:
        return ":".join(filter(None, (self.name, self.kind, str(count))))


def parse(text: str) -> list[Gres]:
    """Parse `gpu:a100:4(S:0-1),nvme:1`; what is not consumed cannot be asked for by count."""
    found = []
    plain = re.sub(r"\([^()]*\)", "", text)
    for part in plain.split(",") if plain not in ("", "N/A", "n/a") else []:
        name, *rest = part.strip().removeprefix("gres/").split(":")
        if not name or "no_consume" in rest:
            continue
        number = _COUNT.fullmatch(rest[-1]) if rest else None
        count = int(number.group(1)) * _UNITS[number.group(2)] if number else 1
        kind = ":".join(rest[:-1] if number else rest)
        found.append(Gres(name, kind, count))
    return found


def resources_of(gres: Iterable[Gres]) -> dict[str, int]:
    """Return the count of each Kubernetes resource; the same thing under each of its names."""
    found = Counter[str]()
    for one in gres:
        for name in names_of(one):
            found[name] += one.number
    return dict(found)


def names_of(gres: Gres) -> list[str]:
    """Return a gres' names: `gpu:a100` is `nvidia.com/gpu`, `nvidia.com/gpu-a100` and
    `slurm.orlop.dev/gres-gpu.a100`.
    """
    plain = f"{wellknown.GRES_PREFIX}{_fit(gres.name)}"
    found = [plain, *([f"{plain}.{_fit(gres.kind)}"] if gres.kind else [])]
    if gres.name == "gpu":
        profile = mig_profile(gres.kind)
        if profile:
            found.insert(0, f"{_MIG}{_fit(profile)}")
        else:
            maker = _maker(gres.kind)
            found = [maker, *([f"{maker}-{_fit(gres.kind)}"] if gres.kind else []), *found]
    return [name for name in found if _NAME.fullmatch(name.partition("/")[2])]


def mig_profile(kind: str) -> str:
    """Return `1g.5gb` of `a100_1g.5gb`, which is a part of a GPU; empty for a whole one."""
    match = _MIG_PROFILE.fullmatch(kind)
    return match.group(1) if match else ""


def wanted(resource: str, known: Iterable[Gres]) -> Gres | None:
    """Return what Slurm calls a resource that a pod asks for; None for what is no generic resource.

    For names that were made to fit Kubernetes, the partition's own list has the original.
    """
    if not is_gres(resource):
        return None
    if resource in GPU_RESOURCES:
        return Gres("gpu", "", 0)
    for one in known:
        names = names_of(one)
        if resource in names:
            is_typed = one.kind and resource != f"{wellknown.GRES_PREFIX}{_fit(one.name)}"
            return Gres(one.name, one.kind if is_typed else "", 0)
    if resource.startswith(_MIG):
        return Gres("gpu", resource.removeprefix(_MIG), 0)
    for maker in GPU_RESOURCES:
        if resource.startswith(maker + "-"):
            return Gres("gpu", resource.removeprefix(maker + "-"), 0)
    name, _, kind = resource.removeprefix(wellknown.GRES_PREFIX).partition(".")
    return Gres(name, kind, 0)


def kinds_of(resource: str, known: Iterable[Gres]) -> tuple[list[str], list[str]]:
    """Return, of the GPUs that are there, the types that are this resource, and those that are
    not.
    """
    found: tuple[list[str], list[str]] = ([], [])
    for one in known:
        if one.name == "gpu":
            found[resource not in names_of(one)].append(one.kind)
    fit, others = (sorted(set(kinds)) for kinds in found)
    return fit, others


def is_gres(resource: str) -> bool:
    typed = tuple(f"{maker}-" for maker in GPU_RESOURCES)
    return resource in GPU_RESOURCES or resource.startswith((wellknown.GRES_PREFIX, _MIG, *typed))


def license_resources(licenses: Mapping[str, int]) -> dict[str, int]:
    named = {f"{wellknown.LICENSE_PREFIX}{_fit(name)}": n for name, n in licenses.items()}
    return {name: n for name, n in named.items() if _NAME.fullmatch(name.partition("/")[2])}


def wanted_license(resource: str, known: Iterable[str]) -> str:
    """Return the licence's name in Slurm; empty for a resource that is none."""
    if not resource.startswith(wellknown.LICENSE_PREFIX):
        return ""
    name = resource.removeprefix(wellknown.LICENSE_PREFIX)
    return next((one for one in known if _fit(one) == name), name)


def parse_licenses(text: str) -> dict[str, int]:
    """Return the total of each licence, from `scontrol -o show licenses`."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        fields = numbers.fields(line)
        total = numbers.whole(fields.get("Total", ""))
        if fields.get("LicenseName") and total is not None:
            found[fields["LicenseName"]] = total
    return found


def _maker(kind: str) -> str:
    low = kind.lower()
    makers = (resource for start, resource in _GPU_MAKERS.items() if low.startswith(start))
    return next(makers, GPU_RESOURCES[0])


def _fit(name: str) -> str:
    """Make a name fit as part of a resource's name: `flex@host` has a character that Kubernetes
    refuses.
    """
    return re.sub(r"[^A-Za-z0-9_.-]", ".", name)
