"""Matches requests with the rules of webhooks and policies: resources, operations, selectors.

Used by webhooks and by admission policies, which are written alike. Pure but for the labels of the
request's namespace, which are passed in. As apiserver/pkg/admission/plugin/webhook/predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ...api import selectors
from ...api.kinds import Kind
from ...api.objects import Obj
from ...api.selectors import LabelSelector
from .chain import Attributes

# Nothing that guards the cluster may lock out whoever would mend it.
_EXEMPT_GROUP = "admissionregistration.k8s.io"
Views = Callable[[Kind], Iterable[Kind]]


def is_exempt(attributes: Attributes) -> bool:
    """Return whether the object is a webhook or a policy: none of these is asked about them."""
    return attributes.kind.group == _EXEMPT_GROUP


@dataclass(frozen=True, slots=True)
class RuleWithOperations:
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]  # with their subresources
    operations: frozenset[str]
    scope: str
    names: frozenset[str] = frozenset()

    def matches(self, attributes: Attributes, kind: Kind) -> bool:
        """Return whether the rule is about this request, as made in the version of `kind`."""
        return (
            _has(self.operations, attributes.operation)
            and _has(self.groups, kind.group)
            and _has(self.versions, kind.version)
            and self._is_in_scope(attributes)
            and (not self.names or attributes.name in self.names)
            and any(
                resource in ("*", kind.plural) and below in ("*", attributes.subresource)
                for resource, below in self.resources
            )
        )

    def _is_in_scope(self, attributes: Attributes) -> bool:
        is_inside = attributes.kind.namespaced and attributes.namespace != ""
        return {"Namespaced": is_inside, "Cluster": not is_inside}.get(self.scope, True)


def _has(listed: frozenset[str], value: str) -> bool:
    return value in listed or "*" in listed


def rule(raw: Obj) -> RuleWithOperations:
    resources = [text.partition("/") for text in raw.get("resources") or ()]
    return RuleWithOperations(
        frozenset(raw.get("apiGroups") or ()),
        frozenset(raw.get("apiVersions") or ()),
        tuple((resource, below) for resource, _, below in resources),
        frozenset(raw.get("operations") or ()),
        raw.get("scope") or "*",
        frozenset(raw.get("resourceNames") or ()),
    )


@dataclass(frozen=True, slots=True)
class Matcher:
    """All that decides whether a webhook or a policy is asked, but for its conditions in CEL."""

    rules: tuple[RuleWithOperations, ...]
    excluded: tuple[RuleWithOperations, ...]
    is_equivalent: bool
    namespaces: LabelSelector
    objects: LabelSelector

    def find(
        self, attributes: Attributes, views: Views, labels: Mapping[str, str] | None
    ) -> Kind | None:
        """Return the kind in which the request is to be shown; None where it is not matched.

        `views` gives the other kinds that show the same objects, `labels` those of the namespace,
        None outside of one.
        """
        if labels is not None and not self.namespaces.matches(labels):
            return None
        if not self._is_selected(attributes):
            return None
        if any(one.matches(attributes, attributes.kind) for one in self.excluded):
            return None
        if self._names(attributes, attributes.kind):
            return attributes.kind
        others = views(attributes.kind) if self.is_equivalent else ()
        return next((kind for kind in others if self._names(attributes, kind)), None)

    def _names(self, attributes: Attributes, kind: Kind) -> bool:
        return any(one.matches(attributes, kind) for one in self.rules)

    def _is_selected(self, attributes: Attributes) -> bool:
        """Return whether the selector matches: either of the new and the old object is enough."""
        if self.objects.is_empty:
            return True
        each = [one for one in (attributes.obj, attributes.old) if one is not None]
        return any(self.objects.matches(_labels(one)) for one in each)


def _labels(obj: Obj) -> Mapping[str, str]:
    metadata = obj.get("metadata")
    return (metadata.get("labels") or {}) if isinstance(metadata, dict) else {}


def matcher(raw: Obj, rules: str = "rules") -> Matcher:
    """Make the matcher of a webhook, or of the matchConstraints of a policy."""
    return Matcher(
        tuple(rule(one) for one in raw.get(rules) or ()),
        tuple(rule(one) for one in raw.get("excludeResourceRules") or ()),
        raw.get("matchPolicy") != "Exact",
        _selector(raw.get("namespaceSelector")),
        _selector(raw.get("objectSelector")),
    )


def _selector(raw: Obj | None) -> LabelSelector:
    return selectors.from_structure(raw) if raw is not None else selectors.EVERYTHING


def namespace_labels(attributes: Attributes, namespace: Obj | None) -> Mapping[str, str] | None:
    """Return the labels that a namespaceSelector sees; None for what is in no namespace.

    For a request on a namespace they are the labels of that namespace, as it will be.
    """
    if attributes.kind.group == "" and attributes.kind.plural == "namespaces":
        return _labels(attributes.obj or attributes.old or {})
    if not attributes.namespace:
        return None
    return _labels(namespace or {})
