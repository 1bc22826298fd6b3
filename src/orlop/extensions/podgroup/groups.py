"""Says how pods name their PodGroup, and how many members a PodGroup asks for.

Read by the scheduler and the kubelet, which know no PodGroups, and by the controllers. Pure. There
are that of scheduling.x-k8s.io, named by a label, and the built-in one of `spec.schedulingGroup`.
"""

from __future__ import annotations

from ...api.gangs import GroupKind
from ...api.kinds import Kind
from ...api.objects import Obj, labels_of
from ...wellknown import POD_GROUP_LABEL
from ..bundled import bundled_kind

POD_GROUP = bundled_kind("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups")
BUILT_IN = bundled_kind("scheduling.k8s.io", "v1alpha3", "PodGroup", "podgroups")
BUILT_IN_DEFINITIONS = (BUILT_IN.resource, "workloads.scheduling.k8s.io")
# Of the built-in kind, since spec.schedulingGroup.
_EARLIER = Kind("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", namespaced=True)


def pod_group_of(pod: Obj) -> str:
    return labels_of(pod).get(POD_GROUP_LABEL, "")


def scheduling_group_of(pod: Obj) -> str:
    """Return the name of its built-in PodGroup, a gang or not; empty for a pod without."""
    group = (pod.get("spec") or {}).get("schedulingGroup") or {}
    return str(group.get("podGroupName") or "")


def least_members(group: Obj) -> int:
    return int((group.get("spec") or {}).get("minMember") or 1)


def gang_size(group: Obj) -> int:
    """Return the size of a built-in group; zero where its policy is basic: then each of its pods
    starts on its own.
    """
    policy = (group.get("spec") or {}).get("schedulingPolicy") or {}
    return int((policy.get("gang") or {}).get("minCount") or 0)


GANGS = (
    GroupKind("podgroup", (POD_GROUP,), pod_group_of, least_members),
    GroupKind("schedulinggroup", (BUILT_IN, _EARLIER), scheduling_group_of, gang_size),
)
