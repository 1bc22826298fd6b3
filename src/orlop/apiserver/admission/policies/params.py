"""The objects that a policy is parametrised with, as a binding names them.

Called by the evaluation for each binding of a policy that has a paramKind. They are read from the
store, of whatever kind they are. As apiserver/pkg/admission/plugin/policy/generic: CollectParams.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....api import selectors
from ....api.kinds import Kind, Kinds
from ....api.objects import Key, Obj, labels_of
from ....store import Store
from ...objects.conversion import bucket_of, decode, ready
from ..chain import Attributes
from .compiled import CompiledBinding, CompiledPolicy


class NotConfigured(Exception):
    """A binding that cannot be evaluated; the message says why."""


class Params:
    def __init__(self, store: Store, served: Kinds) -> None:
        self._store = store
        self._served = served

    async def of(
        self, policy: CompiledPolicy, binding: CompiledBinding, attributes: Attributes
    ) -> Sequence[Obj | None]:
        """Return the parameters; each is evaluated apart. `[None]` where there are none to have."""
        reference = binding.param_ref
        if policy.param_kind is None or reference is None:
            return [None]
        kind = self._kind(policy.param_kind)
        namespace = _namespace(kind, reference, attributes)
        found = await self._find(kind, reference, namespace)
        if found:
            return found
        if reference.get("parameterNotFoundAction") == "Allow":
            return []
        raise NotConfigured(
            "failed to configure binding: no params found for policy binding with `Deny` "
            "parameterNotFoundAction"
        )

    def _kind(self, reference: Obj) -> Kind:
        version, name = reference.get("apiVersion", ""), reference.get("kind", "")
        kind = self._served.by_kind(version, name)
        if kind is None:
            raise NotConfigured(
                "failed to configure policy: failed to find resource referenced by paramKind: "
                f"'{version if '/' in version else '/' + version}, Kind={name}'"
            )
        return kind

    async def _find(self, kind: Kind, reference: Obj, namespace: str) -> Sequence[Obj]:
        bucket, name = bucket_of(kind), reference.get("name")
        if name:
            record = self._store.newest(bucket, Key(namespace, name))
            records = [] if record is None else [record]
        else:
            records = list(self._store.list(bucket, namespace).records)
        await ready(kind, records)
        found = [decode(kind, record) for record in records]
        if name:
            return found
        selector = selectors.from_structure(reference.get("selector"))
        return [one for one in found if selector.matches(labels_of(one))]


def _namespace(kind: Kind, reference: Obj, attributes: Attributes) -> str:
    wanted: str = reference.get("namespace") or ""
    if not kind.namespaced:
        if wanted:
            raise NotConfigured(
                "failed to configure binding: paramRef.namespace must not be provided for a "
                "cluster-scoped `paramKind`"
            )
        return ""
    if wanted:
        return wanted
    if not attributes.namespace:
        raise NotConfigured(
            "failed to configure binding: cannot use namespaced paramRef in policy binding that "
            "matches cluster-scoped resources"
        )
    return attributes.namespace
