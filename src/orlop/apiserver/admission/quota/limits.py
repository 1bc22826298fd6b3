"""One item of a LimitRange held against what is asked for: minimum, maximum, ratio.

Used by the limit ranger. Pure. As plugin/pkg/admission/limitranger: minConstraint, maxConstraint,
maxRequestConstraint and limitRequestRatioConstraint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ....api.objects import Obj
from ....api.pod_resources import Amounts, parsed
from ....api.quantity import NANO, Quantity

_Maybe = Quantity | None


def problems(item: Obj, requests: Amounts, limits: Amounts) -> Iterator[str]:
    """Yield what is wrong with the requests and limits of one container, or of a whole pod."""
    kind = item["type"]
    for name, bound in _bounds(item, "min"):
        yield from _below(f"minimum {name} usage per {kind} is {bound}", bound,
                          requests.get(name), limits.get(name))  # fmt: skip
    for name, bound in _bounds(item, "max"):
        yield from _above(f"maximum {name} usage per {kind} is {bound}", bound,
                          requests.get(name), limits.get(name))  # fmt: skip
    for name, bound in _bounds(item, "maxLimitRequestRatio"):
        said = f"{name} max limit to request ratio per {kind} is {bound}"
        yield from _ratio(said, bound, requests.get(name), limits.get(name))


def claim_problems(claim: Obj, items: Iterable[Obj]) -> Iterator[str]:
    """Yield what is wrong with the size of a volume claim, which has requests and no limits."""
    spec = claim.get("spec") or {}
    requests = parsed((spec.get("resources") or {}).get("requests"))
    for item in items:
        if item.get("type") != "PersistentVolumeClaim":
            continue
        for name, bound in _bounds(item, "min"):
            said = f"minimum {name} usage per PersistentVolumeClaim is {bound}"
            yield from _below(said, bound, requests.get(name), None)
        for name, bound in _bounds(item, "max"):
            said = f"maximum {name} usage per PersistentVolumeClaim is {bound}"
            asked = requests.get(name)
            if asked is None:
                yield f"{said}.  No request is specified"
            elif asked > bound:
                yield f"{said}, but request is {asked}"


def _bounds(item: Obj, field: str) -> list[tuple[str, Quantity]]:
    return sorted(parsed(item.get(field)).items())


def _below(said: str, bound: Quantity, request: _Maybe, limit: _Maybe) -> Iterator[str]:
    if request is None:
        yield f"{said}.  No request is specified"
    elif request < bound:
        yield f"{said}, but request is {request}"
    elif limit is not None and limit < bound:
        yield f"{said}, but limit is {limit}"


def _above(said: str, bound: Quantity, request: _Maybe, limit: _Maybe) -> Iterator[str]:
    if limit is None:
        yield f"{said}.  No limit is specified"
    elif limit > bound:
        yield f"{said}, but limit is {limit}"
    elif request is not None and request > bound:
        yield f"{said}, but request is {request}"


def _ratio(said: str, bound: Quantity, request: _Maybe, limit: _Maybe) -> Iterator[str]:
    if request is None or request.nanos == 0:
        yield f"{said}, but no request is specified or request is 0"
    elif limit is None or limit.nanos == 0:
        yield f"{said}, but no limit is specified or limit is 0"
    elif _exceeds(limit, request, bound):
        yield f"{said}, but provided ratio is {limit.nanos / request.nanos:f}"


def _exceeds(limit: Quantity, request: Quantity, bound: Quantity) -> bool:
    """Return whether limit / request > bound, exactly: without a division."""
    return limit.nanos * NANO > bound.nanos * request.nanos
