"""Plans which groups of a LeaderWorkerSet to make, make again or delete, and its status.

Asked by the LeaderWorkerSet controller. Pure. A group is made only where nothing of it is left, so
that its pods start together; it is ready when all of its pods are. As the project documents its
restart policies and rolling updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...api.objects import Obj, is_deleting, is_ready, is_terminal, labels_of, meta, phase_of
from ...controllers.framework.status import condition, with_condition
from .children import (
    GROUP,
    NAME,
    REVISION,
    WORKER,
    replicas_of,
    restart_policy,
    revision,
    size_of,
    waits_for_leader,
)


@dataclass(slots=True)
class Plan:
    delete: list[Obj] = field(default_factory=list)
    create: list[tuple[int, int]] = field(default_factory=list)  # groups and workers of them


class Groups:
    """The pods of a set, by group and worker."""

    def __init__(self, lws: Obj, pods: Sequence[Obj]) -> None:
        self.lws, self.pods = lws, pods
        self.by_group: dict[int, dict[int, Obj]] = {}
        for pod in pods:
            labels = labels_of(pod)
            if labels.get(GROUP, "").isdecimal() and labels.get(WORKER, "").isdecimal():
                group = self.by_group.setdefault(int(labels[GROUP]), {})
                group[int(labels[WORKER])] = pod

    def of(self, group: int) -> dict[int, Obj]:
        return self.by_group.get(group, {})

    def is_ready(self, group: int) -> bool:
        pods = self.of(group)
        return len(pods) == size_of(self.lws) and all(
            is_ready(pod) and not is_deleting(pod) for pod in pods.values()
        )

    def is_current(self, group: int) -> bool:
        wanted = revision(self.lws)
        pods = self.of(group).values()
        return all(labels_of(pod).get(REVISION) == wanted for pod in pods)


def has_restarted(pod: Obj) -> bool:
    status = pod.get("status") or {}
    statuses = [
        *(status.get("containerStatuses") or []),
        *(status.get("initContainerStatuses") or []),
    ]
    return any(int(one.get("restartCount") or 0) > 0 for one in statuses)


def plan(groups: Groups, broken: frozenset[int] = frozenset()) -> Plan:
    """Return what to do now; `broken` are groups that a pod has just gone from."""
    lws, todo = groups.lws, Plan()
    wanted = wanted_groups(groups)
    for group, pods in groups.by_group.items():
        if group >= wanted:
            todo.delete += _alive(pods)
    updating = _to_update(groups)
    for group in range(wanted):
        pods = groups.of(group)
        if group in updating or _is_lost(groups, group, group in broken):
            todo.delete += _alive(pods)
        elif any(is_terminal(pod) for pod in pods.values()):
            todo.delete += [pod for pod in _alive(pods) if is_terminal(pod)]
        else:
            todo.create += _missing(lws, group, pods)
    return todo


def _alive(pods: dict[int, Obj]) -> list[Obj]:
    return [pod for pod in pods.values() if not is_deleting(pod)]


def _missing(lws: Obj, group: int, pods: dict[int, Obj]) -> list[tuple[int, int]]:
    leader = pods.get(0)
    if waits_for_leader(lws) and (leader is None or not is_ready(leader)):
        return [(group, 0)] if leader is None else []
    return [(group, worker) for worker in range(size_of(lws)) if worker not in pods]


def _is_lost(groups: Groups, group: int, is_broken: bool) -> bool:
    """Return whether the whole group must go because of one of its pods."""
    pods = groups.of(group).values()
    policy = restart_policy(groups.lws)
    if not pods or policy in ("None", "Default"):
        return False
    if policy == "RecreateGroupAfterStart" and any(
        phase_of(pod) in ("", "Pending") for pod in pods
    ):
        return False
    return is_broken or any(
        is_deleting(pod) or is_terminal(pod) or has_restarted(pod) for pod in pods
    )


def rolling(lws: Obj) -> Obj:
    strategy = lws["spec"].get("rolloutStrategy") or {}
    return strategy.get("rollingUpdateConfiguration") or {}


def _share(value: object, whole: int, *, up: bool) -> int:
    text = str(value)
    if not text.endswith("%"):
        return int(text)
    part = int(text[:-1]) * whole
    return -(-part // 100) if up else part // 100


def wanted_groups(groups: Groups) -> int:
    """Return the number of groups that should be there: some more during an update."""
    replicas = replicas_of(groups.lws)
    outdated = any(not groups.is_current(group) for group in range(replicas))
    surge = _share(rolling(groups.lws).get("maxSurge", 0), replicas, up=True) if outdated else 0
    return replicas + surge


def _to_update(groups: Groups) -> frozenset[int]:
    """Return groups of an earlier template that may go now: the last first, useless ones always."""
    lws, replicas = groups.lws, replicas_of(groups.lws)
    configuration = rolling(lws)
    first = int(configuration.get("partition", 0))
    outdated = [g for g in range(replicas - 1, first - 1, -1) if not groups.is_current(g)]
    idle = [group for group in outdated if not groups.is_ready(group)]
    most = max(_share(configuration.get("maxUnavailable", 1), replicas, up=False), 0)
    surge = _share(configuration.get("maxSurge", 0), replicas, up=True)
    extra = sum(groups.is_ready(group) for group in range(replicas, replicas + surge))
    down = sum(not groups.is_ready(group) for group in range(replicas))
    may_go = max((most or (0 if surge else 1)) + extra - down, 0)
    busy = [group for group in outdated if groups.is_ready(group)]
    return frozenset([*idle, *busy[:may_go]])


def observe(groups: Groups, now: float) -> Obj:
    """Return the status."""
    lws = groups.lws
    replicas = replicas_of(lws)
    there = [group for group in groups.by_group if 0 in groups.of(group)]
    ready = sum(groups.is_ready(group) for group in there)
    updated = sum(groups.is_current(group) for group in there)
    former = (lws.get("status") or {}).get("conditions") or []
    is_updating = any(not groups.is_current(group) for group in there)
    is_up = ready >= replicas and not is_updating
    told = [
        condition("Available", str(is_up), *_WORDS["Available", is_up], now),
        condition("Progressing", str(not is_up), *_WORDS["Progressing", not is_up], now),
    ]
    if is_updating or any(one["type"] == "UpdateInProgress" for one in former):
        words = _WORDS["UpdateInProgress", is_updating]
        told.append(condition("UpdateInProgress", str(is_updating), *words, now))
    for one in told:
        former = with_condition(former, one)
    name = meta(lws)["name"]
    return {
        "conditions": former,
        "observedGeneration": meta(lws).get("generation", 0),
        "replicas": len(there),
        "readyReplicas": ready,
        "updatedReplicas": updated,
        "hpaPodSelector": f"{WORKER}=0,{NAME}={name}",
    }


_WORDS = {
    ("Available", True): ("AllGroupsReady", "All replicas are ready"),
    ("Available", False): ("GroupsNotReady", "Some replicas are not ready"),
    ("Progressing", True): ("GroupsProgressing", "Replicas are progressing"),
    ("Progressing", False): ("AllGroupsReady", "All replicas are ready"),
    ("UpdateInProgress", True): ("GroupsUpdating", "Rolling Upgrade is in progress"),
    ("UpdateInProgress", False): ("AllGroupsReady", "All replicas are up to date"),
}
