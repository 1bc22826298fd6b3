"""Limits what the metrics ask for: bounds, rates and stabilisation of an autoscaler.

Called by the autoscaler once its metrics are evaluated. Pure but for `History`, the memory of
recent recommendations and changes, which like upstream's is not kept over a restart. As
pkg/controller/podautoscaler/horizontal.go: normalizeDesiredReplicas and its helpers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...api.objects import Obj

_WITHIN = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
)
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_FAST_UP = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
)
_TOO_FAST_DOWN = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)
_READY = ("ReadyForNewScale", "recommended size matches current size")
_DOWN_STABILIZED = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent "
    "recommendation",
)
_UP_STABILIZED = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)

Words = tuple[str, str]  # reason and message of a condition


class Moment(NamedTuple):
    """A recommendation, or a change in the number of replicas."""

    time: float
    replicas: int


@dataclass(slots=True)
class History:
    """The memory of one autoscaler."""

    recommendations: list[Moment] = field(default_factory=list)
    added: list[Moment] = field(default_factory=list)
    removed: list[Moment] = field(default_factory=list)

    def recommend(self, replicas: int, now: float, window: float) -> None:
        kept = [one for one in self.recommendations if one.time > now - window]
        self.recommendations = [*kept, Moment(now, replicas)]

    def scaled(self, current: int, desired: int, behavior: Obj | None, now: float) -> None:
        """Remember a change for as long as a policy may ask for it."""
        if behavior is None or desired == current:
            return
        is_up = desired > current
        events = self.added if is_up else self.removed
        oldest = now - _longest_period(behavior.get("scaleUp" if is_up else "scaleDown"))
        events[:] = [one for one in events if one.time > oldest]
        events.append(Moment(now, abs(desired - current)))


class Bounds(NamedTuple):
    minimum: int
    maximum: int


class Decision(NamedTuple):
    """Replicas, and the words of the conditions AbleToScale and ScalingLimited."""

    replicas: int
    able: Words
    limited: Words
    is_limited: bool


def decide(
    history: History,
    current: int,
    desired: int,
    bounds: Bounds,
    behavior: Obj | None,
    *,
    now: float,
    down_window: float,
) -> Decision:
    if behavior is None:
        stable = _stabilized(history, desired, now, down_window)
        able = _READY if stable == desired else _DOWN_STABILIZED
        replicas, limited = _within(current, stable, bounds)
    else:
        up, down = behavior.get("scaleUp") or {}, behavior.get("scaleDown") or {}
        windows = (_window(up, 0.0), _window(down, down_window))
        stable = _stabilized_both_ways(history, current, desired, now, *windows)
        words = _UP_STABILIZED if desired >= current else _DOWN_STABILIZED
        able = _READY if stable == desired else words
        replicas, limited = _within_rates(history, current, stable, bounds, (up, down), now)
    return Decision(replicas, able, limited, replicas != stable)


def _window(rules: Obj, otherwise: float) -> float:
    window = rules.get("stabilizationWindowSeconds")
    return otherwise if window is None else float(window)


def _stabilized(history: History, desired: int, now: float, window: float) -> int:
    recent = [one.replicas for one in history.recommendations if one.time > now - window]
    history.recommend(desired, now, window)
    return max([desired, *recent])


def _within(current: int, desired: int, bounds: Bounds) -> tuple[int, Words]:
    """Limit a step without a behavior: to at most twice as many at a time, or four."""
    limit = max(2 * current, 4)
    highest, why = (limit, _TOO_FAST_UP) if bounds.maximum > limit else (bounds.maximum, _TOO_MANY)
    if desired < bounds.minimum:
        return bounds.minimum, _TOO_FEW
    return (highest, why) if desired > highest else (desired, _WITHIN)


def _stabilized_both_ways(
    history: History, current: int, desired: int, now: float, up_window: float, down_window: float
) -> int:
    up = down = desired
    for one in history.recommendations:
        if one.time > now - up_window:
            up = min(up, one.replicas)
        if one.time > now - down_window:
            down = max(down, one.replicas)
    history.recommend(desired, now, max(up_window, down_window))
    return min(max(current, up), down)


def _within_rates(
    history: History,
    current: int,
    desired: int,
    bounds: Bounds,
    rules: tuple[Obj, Obj],
    now: float,
) -> tuple[int, Words]:
    if desired > current:
        limit = max(current, _up_limit(history, current, rules[0], now))
        is_rate = bounds.maximum > limit
        highest, why = (limit, _TOO_FAST_UP) if is_rate else (bounds.maximum, _TOO_MANY)
        if desired > highest:
            return highest, why
    elif desired < current:
        limit = min(current, _down_limit(history, current, rules[1], now))
        is_rate = bounds.minimum < limit
        lowest, why = (limit, _TOO_FAST_DOWN) if is_rate else (bounds.minimum, _TOO_FEW)
        if desired < lowest:
            return lowest, why
    return desired, _WITHIN


def _up_limit(history: History, current: int, rules: Obj, now: float) -> int:
    def proposed(start: int, policy: Obj) -> int:
        if policy["type"] == "Pods":
            return start + int(policy["value"])
        return math.ceil(start * (100 + int(policy["value"])) / 100)

    return _limit(history, current, rules, now, proposed, most=max, least=min)


def _down_limit(history: History, current: int, rules: Obj, now: float) -> int:
    def proposed(start: int, policy: Obj) -> int:
        if policy["type"] == "Pods":
            return start - int(policy["value"])
        return int(start * (100 - int(policy["value"])) / 100)

    return _limit(history, current, rules, now, proposed, most=min, least=max)


def _limit(
    history: History,
    current: int,
    rules: Obj,
    now: float,
    proposed: Callable[[int, Obj], int],
    *,
    most: Callable[[list[int]], int],
    least: Callable[[list[int]], int],
) -> int:
    """Return how far the policies let the size go, from where each one's period began."""
    select = rules.get("selectPolicy") or "Max"
    policies = rules.get("policies") or []
    if select == "Disabled" or not policies:
        return current
    limits = []
    for policy in policies:
        since = now - float(policy["periodSeconds"])
        start = current - _sum(history.added, since) + _sum(history.removed, since)
        limits.append(proposed(start, policy))
    return least(limits) if select == "Min" else most(limits)


def _sum(events: Sequence[Moment], since: float) -> int:
    return sum(one.replicas for one in events if one.time > since)


def _longest_period(rules: Obj | None) -> float:
    periods = [float(policy["periodSeconds"]) for policy in (rules or {}).get("policies") or ()]
    return max(periods, default=0.0)
