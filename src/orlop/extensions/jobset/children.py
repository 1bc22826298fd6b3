"""Builds what a JobSet is made of: its headless Service, and Jobs with their names and labels.

Asked by the JobSet controller. Pure. Names, labels and annotations are those that the JobSet
project documents; a JobSet that asks for it by annotation is a gang, with room from the start for
Jobs that wait until others are ready; those that wait for others' end are a gang of their own.
"""

from __future__ import annotations

import hashlib
from collections import Counter

from ...api.objects import Obj, annotations_of, labels_of, meta, owner_reference, uid_of
from ...controllers.workloads.distributed.environment import (
    Place,
    distributed_annotations,
    place_annotation,
)
from ...controllers.workloads.gang_annotations import gang_of, inherited_by_pods, to_come
from ...controllers.workloads.pod_control import deep_copy
from ...controllers.workloads.volume_claim_templates import claim_from, mounts, with_claims
from ...wellknown import DISTRIBUTED, GANG, SLURM_PREFIX

_KEY = "jobset.sigs.k8s.io/"
NAME, UID, ATTEMPT = _KEY + "jobset-name", _KEY + "jobset-uid", _KEY + "restart-attempt"
REPLICATED_JOB, JOB_INDEX = _KEY + "replicatedjob-name", _KEY + "job-index"
COORDINATOR = _KEY + "coordinator"
OWN_ATTEMPT = "orlop.dev/job-attempt"  # of this Job alone
_ALPHA = "alpha.jobset.sigs.k8s.io/"
_NOT_HONOURED = tuple(_ALPHA + name for name in ("exclusive-topology", "node-selector"))


def replicated(jobset: Obj) -> list[Obj]:
    found: list[Obj] = jobset["spec"].get("replicatedJobs") or []
    return found


def replicas(one: Obj) -> int:
    return int(one.get("replicas", 1))


def pods_of(one: Obj) -> int:
    """Return how many pods each of its Jobs has at a time."""
    spec = one["template"].get("spec") or {}
    parallelism = int(spec.get("parallelism", 1))
    return min(parallelism, int(spec.get("completions", parallelism)))


def is_suspended(jobset: Obj) -> bool:
    return bool(jobset["spec"].get("suspend"))


def job_name(jobset: Obj, one: Obj, index: int) -> str:
    return f"{meta(jobset)['name']}-{one['name']}-{index}"


def subdomain(jobset: Obj) -> str:
    network = jobset["spec"].get("network") or {}
    return str(network.get("subdomain") or meta(jobset)["name"])


def has_names(jobset: Obj) -> bool:
    return bool((jobset["spec"].get("network") or {}).get("enableDNSHostnames", True))


def service(jobset: Obj) -> Obj:
    network = jobset["spec"].get("network") or {}
    return {
        "metadata": {"name": subdomain(jobset)},
        "spec": {
            "clusterIP": "None",
            "selector": {NAME: meta(jobset)["name"]},
            "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True),
        },
    }


def coordinator(jobset: Obj) -> str:
    """Return the name of the pod that the others are told of; empty: there is none."""
    asked = jobset["spec"].get("coordinator")
    if not asked:
        return ""
    job = f"{meta(jobset)['name']}-{asked['replicatedJob']}-{asked.get('jobIndex', 0)}"
    return f"{job}-{asked.get('podIndex', 0)}.{subdomain(jobset)}"


def attempts(jobset: Obj, one: Obj, index: int) -> int:
    """Return how often a Job was made again on its own."""
    statuses = (jobset.get("status") or {}).get("replicatedJobsStatus") or []
    for status in statuses:
        if status["name"] == one["name"]:
            counts: list[int] = status.get("jobRestarts") or []
            return counts[index] if index < len(counts) else 0
    return 0


def restarts(jobset: Obj) -> int:
    return int((jobset.get("status") or {}).get("restarts") or 0)


def is_outdated(jobset: Obj, job: Obj) -> bool:
    """Return whether a Job is of an earlier attempt, or is none of the set's any more."""
    for one in replicated(jobset):
        if labels_of(job).get(REPLICATED_JOB) != one["name"]:
            continue
        index = int(labels_of(job).get(JOB_INDEX, "-1"))
        wanted = (str(restarts(jobset)), str(attempts(jobset, one, index)))
        found = (labels_of(job).get(ATTEMPT, "0"), annotations_of(job).get(OWN_ATTEMPT, "0"))
        return found != wanted or not 0 <= index < replicas(one)
    return True


def job_for(jobset: Obj, one: Obj, index: int) -> Obj:
    """Return a Job of the set, whose pods have all the documented names, labels and variables."""
    template = deep_copy(one["template"])
    metadata, spec = template.get("metadata") or {}, template.setdefault("spec", {})
    pod = spec.setdefault("template", {})
    pod_metadata = pod.setdefault("metadata", {})
    marks = _marks(jobset, one, index)
    notes = {COORDINATOR: coordinator(jobset)} if coordinator(jobset) else {}
    spec.setdefault("completionMode", "Indexed")
    pod["spec"].setdefault("restartPolicy", "OnFailure")
    if has_names(jobset):
        pod["spec"].setdefault("subdomain", subdomain(jobset))
    claims = {n: c for n, c in claim_names(jobset).items() if mounts(pod["spec"], n)}
    if claims:
        pod["spec"]["volumes"] = with_claims(pod["spec"].get("volumes") or [], claims)
    if is_suspended(jobset):
        spec["suspend"] = True
    pod_metadata["labels"] = {**(pod_metadata.get("labels") or {}), **marks}
    pod_metadata["annotations"] = {
        **inherited_by_pods(jobset),
        **_gang(jobset, one),
        **distributed_annotations(jobset),
        **(pod_metadata.get("annotations") or {}),
        **(_place(jobset, one, index) if DISTRIBUTED in annotations_of(jobset) else {}),
        **marks,
        **notes,
    }
    own = {OWN_ATTEMPT: str(attempts(jobset, one, index))}
    return {
        "metadata": {
            "name": job_name(jobset, one, index),
            "labels": {**(metadata.get("labels") or {}), **marks},
            "annotations": {**(metadata.get("annotations") or {}), **marks, **notes, **own},
        },
        "spec": spec,
    }


def claim_names(jobset: Obj) -> dict[str, str]:
    """Return the claims of all Jobs of the set, by volume."""
    policies = jobset["spec"].get("volumeClaimPolicies") or []
    names = [meta(one)["name"] for policy in policies for one in policy.get("templates") or []]
    return {name: f"{name}-{meta(jobset)['name']}" for name in names}


def claims_for(jobset: Obj) -> list[Obj]:
    """Return the claims that its Jobs share; they go with the set, unless their policy says no."""
    names, made = claim_names(jobset), []
    for policy in jobset["spec"].get("volumeClaimPolicies") or []:
        kept = (policy.get("retentionPolicy") or {}).get("whenDeleted") == "Retain"
        for template in policy.get("templates") or []:
            name = names[meta(template)["name"]]
            claim = claim_from(template, jobset, name, {NAME: meta(jobset)["name"]})
            if not kept:
                claim["metadata"]["ownerReferences"] = [owner_reference(jobset)]
            made.append(claim)
    return made


def unmounted(jobset: Obj) -> list[str]:
    """Return claims that no container mounts, which would be made in vain."""
    specs = [one["template"]["spec"]["template"]["spec"] for one in replicated(jobset)]
    return [name for name in claim_names(jobset) if not any(mounts(s, name) for s in specs)]


def not_honoured(jobset: Obj) -> list[str]:
    """Return what annotations ask for that means nothing where Slurm chooses the hosts."""
    given = {**annotations_of(jobset)}
    for one in replicated(jobset):
        given |= annotations_of(one["template"])
    remedy = f"{SLURM_PREFIX}exclusive and {SLURM_PREFIX}switches say so to Slurm"
    return [f"{name} is not honoured; {remedy}" for name in _NOT_HONOURED if name in given]


def _place(jobset: Obj, one: Obj, index: int) -> dict[str, str]:
    """Return the place of a Job's first pod among all pods, the coordinator's Jobs first."""
    every = replicated(jobset)
    asked = (jobset["spec"].get("coordinator") or {}).get("replicatedJob")
    every = sorted(every, key=lambda each: each["name"] != asked) if asked else every
    hosts: list[str] = []
    first = 0
    for each in every:
        for number in range(replicas(each)):
            if each["name"] == one["name"] and number == index:
                first = len(hosts)
            name = job_name(jobset, each, number)
            hosts += [f"{name}-{pod}.{subdomain(jobset)}" for pod in range(pods_of(each))]
    return place_annotation(Place(first, hosts))


def _gang(jobset: Obj, one: Obj) -> dict[str, str]:
    if GANG not in annotations_of(jobset):
        return {}
    places = _gang_places(jobset)
    gang, stage = places[one["name"]]
    counts = Counter[int]()  # pods by stage
    later = []
    for each in replicated(jobset):
        its_gang, its_stage = places[each["name"]]
        count = replicas(each) * pods_of(each)
        if its_gang == gang:
            counts[its_stage] += count
            if its_stage > stage and count:
                template = each["template"]["spec"]["template"]
                later.append(to_come(count, template, inherited_by_pods(jobset)))
    earlier = sum(count for its_stage, count in counts.items() if its_stage < stage)
    part = "-".join(filter(None, (gang, str(restarts(jobset)))))
    return gang_of(jobset, counts[stage], part, earlier=earlier, later=later)


def _gang_places(jobset: Obj) -> dict[str, tuple[str, int]]:
    """Return each set of Jobs' gang, and how many others of that gang start before it.

    A set that waits until another is ready runs beside it: both are of one gang. One that waits for
    an end needs what the other then no longer holds.
    """
    policy = jobset["spec"].get("startupPolicy") or {}
    if policy.get("startupPolicyOrder") == "InOrder":
        return {one["name"]: ("", number) for number, one in enumerate(replicated(jobset))}
    found: dict[str, tuple[str, int]] = {}
    for one in replicated(jobset):  # each may wait only for those before it
        waits = [wait for wait in one.get("dependsOn") or [] if wait["name"] in found]
        beside = [found[wait["name"]][0] for wait in waits if wait["status"] == "Ready"]
        gang = beside[0] if beside else (one["name"] if waits else "")
        before = [found[wait["name"]] for wait in waits]
        stage = max((place[1] + 1 for place in before if place[0] == gang), default=0)
        found[one["name"]] = (gang, stage)
    return found


def _marks(jobset: Obj, one: Obj, index: int) -> dict[str, str]:
    """Return the labels of a Job and its pods."""
    name, namespace = meta(jobset)["name"], meta(jobset)["namespace"]
    job = job_name(jobset, one, index)
    every = replicated(jobset)
    before = sum(replicas(each) for each in every[: every.index(one)])
    group = str(one.get("groupName") or "default")
    grouped = [each for each in every if (each.get("groupName") or "default") == group]
    in_group = sum(replicas(each) for each in grouped[: grouped.index(one)])
    return {
        NAME: name,
        UID: uid_of(jobset),
        REPLICATED_JOB: one["name"],
        _KEY + "replicatedjob-replicas": str(replicas(one)),
        _KEY + "global-replicas": str(sum(replicas(each) for each in every)),
        JOB_INDEX: str(index),
        _KEY + "job-key": hashlib.sha256(f"{namespace}/{job}".encode()).hexdigest()[:40],
        _KEY + "job-global-index": str(before + index),
        _KEY + "group-name": group,
        _KEY + "group-replicas": str(sum(replicas(each) for each in grouped)),
        _KEY + "job-group-index": str(in_group + index),
        ATTEMPT: str(restarts(jobset)),
    }
