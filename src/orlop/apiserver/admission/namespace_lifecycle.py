"""Refuses objects in missing namespaces, new ones in dying ones, and the end of some namespaces.

An admission plugin, always on. As apiserver/pkg/admission/plugin/namespace/lifecycle; controllers
recognise its NamespaceTerminating cause and stop trying.
"""

from __future__ import annotations

from ...api import kinds
from ...api.objects import Key
from ...errors import Forbidden
from ...store import Store
from ..request.failures import forbidden, not_found
from .chain import Attributes, Plugin

_IMMORTAL = ("default", "kube-system", "kube-public")
# Asked while a namespace goes away, or not about stored objects at all.
_EXEMPT_GROUPS = ("authorization.k8s.io",)


class NamespaceLifecycle(Plugin):
    def __init__(self, store: Store) -> None:
        self._store = store

    async def validate(self, attributes: Attributes) -> None:
        kind = attributes.kind
        if kind.plural == "namespaces" and kind.group == "":
            self._keep_the_immortal(attributes)
        elif kind.namespaced and kind.group not in _EXEMPT_GROUPS:
            self._check_namespace(attributes)

    def _keep_the_immortal(self, attributes: Attributes) -> None:
        if attributes.operation == "DELETE" and attributes.name in _IMMORTAL:
            raise forbidden(attributes.kind, attributes.name, "this namespace may not be deleted")

    def _check_namespace(self, attributes: Attributes) -> None:
        if attributes.operation != "CREATE" or attributes.subresource:
            return
        bucket = kinds.NAMESPACE.resource
        record = self._store.newest(bucket, Key("", attributes.namespace))
        if record is None:
            raise not_found(kinds.NAMESPACE, attributes.namespace)
        if record.decode().get("status", {}).get("phase") == "Terminating":
            raise _terminating(attributes)


def _terminating(attributes: Attributes) -> Forbidden:
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {attributes.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    why = (
        f"unable to create new content in namespace {attributes.namespace} "
        "because it is being terminated"
    )
    return forbidden(attributes.kind, attributes.name, why, [cause])
