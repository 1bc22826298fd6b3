"""The `authorizer` of admission expressions: may this user do that.

Its objects are made by admission, which knows how to decide; here is the chain of calls that leads
to a question: group, resource, subresource, namespace, name, check. As apiserver/pkg/cel/
library/authz.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..errors import CelError

CHECK_COST = 350_000  # as upstream: a decision is as dear as a third of an expression may be


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request that somebody may want to make, of a resource or of a path."""

    verb: str = ""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class Authorizer:
    """Asks for the user of the request, or for a service account."""

    cel_type = "kubernetes.authorization.Authorizer"

    def __init__(
        self,
        decide: Callable[[Wanted], bool],
        as_account: Callable[[str, str], Authorizer],
        request: Wanted,
    ) -> None:
        self._decide = decide
        self._as_account = as_account
        self.cel_fields = {"requestResource": _Check(decide, request, "ResourceCheck")}

    def group(self, name: str) -> _Check:
        return _Check(self._decide, Wanted(group=name), "GroupCheck")

    def path(self, path: str) -> _Check:
        if not path:
            raise CelError("path must not be empty")
        return _Check(self._decide, Wanted(path=path), "PathCheck")

    def account(self, namespace: str, name: str) -> Authorizer:
        return self._as_account(namespace, name)


@dataclass(frozen=True, slots=True)
class _Check:
    decide: Callable[[Wanted], bool]
    wanted: Wanted
    form: str

    @property
    def cel_type(self) -> str:
        return f"kubernetes.authorization.{self.form}"

    def resource(self, name: str) -> _Check:
        self._must_be("GroupCheck")
        return replace(self, wanted=replace(self.wanted, resource=name), form="ResourceCheck")

    def narrowed(self, **more: str) -> _Check:
        self._must_be("ResourceCheck")
        return replace(self, wanted=replace(self.wanted, **more))

    def check(self, verb: str) -> Decision:
        self._must_be("ResourceCheck", "PathCheck")
        return Decision(self.decide(replace(self.wanted, verb=verb)))

    def _must_be(self, *forms: str) -> None:
        if self.form not in forms:
            raise CelError("no such overload")


@dataclass(frozen=True, slots=True)
class Decision:
    is_allowed: bool
    cel_type = "kubernetes.authorization.Decision"


def _of(kind: type, call: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method that one type has and others have not."""

    def run(value: Any, *args: Any) -> Any:
        if not isinstance(value, kind) or not all(type(one) is str for one in args):
            raise CelError("no such overload")
        return call(value, *args)

    return run


def _check(value: Any, verb: str) -> Decision:
    if not isinstance(value, _Check) or type(verb) is not str:
        raise CelError("no such overload")
    return value.check(verb)


METHODS: dict[str, Callable[..., Any]] = {
    "path": _of(Authorizer, Authorizer.path),
    "group": _of(Authorizer, Authorizer.group),
    "serviceAccount": _of(Authorizer, Authorizer.account),
    "resource": _of(_Check, _Check.resource),
    "subresource": _of(_Check, lambda check, text: check.narrowed(subresource=text)),
    "namespace": _of(_Check, lambda check, text: check.narrowed(namespace=text)),
    "name": _of(_Check, lambda check, text: check.narrowed(name=text)),
    # RBAC knows no selectors: asked about some of a resource, it answers for all of it.
    "fieldSelector": _of(_Check, lambda check, text: check.narrowed()),
    "labelSelector": _of(_Check, lambda check, text: check.narrowed()),
    "check": _check,
    "allowed": _of(Decision, lambda decision: decision.is_allowed),
    "reason": _of(Decision, lambda decision: ""),
    "errored": _of(Decision, lambda decision: False),
    "error": _of(Decision, lambda decision: ""),
}
COSTS = {"check": CHECK_COST}
