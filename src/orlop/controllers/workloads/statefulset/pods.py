"""Computes the identity of a StatefulSet's pods: names, ordinals, claims, revisions.

Used by the StatefulSet controller. Pure. As pkg/controller/statefulset/stateful_set_utils.go: what
is `web-2` stays `web-2`, with its host name and its volumes, however often it is made anew.
"""

from __future__ import annotations

import re

from ....api.gangs import keys_of
from ....api.objects import Obj, is_deleting, meta, owner_reference, phase_of
from ..controller_revisions import REVISION_LABEL
from ..distributed.environment import Hosts, Place, is_wanted, with_variables
from ..pod_control import is_available, pod_from_template
from ..volume_claim_templates import claim_from, with_claims

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
_NAME = re.compile(r"(.*)-(\d+)")


def ordinal_of(pod: Obj, stateful_set: Obj) -> int | None:
    """Return the ordinal of a pod of this set; None for a pod that is none of its."""
    match = _NAME.fullmatch(meta(pod)["name"])
    if match is None or match.group(1) != meta(stateful_set)["name"]:
        return None
    return int(match.group(2))


def start_of(stateful_set: Obj) -> int:
    return int((stateful_set["spec"].get("ordinals") or {}).get("start", 0))


def ordinals_of(stateful_set: Obj) -> range:
    """Return the ordinals that should exist."""
    start = start_of(stateful_set)
    return range(start, start + int(stateful_set["spec"].get("replicas", 1)))


def is_parallel(stateful_set: Obj) -> bool:
    """Return whether all pods start at once; a gang must: its first would wait for its last."""
    spec = stateful_set["spec"]
    return bool(spec.get("podManagementPolicy") == "Parallel") or bool(keys_of(_any_pod(spec)))


def _any_pod(spec: Obj) -> Obj:
    """Return a pod with what its template says of each, as far as a gang is concerned."""
    metadata = (spec.get("template") or {}).get("metadata") or {}
    owner = {"kind": "StatefulSet", "name": "", "uid": "", "controller": True}
    return {"metadata": {**metadata, "namespace": "", "name": "", "ownerReferences": [owner]}}


def is_healthy(pod: Obj, stateful_set: Obj, now: float) -> bool:
    """Return whether it runs, is ready for long enough, and is not being deleted."""
    min_ready = stateful_set["spec"].get("minReadySeconds", 0)
    return phase_of(pod) == "Running" and not is_deleting(pod) and is_available(pod, min_ready, now)


def pod_for(stateful_set: Obj, ordinal: int, template: Obj, revision: str) -> Obj:
    """Return the pod of an ordinal, of one revision's template."""
    name = f"{meta(stateful_set)['name']}-{ordinal}"
    pod = pod_from_template(template, stateful_set, name)
    labels = pod["metadata"].setdefault("labels", {})
    labels |= {POD_NAME: name, POD_INDEX: str(ordinal), REVISION_LABEL: revision}
    spec = pod["spec"]
    spec["hostname"] = name
    if stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = stateful_set["spec"]["serviceName"]
    claims = claim_names(stateful_set, ordinal)
    spec["volumes"] = with_claims(spec.get("volumes") or [], claims)
    if is_wanted(pod):
        domain = f".{spec['subdomain']}" if spec.get("subdomain") else ""
        every = ordinals_of(stateful_set)
        hosts = Hosts(meta(stateful_set)["name"], every, domain)
        with_variables(pod, Place(ordinal - every.start, hosts))
    return pod


def claim_names(stateful_set: Obj, ordinal: int) -> dict[str, str]:
    """Return the claims of a pod, by volume."""
    templates = stateful_set["spec"].get("volumeClaimTemplates") or []
    names = [meta(template)["name"] for template in templates]
    return {name: f"{name}-{meta(stateful_set)['name']}-{ordinal}" for name in names}


def claims_for(stateful_set: Obj, ordinal: int) -> list[Obj]:
    """Return the claims that a pod needs before it can be made."""
    spec = stateful_set["spec"]
    names = claim_names(stateful_set, ordinal)
    selected = (spec.get("selector") or {}).get("matchLabels") or {}
    return [
        claim_from(template, stateful_set, names[meta(template)["name"]], selected)
        for template in spec.get("volumeClaimTemplates") or []
    ]


def claim_owners(stateful_set: Obj, pod: Obj | None, is_scaled_away: bool) -> list[Obj]:
    """Return the owners with which a claim is deleted, by persistentVolumeClaimRetentionPolicy.

    `whenDeleted: Delete` ties it to the set, `whenScaled: Delete` to a pod that is condemned.
    """
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    owners: list[Obj] = []
    if policy.get("whenScaled") == "Delete" and is_scaled_away and pod is not None:
        owners.append(_plain(owner_reference(pod)))
    elif policy.get("whenDeleted") == "Delete":
        owners.append({**_plain(owner_reference(stateful_set)), "controller": True})
    return owners


def _plain(reference: Obj) -> Obj:
    unwanted = ("controller", "blockOwnerDeletion")
    return {name: value for name, value in reference.items() if name not in unwanted}
