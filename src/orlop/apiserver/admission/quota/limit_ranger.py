"""Fills in what containers leave out, and checks the least and most that may be asked for.

An admission plugin, always on, for pods and claims in namespaces that have LimitRanges. As
plugin/pkg/admission/limitranger, in its words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ....api import kinds
from ....api.objects import Obj, is_deleting
from ....api.pod_resources import Amounts, containers_of, parsed, pod_amounts
from ....store import Store
from ...request.failures import forbidden
from ..chain import Attributes, Plugin
from ..reading import Objects
from .limits import claim_problems, problems

_Check = Callable[[Obj, list[Obj]], Iterator[str]]
_ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanger(Plugin):
    def __init__(self, store: Store) -> None:
        self._ranges = Objects(store, kinds.LIMIT_RANGE)

    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.obj
        if not _is_new_pod(attributes) or pod is None or not isinstance(pod.get("spec"), dict):
            return
        for limit_range in self._ranges.in_namespace(attributes.namespace):
            _set_defaults(pod, limit_range)

    async def validate(self, attributes: Attributes) -> None:
        obj = attributes.obj
        if obj is None or attributes.subresource:
            return
        if _is_new_pod(attributes):
            check: _Check = _pod_problems
        elif _is_claim(attributes) and not is_deleting(obj):
            check = claim_problems
        else:
            return
        for limit_range in self._ranges.in_namespace(attributes.namespace):
            found = list(dict.fromkeys(check(obj, _items(limit_range))))
            if found:
                why = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
                raise forbidden(attributes.kind, attributes.name, why)


def _is_new_pod(attributes: Attributes) -> bool:
    is_pod = attributes.kind.resource == kinds.POD.resource
    return is_pod and attributes.operation == "CREATE" and not attributes.subresource


def _is_claim(attributes: Attributes) -> bool:
    is_claim = attributes.kind.resource == kinds.PERSISTENT_VOLUME_CLAIM.resource
    return is_claim and attributes.operation in ("CREATE", "UPDATE")


def _items(limit_range: Obj) -> list[Obj]:
    return (limit_range.get("spec") or {}).get("limits") or []


def _set_defaults(pod: Obj, limit_range: Obj) -> None:
    """Fill in what containers leave out, and say so in an annotation."""
    requests: Obj = {}
    limits: Obj = {}
    for item in _items(limit_range):
        if item.get("type") == "Container":
            requests |= item.get("defaultRequest") or {}
            limits |= item.get("default") or {}
    told: list[str] = []
    for word, field in (("container", "containers"), ("init container", "initContainers")):
        for container in pod["spec"].get(field) or ():
            for what, given in (("requests", requests), ("limits", limits)):
                filled = _fill(container, what, given)
                if filled:
                    name = container.get("name", "")
                    told.append(f"{', '.join(filled)} {what[:-1]} for {word} {name}")
    if told:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[_ANNOTATION] = "LimitRanger plugin set: " + "; ".join(told)


def _fill(container: Obj, what: str, given: Obj) -> list[str]:
    resources = container.get("resources") or {}
    present = resources.get(what) or {}
    missing = sorted(name for name in given if name not in present)
    if missing:
        resources[what] = {**present, **{name: given[name] for name in missing}}
        container["resources"] = resources
    return missing


def _pod_problems(pod: Obj, items: list[Obj]) -> Iterator[str]:
    for item in items:
        if item.get("type") == "Container":
            for container in containers_of(pod["spec"]):
                yield from problems(item, *_asked(container))
        elif item.get("type") == "Pod":
            requests = pod_amounts(pod, "requests", with_overhead=False)
            limits = pod_amounts(pod, "limits", with_overhead=False)
            yield from problems(item, requests, limits)


def _asked(container: Obj) -> tuple[Amounts, Amounts]:
    resources = container.get("resources") or {}
    return parsed(resources.get("requests")), parsed(resources.get("limits"))
