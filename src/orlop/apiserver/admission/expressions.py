"""Expressions about a request, in CEL: what they see of it, and conditions made of them.

Used for the matchConditions of webhooks and policies, and by the policies themselves. A condition
that has no value counts by the failure policy of whoever asks. As apiserver/pkg/admission/plugin/
cel and plugin/webhook/matchconditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...api.cel import CelError, CostExceeded, Program, compile_expression
from ...api.cel import frames as cel_frames
from ...api.cel.frames import PER_OBJECT
from ...api.cel.library.authorizer import Authorizer as CelAuthorizer
from ...api.cel.library.authorizer import Wanted
from ...api.objects import Obj
from ..auth.authentication import User, user
from ..auth.authorization import Authorizer
from ..auth.rbac import Attributes as Access
from .chain import Attributes

VARIABLES = ("object", "oldObject", "request", "authorizer")
CONDITIONS_BUDGET = PER_OBJECT // 4  # as upstream's RuntimeCELCostBudgetMatchConditions
_IN_NAMESPACE = "metadata"


class Budget:
    """The steps and the time that several expressions share."""

    def __init__(self, steps: int = PER_OBJECT) -> None:
        self._left = cel_frames.Budget(steps)

    def run(self, program: Program, variables: Mapping[str, Any]) -> Any:
        """Run the program for its value; CelError where it has none, or where no steps are left."""
        if self._left.is_spent:
            raise CelError(
                "validation failed due to running out of cost budget, no further validation rules "
                "will be run"
            )
        frame = self._left.frame(dict(variables))
        try:
            return program.run(frame)
        except CostExceeded as error:
            self._left.empty()
            raise CelError(str(error)) from error
        finally:
            self._left.take(frame)


@dataclass(frozen=True, slots=True)
class Condition:
    name: str
    program: Program


def conditions(raw: Iterable[Obj], variables: Sequence[str] = VARIABLES) -> tuple[Condition, ...]:
    """Compile matchConditions; CelSyntaxError where one is not right."""
    return tuple(
        Condition(one.get("name", ""), compile_expression(one["expression"], variables))
        for one in raw
    )


@dataclass(frozen=True, slots=True)
class Matched:
    """The answer of conditions: do all of them hold; `error` where that cannot be said."""

    holds: bool
    error: str = ""


def evaluate(conditions: Sequence[Condition], variables: Mapping[str, Any]) -> Matched:
    """Evaluate the conditions. One that is false decides, whatever errors there are beside it."""
    budget, errors = Budget(CONDITIONS_BUDGET), []
    for one in conditions:
        try:
            value = budget.run(one.program, variables)
        except CelError as error:
            errors.append(f"expression '{one.program.text}' resulted in error: {error}")
            continue
        if value is False:
            return Matched(False)
        if value is not True:
            errors.append(f"cel expression '{one.program.text}' must evaluate to a bool")
    if not errors:
        return Matched(True)
    return Matched(False, errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")


def seen(
    request: Obj, attributes: Attributes, authorizer: Authorizer, namespace: Obj | None = None
) -> dict[str, Any]:
    """Return what an expression sees of a request that was made by webhooks' `request_of`."""
    plain = {name: text for name, text in request.items() if name not in ("object", "oldObject")}
    return {
        "object": request["object"],
        "oldObject": request["oldObject"],
        "request": plain,
        "authorizer": _authorizer(attributes, authorizer),
        "namespaceObject": namespace,
    }


def _authorizer(attributes: Attributes, authorizer: Authorizer) -> CelAuthorizer:
    def of(who: User) -> CelAuthorizer:
        return CelAuthorizer(
            decide=lambda wanted: authorizer.allows(who, _access(wanted)),
            as_account=lambda namespace, name: of(_account(namespace, name)),
            request=Wanted(
                group=attributes.kind.group,
                resource=attributes.kind.plural,
                subresource=attributes.subresource,
                namespace=attributes.namespace,
                name=attributes.name,
            ),
        )

    return of(attributes.user)


def _account(namespace: str, name: str) -> User:
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return user(f"system:serviceaccount:{namespace}:{name}", groups)


def _access(wanted: Wanted) -> Access:
    if wanted.path:
        return Access(wanted.verb, path=wanted.path)
    return Access(
        wanted.verb,
        wanted.group,
        wanted.resource,
        wanted.subresource,
        wanted.namespace,
        wanted.name,
    )


Decide = Callable[[Wanted], bool]
