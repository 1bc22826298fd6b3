"""Taints a new node, so that it takes no pods before it has said that it is ready.

An admission plugin, always on. The node lifecycle controller takes the taint off. As
plugin/pkg/admission/nodetaint.
"""

from __future__ import annotations

from ...api import kinds
from .chain import Attributes, Plugin

NOT_READY = "node.kubernetes.io/not-ready"


class TaintNodes(Plugin):
    async def admit(self, attributes: Attributes) -> None:
        node = attributes.obj
        is_new = attributes.operation == "CREATE" and not attributes.subresource
        if node is None or not is_new or attributes.kind.resource != kinds.NODE.resource:
            return
        spec = node.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(t.get("key") == NOT_READY and t.get("effect") == "NoSchedule" for t in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
