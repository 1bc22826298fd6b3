"""Keeps users from giving away rights that they do not have themselves.

An admission plugin, always on, for roles and bindings. Who may `escalate` or `bind` a role may do
so whatever it holds. As pkg/registry/rbac/{role,clusterrole,rolebinding,...}/policybased, with its
messages, and component-helpers/auth/rbac/validation for what covers what.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ....api import kinds
from ....api.objects import Key, Obj, labels_of
from ....store import Store
from ...auth.authentication import User
from ...auth.rbac import Attributes as Wanted
from ...auth.rbac import Rbac
from ...request.failures import forbidden, not_found
from ..chain import Attributes, Plugin

_ROLES = (kinds.ROLE.resource, kinds.CLUSTER_ROLE.resource)
_BINDINGS = (kinds.ROLE_BINDING.resource, kinds.CLUSTER_ROLE_BINDING.resource)
_EVERYTHING: list[Obj] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]
_SHOWN = 10  # rules that a refusal names


class RbacEscalation(Plugin):
    def __init__(self, store: Store) -> None:
        self._store = store
        self._rbac = Rbac(store)

    async def validate(self, attributes: Attributes) -> None:
        obj, user = attributes.obj, attributes.user
        if obj is None or user.is_master or attributes.operation not in ("CREATE", "UPDATE"):
            return
        if attributes.kind.resource in _ROLES:
            self._check_role(attributes, obj)
        elif attributes.kind.resource in _BINDINGS:
            self._check_binding(attributes, obj)

    def _check_role(self, attributes: Attributes, role: Obj) -> None:
        if _is_same(role, attributes.old, "rules", "aggregationRule") and (
            attributes.kind.namespaced or labels_of(role) == labels_of(attributes.old or {})
        ):
            return  # a label may give the rules of a cluster role to one that is a sum
        if self._may(attributes, "escalate", attributes.kind, attributes.name):
            return
        self._must_hold(attributes, role.get("rules") or [])
        either = (role, attributes.old or {})
        if any(one.get("aggregationRule") for one in either):  # it holds what others label for it
            self._must_hold(attributes, _EVERYTHING)

    def _check_binding(self, attributes: Attributes, binding: Obj) -> None:
        if _is_same(binding, attributes.old, "roleRef", "subjects"):
            return
        reference = binding["roleRef"]
        kind = kinds.CLUSTER_ROLE if reference["kind"] == "ClusterRole" else kinds.ROLE
        if self._may(attributes, "bind", kind, reference["name"]):
            return
        namespace = attributes.namespace if kind.namespaced else ""
        record = self._store.newest(kind.resource, Key(namespace, reference["name"]))
        if record is None:
            raise not_found(kind, reference["name"])
        self._must_hold(attributes, record.decode().get("rules") or [])

    def _may(self, attributes: Attributes, verb: str, kind: kinds.Kind, name: str) -> bool:
        wanted = Wanted(verb, kind.group, kind.plural, "", attributes.namespace, name)
        return self._rbac.allows(attributes.user, wanted)

    def _must_hold(self, attributes: Attributes, rules: Sequence[Obj]) -> None:
        held = list(self._rbac.rules(attributes.user, attributes.namespace))
        missing = [rule for rule in rules if not all(_covered(held, one) for one in _single(rule))]
        if missing:
            shown = "\n".join(_shown(rule) for rule in missing[:_SHOWN])
            why = f"{_who(attributes.user)} is attempting to grant RBAC permissions not currently"
            raise forbidden(attributes.kind, attributes.name, f"{why} held:\n{shown}")


def _is_same(new: Obj, old: Obj | None, *fields: str) -> bool:
    return old is not None and all((new.get(f) or []) == (old.get(f) or []) for f in fields)


def _single(rule: Obj) -> Iterator[Obj]:
    """Split a rule into rules that each name one thing."""
    verbs = rule.get("verbs") or []
    for verb, path in itertools.product(verbs, rule.get("nonResourceURLs") or []):
        yield {"verb": verb, "path": path}
    resources = itertools.product(
        verbs, rule.get("apiGroups") or [], rule.get("resources") or [],
        rule.get("resourceNames") or [""],
    )  # fmt: skip
    for verb, group, resource, name in resources:
        yield {"verb": verb, "group": group, "resource": resource, "name": name}


def _covered(held: Sequence[Obj], one: Obj) -> bool:
    return any(_covers(rule, one) for rule in held)


def _covers(rule: Obj, one: Obj) -> bool:
    if not {"*", one["verb"]} & set(rule.get("verbs") or ()):
        return False
    if "path" in one:
        return any(_path_covers(path, one["path"]) for path in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames") or ()
    _, slash, subresource = one["resource"].partition("/")
    resources = {"*", one["resource"], *([f"*/{subresource}"] if slash else [])}
    return bool(
        {"*", one["group"]} & set(rule.get("apiGroups") or ())
        and resources & set(rule.get("resources") or ())
        and (not names or one["name"] in names)
    )


def _path_covers(pattern: str, path: str) -> bool:
    is_prefix = pattern.endswith("*") and path.startswith(pattern.removesuffix("*"))
    return pattern == path or is_prefix


def _who(user: User) -> str:
    groups = " ".join(f'"{group}"' for group in user.groups)
    return f'user "{user.name}" (groups=[{groups}])'


def _shown(rule: Obj) -> str:
    """Return a rule as text, as upstream's CompactString."""
    words = (
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("ResourceNames", "resourceNames"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("Verbs", "verbs"),
    )
    parts = [f"{word}:[{_listed(rule[name])}]" for word, name in words if rule.get(name)]
    return "{" + ", ".join(parts) + "}"


def _listed(values: Sequence[str]) -> str:
    return " ".join(f'"{value}"' for value in values)
