"""Finds the rules of Roles and ClusterRoles that hold for a user, and what they allow.

Asked by authorization and by the access reviews. It reads roles and bindings from the store and
keeps them parsed until one changes; it writes nothing. As plugin/pkg/auth/authorizer/rbac.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...api import kinds
from ...api.objects import Key, Obj
from ...store import Store
from .authentication import User

Rules = list[Obj]
_BUCKETS = tuple(
    kind.resource
    for kind in (kinds.ROLE, kinds.ROLE_BINDING, kinds.CLUSTER_ROLE, kinds.CLUSTER_ROLE_BINDING)
)

_KNOWN = 1024  # users and namespaces whose rules are kept at hand


@dataclass(frozen=True, slots=True)
class Attributes:
    """An action that someone wants to do, as authorization sees it."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""  # of a non-resource request

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class _Bindings:
    """Everything parsed, as of the buckets' revisions in `stamp`."""

    stamp: tuple[int, ...]
    cluster: list[Obj]
    namespaced: Mapping[str, list[Obj]]
    cluster_roles: Mapping[str, Rules]
    roles: Mapping[Key, Rules]
    # Of users who have asked already, by what they are to bindings, and by namespace.
    known: dict[tuple[str, tuple[str, ...], str], Rules] = field(default_factory=dict)

    def of(self, user: User, namespace: str) -> Iterator[Obj]:
        for binding in self.cluster:
            if _binds(binding, user, ""):
                yield from self.cluster_roles.get(binding["roleRef"]["name"], ())
        for binding in self.namespaced.get(namespace, ()) if namespace else ():
            if _binds(binding, user, namespace):
                role = binding["roleRef"]
                if role["kind"] == "ClusterRole":
                    yield from self.cluster_roles.get(role["name"], ())
                else:
                    yield from self.roles.get(Key(namespace, role["name"]), ())


class Rbac:
    """Rules of a user, from the objects in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache: _Bindings | None = None

    def allows(self, user: User, wanted: Attributes) -> bool:
        return any(covers(rule, wanted) for rule in self.rules(user, wanted.namespace))

    def rules(self, user: User, namespace: str) -> Rules:
        """Return all rules that bind the user in a namespace (cluster-wide ones if it is empty)."""
        bindings, key = self._bindings(), (user.name, user.groups, namespace)
        rules = bindings.known.get(key)
        if rules is None:
            if len(bindings.known) >= _KNOWN:
                bindings.known.clear()
            rules = bindings.known[key] = list(bindings.of(user, namespace))
        return rules

    def _bindings(self) -> _Bindings:
        stamp = tuple(self._store.changed(bucket) for bucket in _BUCKETS)
        if self._cache is None or self._cache.stamp != stamp:
            self._cache = self._read(stamp)
        return self._cache

    def _read(self, stamp: tuple[int, ...]) -> _Bindings:
        roles, bindings, cluster_roles, cluster_bindings = (
            {record.key: record.decode() for record in self._store.list(bucket).records}
            for bucket in _BUCKETS
        )
        namespaced: dict[str, list[Obj]] = {}
        for key, binding in bindings.items():
            namespaced.setdefault(key.namespace, []).append(binding)
        return _Bindings(
            stamp,
            list(cluster_bindings.values()),
            namespaced,
            {key.name: role.get("rules") or [] for key, role in cluster_roles.items()},
            {key: role.get("rules") or [] for key, role in roles.items()},
        )


def _binds(binding: Obj, user: User, namespace: str) -> bool:
    return any(_is(subject, user, namespace) for subject in binding.get("subjects") or ())


def _is(subject: Obj, user: User, namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name")
    if kind == "User":
        return name == user.name
    if kind == "Group":
        return name in user.groups
    home = subject.get("namespace") or namespace
    return kind == "ServiceAccount" and user.name == f"system:serviceaccount:{home}:{name}"


def covers(rule: Obj, wanted: Attributes) -> bool:
    if not _has(rule.get("verbs"), wanted.verb):
        return False
    if wanted.path:
        return any(_pathcovers(path, wanted.path) for path in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("apiGroups"), wanted.group)
        and _resourcecovers(rule.get("resources") or (), wanted)
        and (not names or (bool(wanted.name) and wanted.name in names))
    )


def _has(listed: list[str] | None, value: str) -> bool:
    return bool(listed) and (value in (listed or ()) or "*" in (listed or ()))


def _resourcecovers(resources: list[str] | tuple[()], wanted: Attributes) -> bool:
    if "*" in resources or wanted.full_resource in resources:
        return True
    return bool(wanted.subresource) and f"*/{wanted.subresource}" in resources


def _pathcovers(pattern: str, path: str) -> bool:
    if pattern.endswith("*"):
        return path.startswith(pattern.removesuffix("*"))
    return pattern == path
