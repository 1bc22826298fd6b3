"""Keeps what Orlop's own parts write on pods as they wrote it: their job, its hosts, its end.

An admission plugin, always on. A kubelet that starts anew goes by these annotations; whoever may
write a pod, or only its status, must not have it follow, or cancel, another's job. A new pod has
none, whatever template it was made from; a mirror pod shows a job that is there already.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...api import kinds
from ...api.objects import Obj, annotations_of, controller_of
from ...wellknown import MIRROR, WRITTEN_BACK
from .chain import Attributes, Plugin


class WrittenBack(Plugin):
    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.obj
        if attributes.kind.resource != kinds.POD.resource or pod is None or attributes.object_kind:
            return
        if attributes.operation == "CREATE" and not _is_believed(attributes, pod):
            _keep(pod, {})
        elif attributes.operation == "UPDATE" and not attributes.user.is_master:
            _keep(pod, annotations_of(attributes.old or {}))


def _is_believed(attributes: Attributes, pod: Obj) -> bool:
    """Return whether the annotations of a new pod are taken as they are.

    A controller may do everything, but it copies what anybody may have written in a template.
    """
    is_by_hand = attributes.user.is_master and controller_of(pod) is None
    return is_by_hand or MIRROR in annotations_of(pod)


def _keep(pod: Obj, former: Mapping[str, str]) -> None:
    found = annotations_of(pod)
    if all(found.get(name) == former.get(name) for name in WRITTEN_BACK):
        return
    kept = {name: text for name, text in found.items() if name not in WRITTEN_BACK}
    kept |= {name: former[name] for name in WRITTEN_BACK if name in former}
    pod["metadata"]["annotations"] = kept
