"""Evaluates policies of both kinds: which of them a request concerns, and what they see of it.

Used by the two plugins. For each binding of a matching policy, and each of its parameters, there is
an `Evaluation` with the variables of its expressions and a common budget of steps.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from ....api.cel import CelError, Program
from ....api.cel.values import Lazy
from ....api.kinds import Kind
from ....api.objects import Obj
from ...auth.authorization import Authorizer
from ...objects.conversion import namespace_fields
from ..chain import Attributes
from ..expressions import Budget, evaluate, seen
from ..matching import is_exempt, namespace_labels
from ..webhooks.asking import Asker
from .compiled import CompiledBinding, CompiledPolicy
from .params import NotConfigured, Params


class Variables(Lazy):
    """`variables.x`: each is evaluated when it is first asked for, and once."""

    def __init__(self, programs: Mapping[str, Program], run: Evaluation) -> None:
        self._programs = programs
        self._run = run
        self._known: dict[str, Any] = {}

    def cel_has(self, name: str) -> bool:
        return name in self._programs

    def cel_get(self, name: str) -> Any:
        if name not in self._known:
            program = self._programs.get(name)
            if program is None:
                raise CelError(f"no such key: {name}")
            try:
                self._known[name] = self._run.value(program)
            except CelError as error:
                self._known[name] = error
        found = self._known[name]
        if isinstance(found, CelError):
            raise CelError(f'composited variable "{name}" fails to evaluate: {found}')
        return found


class Evaluation:
    """One policy, bound and parametrised, about one request."""

    def __init__(
        self, policy: CompiledPolicy, binding: CompiledBinding, variables: dict[str, Any]
    ) -> None:
        self.policy = policy
        self.binding = binding
        self._budget = Budget()
        self._variables = {**variables, "variables": Variables(policy.variables, self)}

    def value(self, program: Program) -> Any:
        return self._budget.run(program, self._variables)

    def see(self, obj: Obj) -> None:
        """Let what follows see a changed object, and let variables be computed anew from it."""
        self._variables["object"] = obj
        self._variables["variables"] = Variables(self.policy.variables, self)

    def is_wanted(self) -> bool:
        """Return whether its conditions hold; NotConfigured where one has no value."""
        matched = evaluate(self.policy.conditions, self._variables)
        if matched.error:
            raise NotConfigured(matched.error)
        return matched.holds


@dataclass(frozen=True, slots=True)
class Failure:
    """A binding that could not be evaluated."""

    policy: CompiledPolicy
    binding: CompiledBinding
    why: str


class Evaluations:
    def __init__(self, asker: Asker, params: Params, authorizer: Authorizer) -> None:
        self._asker = asker
        self._params = params
        self._authorizer = authorizer

    async def of(
        self, policies: list[CompiledPolicy], attributes: Attributes
    ) -> AsyncIterator[Evaluation | Failure]:
        """Yield the evaluations that a request needs; each sees what the last has changed."""
        if not policies or is_exempt(attributes):
            return
        namespace = self._asker.namespace(attributes)
        if namespace is None and attributes.namespace:
            return  # it will be refused for that
        labels = namespace_labels(attributes, namespace)
        for policy in policies:
            kind = policy.matcher.find(attributes, self._asker.views, labels)
            if kind is None:
                continue
            for binding in policy.bindings:
                narrowed = binding.matcher
                if narrowed and narrowed.find(attributes, self._asker.views, labels) is None:
                    continue
                async for one in self._each(policy, binding, attributes, kind, namespace):
                    yield one

    async def _each(
        self,
        policy: CompiledPolicy,
        binding: CompiledBinding,
        attributes: Attributes,
        kind: Kind,
        namespace: Obj | None,
    ) -> AsyncIterator[Evaluation | Failure]:
        if policy.broken:
            yield Failure(policy, binding, f"compilation error: {policy.broken}")
            return
        try:
            params = await self._params.of(policy, binding, attributes)
        except NotConfigured as error:
            yield Failure(policy, binding, str(error))
            return
        for param in params:
            request = await self._asker.request(attributes, kind)
            shown = namespace_fields(namespace)
            variables = seen(request, attributes, self._authorizer, shown)
            evaluation = Evaluation(policy, binding, {**variables, "params": param})
            try:
                if evaluation.is_wanted():
                    yield evaluation
            except NotConfigured as error:
                yield Failure(policy, binding, str(error))
