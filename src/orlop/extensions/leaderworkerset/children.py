"""Builds what a LeaderWorkerSet is made of: groups of pods with names, labels and variables.

Asked by the LeaderWorkerSet controller. Pure. Names, labels and variables are those that the
project documents; the pods of a group are one Slurm job, also where the leader has to be ready
before the others are made: then its job has room for them.
"""

from __future__ import annotations

import hashlib

import msgspec

from ...api.objects import Obj, annotations_of, labels_of, meta, owner_reference
from ...controllers.workloads.distributed.environment import (
    Place,
    distributed_annotations,
    with_variables,
)
from ...controllers.workloads.gang_annotations import gang_of, inherited_by_pods, to_come
from ...controllers.workloads.pod_control import deep_copy, pod_from_template
from ...controllers.workloads.volume_claim_templates import claim_from, with_claims
from ...wellknown import GANG, SLURM_PREFIX

_KEY = "leaderworkerset.sigs.k8s.io/"
NAME, GROUP, WORKER = _KEY + "name", _KEY + "group-index", _KEY + "worker-index"
REVISION, GROUP_KEY, SIZE = _KEY + "template-revision-hash", _KEY + "group-key", _KEY + "size"
LEADER, SUBGROUP = _KEY + "leader-name", _KEY + "subgroup-index"


def size_of(lws: Obj) -> int:
    return int(lws["spec"]["leaderWorkerTemplate"].get("size", 1))


def replicas_of(lws: Obj) -> int:
    return int(lws["spec"].get("replicas", 1))


def waits_for_leader(lws: Obj) -> bool:
    return bool(lws["spec"].get("startupPolicy") == "LeaderReady")


def revision(lws: Obj) -> str:
    """Return a hash that changes with the pods' templates, but not with their claims' policy."""
    template = {**lws["spec"]["leaderWorkerTemplate"]}
    template.pop("persistentVolumeClaimRetentionPolicy", None)
    parts = [template, lws["spec"].get("networkConfig")]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:10]


def pod_name(lws: Obj, group: int, worker: int) -> str:
    leader = f"{meta(lws)['name']}-{group}"
    return f"{leader}-{worker}" if worker else leader


def subdomain(lws: Obj, group: int) -> str:
    policy = (lws["spec"].get("networkConfig") or {}).get("subdomainPolicy")
    return pod_name(lws, group, 0) if policy == "UniquePerReplica" else str(meta(lws)["name"])


def services(lws: Obj, groups: int) -> list[Obj]:
    """Return one Service for all, or one for each group."""
    policy = (lws["spec"].get("networkConfig") or {}).get("subdomainPolicy")
    own = {NAME: meta(lws)["name"]}
    if policy != "UniquePerReplica":
        return [_headless(meta(lws)["name"], own)]
    return [_headless(subdomain(lws, group), {**own, GROUP: str(group)}) for group in range(groups)]


def _headless(name: str, selector: dict[str, str]) -> Obj:
    spec = {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True}
    return {"metadata": {"name": name}, "spec": spec}


def subgroup(lws: Obj, worker: int) -> int | None:
    """Return which part of its group a pod is in; None where it is in none."""
    policy = lws["spec"]["leaderWorkerTemplate"].get("subGroupPolicy") or {}
    size = policy.get("subGroupSize")
    if not size:
        return None
    is_extra = (size_of(lws) - 1) % int(size) == 0
    if policy.get("subGroupPolicyType") == "LeaderExcluded":
        return (worker - 1) // int(size) if worker else None
    if is_extra:
        return max(worker - 1, 0) // int(size)
    return worker // int(size)


def _subgroups(lws: Obj) -> dict[str, str]:
    """Return what pods are told of the parts of their group."""
    policy = lws["spec"]["leaderWorkerTemplate"].get("subGroupPolicy") or {}
    names = {"subgroup-size": "subGroupSize", "subgroup-policy-type": "subGroupPolicyType"}
    return {_KEY + name: str(policy[key]) for name, key in names.items() if policy.get(key)}


def restart_policy(lws: Obj) -> str:
    """Return the policy by its field, or by the annotation that said so before there was one."""
    asked = lws["spec"]["leaderWorkerTemplate"].get("restartPolicy") or "RecreateGroupOnPodRestart"
    is_late = _KEY + "experimental-recreate-group-after-start" in annotations_of(lws)
    late = is_late and asked == "RecreateGroupOnPodRestart"
    return "RecreateGroupAfterStart" if late else str(asked)


def gang(lws: Obj, group: int, worker: int, siblings: list[Obj], now: float) -> dict[str, str]:
    """Return the gang of the group's existing pods, or a new one: the last may still be ending."""
    part, size = f"{group}-{int(now * 10):x}", size_of(lws)
    if waits_for_leader(lws) and worker == 0:
        template = lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]
        later = [to_come(size - 1, template, inherited_by_pods(lws))] if size > 1 else []
        found = gang_of(lws, 1, part, later=later)
    else:
        found = gang_of(lws, size, part)
    names = (annotations_of(sibling).get(GANG, "") for sibling in siblings)
    theirs = next(filter(None, names), "")
    return {**found, GANG: theirs} if found and theirs else found


def pod_for(lws: Obj, group: int, worker: int, together: dict[str, str]) -> Obj:
    """Return a pod of a group; `together` are the annotations of its gang."""
    parts = lws["spec"]["leaderWorkerTemplate"]
    template = deep_copy(
        (parts.get("leaderTemplate") if not worker else None) or parts["workerTemplate"]
    )
    metadata, spec = template.setdefault("metadata", {}), template["spec"]
    name, leader = pod_name(lws, group, worker), pod_name(lws, group, 0)
    spec["hostname"], spec["subdomain"] = name, subdomain(lws, group)
    metadata["labels"] = {**(metadata.get("labels") or {}), **_labels(lws, group, worker)}
    metadata["annotations"] = {
        **inherited_by_pods(lws),
        **together,
        **distributed_annotations(lws),
        **(metadata.get("annotations") or {}),
        SIZE: str(size_of(lws)),
        **({LEADER: leader} if worker else {}),
        **_subgroups(lws),
    }
    variables = {
        "LWS_LEADER_ADDRESS": f"{leader}.{subdomain(lws, group)}.{meta(lws)['namespace']}",
        "LWS_GROUP_SIZE": str(size_of(lws)),
        "LWS_WORKER_INDEX": str(worker),
    }
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        env = [one for one in container.get("env") or [] if one["name"] not in variables]
        # First, so that the user's own may refer to them.
        container["env"] = [*({"name": n, "value": v} for n, v in variables.items()), *env]
    claims = claim_names(lws, group, worker)
    if claims:
        spec["volumes"] = with_claims(spec.get("volumes") or [], claims)
    pod = pod_from_template(template, lws, name)
    hosts = [f"{pod_name(lws, group, w)}.{subdomain(lws, group)}" for w in range(size_of(lws))]
    return with_variables(pod, Place(worker, hosts))


def claim_names(lws: Obj, group: int, worker: int) -> dict[str, str]:
    """Return a pod's claims by volume, as a StatefulSet's pod of that name has them."""
    templates = lws["spec"]["leaderWorkerTemplate"].get("volumeClaimTemplates") or []
    names = [meta(template)["name"] for template in templates]
    return {name: f"{name}-{pod_name(lws, group, worker)}" for name in names}


def claims_for(lws: Obj, group: int, worker: int) -> list[Obj]:
    """Return the claims that a pod needs before it can be made."""
    names = claim_names(lws, group, worker)
    labels = {NAME: meta(lws)["name"], GROUP: str(group), WORKER: str(worker)}
    templates = lws["spec"]["leaderWorkerTemplate"].get("volumeClaimTemplates") or []
    return [claim_from(one, lws, names[meta(one)["name"]], labels) for one in templates]


def retention(lws: Obj, when: str) -> str:
    """Return Delete or Retain, of `whenDeleted` and `whenScaled`."""
    parts = lws["spec"]["leaderWorkerTemplate"]
    return str((parts.get("persistentVolumeClaimRetentionPolicy") or {}).get(when) or "Retain")


def claim_owners(lws: Obj, former: list[Obj]) -> list[Obj]:
    """Return the owners of a claim: the set, where its claims go with it."""
    others = [one for one in former if one["uid"] != meta(lws)["uid"]]
    is_tied = retention(lws, "whenDeleted") == "Delete"
    return [*others, owner_reference(lws)] if is_tied else others


def is_condemned(lws: Obj, claim: Obj, groups: int) -> bool:
    """Return whether a claim is of a group that the set does not have any more."""
    text = labels_of(claim).get(GROUP, "")
    return retention(lws, "whenScaled") == "Delete" and text.isdecimal() and int(text) >= groups


def not_honoured(lws: Obj) -> list[str]:
    """Return what annotations ask for that means nothing where Slurm chooses the hosts."""
    names = (_KEY + "exclusive-topology", _KEY + "subgroup-exclusive-topology")
    remedy = f"{SLURM_PREFIX}exclusive and {SLURM_PREFIX}switches say so to Slurm"
    given = annotations_of(lws)
    return [f"{name} is not honoured; {remedy}" for name in names if name in given]


def _labels(lws: Obj, group: int, worker: int) -> dict[str, str]:
    namespace, leader = meta(lws)["namespace"], pod_name(lws, group, 0)
    found = {
        NAME: meta(lws)["name"],
        GROUP: str(group),
        WORKER: str(worker),
        GROUP_KEY: hashlib.sha1(f"{namespace}/{leader}".encode()).hexdigest(),
        REVISION: revision(lws),
    }
    part = subgroup(lws, worker)
    if part is not None:
        key = hashlib.sha1(f"{namespace}/{leader}/{part}".encode()).hexdigest()
        found |= {SUBGROUP: str(part), _KEY + "subgroup-key": key}
    return found
