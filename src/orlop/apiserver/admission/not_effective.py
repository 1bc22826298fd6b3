"""Says so when an object is kept that nothing acts upon yet.

An admission plugin, always on. A quota that nobody enforces must not look like protection: whoever
writes one is warned, in a header that kubectl prints.
"""

from __future__ import annotations

from .chain import Attributes, Plugin

_WITHOUT_EFFECT = {
    "networkpolicies.networking.k8s.io": "network policies are not enforced",
}


class NotEffective(Plugin):
    async def validate(self, attributes: Attributes) -> None:
        if attributes.operation == "DELETE" or attributes.subresource:
            return
        why = _WITHOUT_EFFECT.get(attributes.kind.resource)
        if why is not None and why not in attributes.warnings:
            attributes.warnings.append(why)
