"""Lets every pod tolerate a node that is not ready or not reachable, for five minutes.

An admission plugin, always on; a pod that says how long it tolerates this stays as it is. As
plugin/pkg/admission/defaulttolerationseconds.
"""

from __future__ import annotations

from ...api import kinds
from ...api.objects import Obj
from .chain import Attributes, Plugin

TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
SECONDS = 300


class DefaultTolerations(Plugin):
    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.obj
        is_pod = attributes.kind.resource == kinds.POD.resource and not attributes.subresource
        is_write = attributes.operation in ("CREATE", "UPDATE")
        if pod is None or not is_pod or not is_write or not isinstance(pod.get("spec"), dict):
            return
        present = pod["spec"].get("tolerations") or []
        missing = [key for key in TAINTS if not any(_bears(one, key) for one in present)]
        if missing:
            pod["spec"]["tolerations"] = [*present, *map(_toleration, missing)]


def _bears(toleration: Obj, key: str) -> bool:
    named = toleration.get("key") or ""
    return named in (key, "") and (toleration.get("effect") or "") in ("NoExecute", "")


def _toleration(key: str) -> Obj:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
