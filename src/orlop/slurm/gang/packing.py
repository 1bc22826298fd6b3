"""Packs members of unlike shapes into one plain job: bundles of resources that are all alike.

Used by `gang_spec`; pure. Slurm gives a job's tasks equal shares, so each task of a gang's job is
one bundle, and each member belongs to one: a bundle is always on one host, and the members in it
fit beside each other. Which hosts those are is for Slurm to say. A member is not split.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...errors import ConfigError
from ..numbers import DIGITS, whole

_MEMORY = re.compile(rf"({DIGITS})([KMGT]?)B?", re.IGNORECASE)
_UNITS = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}
_COUNTED = re.compile(rf"(?:gres/)?(?P<name>[A-Za-z_][\w.:-]*?)(?::(?P<count>{DIGITS}))?")
MOST_TRIED = 32  # numbers of bundles, where none of the usual sizes can be had
_GPUS = ("gpus", "gpus-per-node", "gpus-per-task")
# One step on one host each: what only says so is allowed and means nothing more.
_ONES = ("ntasks", "nodes", "ntasks-per-node")
_NOT_HERE = (
    "cpus-per-gpu", "mem-per-gpu", "gpus-per-socket", "ntasks-per-core", "ntasks-per-gpu",
    "ntasks-per-socket", "sockets-per-node", "cores-per-socket", "threads-per-core",
    "extra-node-info", "mincpus", "tres-per-task",
)  # fmt: skip
SHAPE_OPTIONS = frozenset(
    {"cpus-per-task", "mem", "mem-per-cpu", "gres", *_GPUS, *_ONES, *_NOT_HERE}
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The resources that one member, or one bundle, is given.

    Zero memory: what Slurm gives by default. Zero CPUs: it shares those of others in its bundle.
    """

    cpus: int = 1
    memory_mib: int = 0
    gres: Mapping[str, int] = field(default_factory=dict)  # name, with its type if it has one

    def __add__(self, other: Shape) -> Shape:
        gres = dict(Counter(self.gres) + Counter(other.gres)) if other.gres else self.gres
        return Shape(self.cpus + other.cpus, self.memory_mib + other.memory_mib, gres)

    def __or__(self, other: Shape) -> Shape:
        """Return the least shape that both fit into."""
        gres = dict(Counter(self.gres) | Counter(other.gres))
        cpus, memory = max(self.cpus, other.cpus), max(self.memory_mib, other.memory_mib)
        return Shape(cpus, memory, gres)

    def fits(self, room: Shape) -> bool:
        is_small = self.cpus <= room.cpus and self.memory_mib <= room.memory_mib
        return is_small and all(room.gres.get(name, 0) >= n for name, n in self.gres.items())

    def with_least(self, cpus: int) -> Shape:
        return self if self.cpus >= cpus else Shape(cpus, self.memory_mib, self.gres)

    @property
    def gres_words(self) -> str:
        """Return the generic resources as --gres takes them."""
        return ",".join(f"{name}:{count}" for name, count in sorted(self.gres.items()))


NOTHING = Shape(0)


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts that there are, as far as Slurm tells."""

    count: int
    largest: Shape  # zero memory: not known

    def hold(self, bundle: Shape, count: int) -> bool:
        """Return whether so many bundles can exist, if all hosts were like the largest and idle."""
        each = self.largest.cpus // max(bundle.cpus, 1)
        if bundle.memory_mib and self.largest.memory_mib:
            each = min(each, self.largest.memory_mib // bundle.memory_mib)
        return count <= each * self.count


@dataclass(frozen=True, slots=True)
class Packing:
    bundle: Shape  # what each of them has
    count: int
    places: tuple[int, ...]  # for each member, its bundle

    @property
    def total(self) -> Shape:
        """Return all that Slurm is asked for."""
        gres = {name: n * self.count for name, n in self.bundle.gres.items()}
        return Shape(self.bundle.cpus * self.count, self.bundle.memory_mib * self.count, gres)


def shape_of(options: Mapping[str, str | None], who: str) -> Shape:
    """Return the shape of one member, from the options of the job that it would be alone;
    ConfigError where they cannot be read.
    """
    for name in _NOT_HERE:
        if name in options:
            raise ConfigError(f"--{name} of pod {who}: a member of a gang is one task; leave it")
    for name in _ONES:
        if (options.get(name) or "1") not in ("1", "1-1"):
            message = f"--{name}={options[name]} of pod {who}: a member of a gang is one task"
            raise ConfigError(f"{message} on one host; give the gang more members instead")
    asked = options.get("cpus-per-task")
    cpus = int(_number(asked or "1", "cpus-per-task", who))
    memory = math.ceil(_memory(options.get("mem"), "mem", who))
    memory += math.ceil(_memory(options.get("mem-per-cpu"), "mem-per-cpu", who) * cpus)
    gres = Counter(_gres(options.get("gres") or "", who))
    for name in _GPUS:
        gres.update(_gres(",".join(_gpus(options.get(name) or "")), who))
    return Shape(max(cpus, 1) if asked or gres else 0, memory, dict(gres))


def least_cpus(shapes: Iterable[Shape]) -> int:
    """Return what a member that asks for no CPU is given: none of its own, if for each of them
    there is one whose CPUs it can share; else one.
    """
    kinds = Counter(shape.cpus > 0 for shape in shapes)
    return 0 if kinds[False] <= kinds[True] else 1


def pack(shapes: Sequence[Shape], hosts: Hosts | None = None) -> Packing:
    """Pack the shapes with the least waste; of equal ways take the one with the smallest bundles.

    Bundles that `hosts` do not have are taken only where no others will do: for Slurm to refuse.
    """
    largest, total = _all_of(shapes), sum(shapes, NOTHING)
    unlike = list({(s.cpus, s.memory_mib, s.gres_words): s for s in shapes}.values())
    if len(unlike) == 1:
        return Packing(largest, len(shapes), tuple(range(len(shapes))))
    packings = [_packed(shapes, room) for room in (largest, *(largest + shape for shape in unlike))]
    if hosts is not None:
        possible = [one for one in packings if hosts.hold(one.bundle, one.count)]
        if not possible:  # closer together, though Slurm finds room for that less easily
            counts = range(min(len(shapes), MOST_TRIED), 0, -1)
            closer = (_packed(shapes, largest | _part(total, count)) for count in counts)
            possible = [one for one in closer if hosts.hold(one.bundle, one.count)]
        packings = possible or packings
    return min(packings, key=lambda one: (_cost(one, total), one.bundle.cpus, one.count))


def _part(whole: Shape, count: int) -> Shape:
    gres = {name: math.ceil(n / count) for name, n in whole.gres.items()}
    return Shape(math.ceil(whole.cpus / count), math.ceil(whole.memory_mib / count), gres)


def place_in(room: Shape, taken: Mapping[int, Sequence[Shape]], shape: Shape) -> int | None:
    """Return the first bundle in which `shape` fits beside those that are there; None: in none."""
    for number, others in sorted(taken.items()):
        if sum(others, shape).fits(room):
            return number
    return None


def _packed(shapes: Sequence[Shape], room: Shape) -> Packing:
    """Pack first fit, the largest first, as bins are filled."""
    order = sorted(range(len(shapes)), key=lambda i: (-shapes[i].cpus, -shapes[i].memory_mib, i))
    bins: list[Shape] = []
    sharing: Counter[int] = Counter()  # by bundle, those without CPUs of their own: not all in one
    chosen = [0] * len(shapes)
    for index in order:
        shares = not shapes[index].cpus
        numbers = sorted(range(len(bins)), key=sharing.__getitem__) if shares else range(len(bins))
        for number in numbers:
            if (bins[number] + shapes[index]).fits(room):
                bins[number] += shapes[index]
                break
        else:
            number = len(bins)
            bins.append(shapes[index])
        chosen[index] = number
        sharing[number] += shares
    return Packing(_all_of(bins), len(bins), tuple(chosen))


def _cost(packing: Packing, total: Shape) -> tuple[float, float]:
    """Return how much more is asked for than is needed; GPUs and their like, which are few, come
    first.
    """
    bundle, count = packing.bundle, packing.count
    rare = sum(count * bundle.gres[name] / n for name, n in total.gres.items())
    cost = count * bundle.cpus / max(total.cpus, 1)
    if total.memory_mib:
        cost += count * bundle.memory_mib / total.memory_mib
    return round(rare, 6), round(cost, 6)


def _all_of(shapes: Iterable[Shape]) -> Shape:
    result = NOTHING
    for shape in shapes:
        result |= shape
    return result


def _number(text: str, name: str, who: str) -> int:
    number = whole(text)
    if number is None:
        raise ConfigError(f"--{name} of pod {who}: expected a number, found {text!r}")
    return number


def _memory(text: str | None, name: str, who: str) -> float:
    """Return memory in MiB; a bare number is megabytes to Slurm."""
    if not text:
        return 0
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ConfigError(f"--{name} of pod {who}: expected a size as 512M, found {text!r}")
    return int(match.group(1)) * _UNITS[match.group(2).upper()]


def _gres(text: str, who: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for part in filter(None, text.split(",")):
        if part == "none":
            continue
        match = _COUNTED.fullmatch(part)
        if match is None:
            raise ConfigError(f"--gres of pod {who}: expected name:count, found {part!r}")
        found[match["name"]] += int(match["count"] or 1)
    return dict(found)


def _gpus(text: str) -> list[str]:
    """Return --gpus, `2` or `a100:2`, as gres."""
    return [f"gpu:{part}" for part in text.split(",") if part]
