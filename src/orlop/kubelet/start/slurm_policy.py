"""Reads the policy for a pod from its Namespace's annotations, and its PriorityClass'.

Asked when a pod is submitted. Read from caches; what they mean is the engine's to say.
"""

from __future__ import annotations

from ...api.kinds import NAMESPACE, PRIORITY_CLASS
from ...api.objects import Key, Obj, annotations_of, key_of
from ...client.informer import Informers
from ...engine import Surroundings


class PolicySources:
    def __init__(self, informers: Informers) -> None:
        self._namespaces = informers.informer(NAMESPACE)
        self._classes = informers.informer(PRIORITY_CLASS)

    async def around(self, pod: Obj) -> Surroundings:
        await self._namespaces.synced()
        await self._classes.synced()
        priority = pod["spec"].get("priorityClassName") or ""
        namespace = self._namespaces.get(Key("", key_of(pod).namespace))
        return Surroundings(
            annotations_of(namespace or {}),
            annotations_of(self._classes.get(Key("", priority)) or {}) if priority else {},
        )
