"""Keeps users from giving away rights that they do not have themselves.

An admission plugin, always on, for roles and bindings. Who may `escalate` or `bind` a role may do
so whatever it holds. As pkg/registry/rbac/{role,clusterrole,rolebinding,...}/policybased, with its
messages, and component-helpers/auth/rbac/validation for what covers what.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence

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
_MOST_COMPARED = 200_000  # combinations; some tenths of a second


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
        held = Held(self._rbac.rules(attributes.user, attributes.namespace))
        try:
            missing = [rule for rule in rules if not held.covers(rule)]
        except _TooMany as error:
            raise forbidden(attributes.kind, attributes.name, str(error)) from None
        if missing:
            shown = "\n".join(_shown(rule) for rule in missing[:_SHOWN])
            why = f"{_who(attributes.user)} is attempting to grant RBAC permissions not currently"
            raise forbidden(attributes.kind, attributes.name, f"{why} held:\n{shown}")


def _is_same(new: Obj, old: Obj | None, *fields: str) -> bool:
    return old is not None and all((new.get(f) or []) == (old.get(f) or []) for f in fields)


class _TooMany(Exception):
    """A role names more combinations than can be compared with what its maker holds."""


class Held:
    """The rules that a user holds, by each word in them: a bit for each rule that has it.

    A role of some kilobytes names millions of combinations of a verb, a group, a resource and a
    name. Words that the same rules have are one word here, so nearly all roles come down to a few.
    """

    def __init__(self, rules: Iterable[Obj]) -> None:
        self._rules = list(rules)
        self._words: dict[tuple[str, str], int] = {}
        self._left = _MOST_COMPARED
        for number, rule in enumerate(self._rules):
            for field in ("verbs", "apiGroups", "resources", "resourceNames"):
                for word in rule.get(field) or ():
                    key = field, word
                    self._words[key] = self._words.get(key, 0) | 1 << number
        self._all = (1 << len(self._rules)) - 1
        self._unnamed = self._all & ~sum(
            1 << n for n, rule in enumerate(self._rules) if rule.get("resourceNames")
        )

    def covers(self, rule: Obj) -> bool:
        """Return whether each thing that a rule names is held; raise _TooMany."""
        verbs = self._each(rule.get("verbs"), lambda verb: self._with("verbs", "*", verb))
        paths = self._each(rule.get("nonResourceURLs"), self._with_path)
        groups = self._each(rule.get("apiGroups"), lambda one: self._with("apiGroups", "*", one))
        resources = self._each(rule.get("resources"), self._with_resource)
        names = self._each(rule.get("resourceNames") or [""], self._with_name)
        return self._meet(verbs, paths) and self._meet(verbs, groups, resources, names)

    def _meet(self, *sets: set[int]) -> bool:
        self._left -= math.prod(map(len, sets))
        if self._left < 0:
            raise _TooMany(
                "the rules name too many combinations of verbs, groups, resources and names to be "
                "compared with those held; split them into several roles"
            )
        return all(functools.reduce(operator.and_, some) for some in itertools.product(*sets))

    def _each(self, words: Sequence[str] | None, rules_with: Callable[[str], int]) -> set[int]:
        return {rules_with(word) for word in words or ()}

    def _with(self, field: str, *words: str) -> int:
        return functools.reduce(operator.or_, (self._words.get((field, word), 0) for word in words))

    def _with_resource(self, resource: str) -> int:
        _, slash, subresource = resource.partition("/")
        return self._with("resources", "*", resource, *([f"*/{subresource}"] if slash else []))

    def _with_name(self, name: str) -> int:
        return self._unnamed | self._with("resourceNames", name)

    def _with_path(self, path: str) -> int:
        return sum(
            1 << number
            for number, rule in enumerate(self._rules)
            if any(path_covers(one, path) for one in rule.get("nonResourceURLs") or ())
        )


def path_covers(pattern: str, path: str) -> bool:
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
