"""binding: a pod is given its node, once.

Called for POST on `pods/<name>/binding` and on `bindings`, by schedulers. As
registry/core/pod/storage: BindingREST.assignPod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...api import kinds
from ...api.objects import Obj, annotations_of, condition_of
from ...wellknown import GROUP, MIRROR, WRITTEN_BACK
from ..admission.rights.ways_out import ways_out
from ..registry import Call, Registry
from ..request.failures import bad_request, conflict, forbidden
from ..verbs.update import modify
from .admitting import admit
from .answers import created


async def bind(registry: Registry, call: Call, body: Any) -> Obj:
    """Assign the pod to `target`; Conflict if it has a node already or is going away."""
    if not isinstance(body, dict):
        raise bad_request("the body of the request must be a Binding")
    target, metadata = body.get("target") or {}, body.get("metadata") or {}
    if not isinstance(target, dict) or not isinstance(metadata, dict):
        raise bad_request("the body of the request must be a Binding")
    if target.get("kind") not in (None, "", "Node") or not target.get("name"):
        raise bad_request("a Binding must name a Node as its target")
    if call.name and metadata.get("name") not in (None, "", call.name):
        raise bad_request(
            f"name in URL does not match name in Binding object: {call.name!r} and "
            f"{metadata['name']!r}"
        )
    call.kind, call.subresource = kinds.POD, "binding"
    call.name = call.name or str(metadata.get("name") or "")
    body = {"apiVersion": "v1", "kind": "Binding", **body, "metadata": metadata}
    await admit(registry, call, body, ("", "v1", "Binding"))
    await modify(registry, call, lambda pod: _assigned(registry, call, pod, body))
    return created()


def _assigned(registry: Registry, call: Call, pod: Obj, binding: Obj) -> Obj:
    node = binding["target"]["name"]
    metadata, wanted = pod["metadata"], binding.get("metadata") or {}
    if wanted.get("uid") and wanted["uid"] != metadata["uid"]:
        why = f"Precondition failed: UID in precondition: {wanted['uid']}, UID in object meta: "
        raise conflict(call.kind, call.name, why + metadata["uid"])
    if "deletionTimestamp" in metadata:
        raise conflict(call.kind, call.name, f"pod {call.name} is being deleted")
    taken = pod["spec"].get("nodeName")
    if taken:
        why = f'pod {call.name} is already assigned to node "{taken}"'
        raise conflict(call.kind, call.name, why)
    if pod["spec"].get("schedulingGates"):
        why = f"pod {call.name} has non-empty .spec.schedulingGates"
        raise conflict(call.kind, call.name, why)
    pod["spec"]["nodeName"] = node
    _check_annotations(call, pod, wanted.get("annotations") or {})
    if wanted.get("annotations"):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **wanted["annotations"]}
    _set_scheduled(pod, registry.timestamp())
    return pod


def _check_annotations(call: Call, pod: Obj, more: Mapping[str, str]) -> None:
    """Refuse annotations that a binding must not set.

    Who gives a pod its node may say what hosts it needs there, and not how else it runs.
    """
    former = annotations_of(pod)
    kept = (*WRITTEN_BACK, MIRROR, GROUP)
    changed = [name for name in kept if name in more and more[name] != former.get(name)]
    before = ways_out(pod["metadata"], pod["spec"])
    after = ways_out({**pod["metadata"], "annotations": {**former, **more}}, pod["spec"])
    problems = [*changed, *(one for one in after if one not in before)]
    if problems:
        why = f"a Binding may not set {', '.join(problems)}; update the pod instead"
        raise forbidden(call.kind, call.name, why)


def _set_scheduled(pod: Obj, now: str) -> None:
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled is not None and scheduled.get("status") == "True":
        return
    fresh = {"type": "PodScheduled", "status": "True", "lastProbeTime": None,
             "lastTransitionTime": now}  # fmt: skip
    status = pod.setdefault("status", {})
    others = [one for one in status.get("conditions") or [] if one.get("type") != "PodScheduled"]
    status["conditions"] = [*others, fresh]
