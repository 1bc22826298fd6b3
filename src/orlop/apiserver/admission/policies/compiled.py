"""Policies and their bindings as they are in the store, compiled once for each change.

Read by the plugins for every request. The store tells with a number whether any policy or binding
has changed, so that a new one holds for the very next request. A policy that cannot be compiled
stays, as an error that its failure policy applies to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ....api.cel import CelSyntaxError, Program, compile_expression
from ....api.kinds import Kind
from ....api.objects import Obj
from ....log import logger
from ....store import Store
from ..expressions import VARIABLES, Condition, conditions
from ..matching import Matcher, matcher

log = logger(__name__)
ALL_VARIABLES = (*VARIABLES, "namespaceObject", "params", "variables")

_EVERYTHING = {
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "resources": ["*/*"],
    "operations": ["*"],
}


@dataclass(frozen=True, slots=True)
class CompiledBinding:
    name: str
    matcher: Matcher | None
    param_ref: Obj | None
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Validation:
    program: Program
    message: str
    message_program: Program | None
    reason: str


@dataclass(frozen=True, slots=True)
class Mutation:
    patch_type: str  # ApplyConfiguration or JSONPatch
    program: Program


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    name: str
    uid: str
    matcher: Matcher
    param_kind: Obj | None
    conditions: Sequence[Condition]
    variables: Mapping[str, Program]
    fails_closed: bool
    bindings: tuple[CompiledBinding, ...]
    validations: Sequence[Validation] = ()
    annotations: Sequence[tuple[str, Program]] = ()
    mutations: Sequence[Mutation] = ()
    may_be_asked_again: bool = False
    broken: str = ""  # why it cannot be evaluated


P = TypeVar("P", bound=CompiledPolicy)
Compile = Callable[[Obj, tuple[CompiledBinding, ...]], CompiledPolicy]


@dataclass
class Policies(Generic[P]):
    """All policies of one of the two kinds, in the order of their names."""

    store: Store
    policy_kind: Kind
    binding_kind: Kind
    compile: Compile
    _seen: tuple[int, int] = (-1, -1)
    _policies: list[CompiledPolicy] = field(default_factory=list)

    def all(self) -> list[CompiledPolicy]:
        """Return the policies that are bound: a policy without a binding does nothing."""
        newest = (
            self.store.changed(self.policy_kind.resource),
            self.store.changed(self.binding_kind.resource),
        )
        if newest != self._seen:
            self._policies = self._read()
            self._seen = newest
        return self._policies

    def _read(self) -> list[CompiledPolicy]:
        bindings: dict[str, list[CompiledBinding]] = {}
        for record in sorted(
            self.store.list_newest(self.binding_kind.resource), key=lambda one: one.key.name
        ):
            raw = record.decode()
            bindings.setdefault(raw["spec"].get("policyName", ""), []).append(_binding(raw))
        found = []
        records = self.store.list_newest(self.policy_kind.resource)
        for record in sorted(records, key=lambda one: one.key.name):
            bound = tuple(bindings.get(record.key.name, ()))
            if bound:
                found.append(self.compile(record.decode(), bound))
        return found


def _binding(raw: Obj) -> CompiledBinding:
    spec = raw["spec"]
    resources = spec.get("matchResources")
    return CompiledBinding(
        raw["metadata"]["name"],
        _resources(resources) if resources is not None else None,
        spec.get("paramRef"),
        tuple(spec.get("validationActions") or ()),
    )


def _resources(raw: Obj) -> Matcher | None:
    """Make a binding's matcher.

    It may narrow by selectors: without rules it is about every resource.
    """
    if raw.get("resourceRules"):
        return matcher(raw, "resourceRules")
    return matcher({**raw, "resourceRules": [_EVERYTHING]}, "resourceRules")


def validating(raw: Obj, bindings: tuple[CompiledBinding, ...]) -> CompiledPolicy:
    def fill(spec: Obj) -> dict[str, Any]:
        return {
            "validations": tuple(_validation(one) for one in spec.get("validations") or ()),
            "annotations": tuple(
                (one["key"], compile_expression(one["valueExpression"], ALL_VARIABLES))
                for one in spec.get("auditAnnotations") or ()
            ),
        }

    return _policy(raw, bindings, fill)


def mutating(raw: Obj, bindings: tuple[CompiledBinding, ...]) -> CompiledPolicy:
    def fill(spec: Obj) -> dict[str, Any]:
        return {
            "mutations": tuple(_mutation(one) for one in spec.get("mutations") or ()),
            "may_be_asked_again": spec.get("reinvocationPolicy") == "IfNeeded",
        }

    return _policy(raw, bindings, fill)


def _policy(
    raw: Obj, bindings: tuple[CompiledBinding, ...], fill: Callable[[Obj], dict[str, Any]]
) -> CompiledPolicy:
    spec, metadata = raw["spec"], raw["metadata"]
    try:
        parts = {
            "conditions": conditions(spec.get("matchConditions") or (), ALL_VARIABLES),
            "variables": {
                one["name"]: compile_expression(one["expression"], ALL_VARIABLES)
                for one in spec.get("variables") or ()
            },
            **fill(spec),
        }
        broken = ""
    except CelSyntaxError as error:
        log.error("a policy cannot be compiled", policy=metadata["name"], error=error)
        parts, broken = {"conditions": (), "variables": {}}, str(error)
    return CompiledPolicy(
        metadata["name"],
        metadata["uid"],
        matcher(spec.get("matchConstraints") or {}, "resourceRules"),
        spec.get("paramKind"),
        fails_closed=spec.get("failurePolicy") != "Ignore",
        bindings=bindings,
        broken=broken,
        **parts,
    )


def _validation(raw: Obj) -> Validation:
    told = raw.get("messageExpression")
    return Validation(
        compile_expression(raw["expression"], ALL_VARIABLES),
        (raw.get("message") or "").strip(),
        compile_expression(told, ALL_VARIABLES) if told else None,
        raw.get("reason") or "",
    )


def _mutation(raw: Obj) -> Mutation:
    is_patch = raw.get("patchType") == "JSONPatch"
    text = (raw.get("jsonPatch" if is_patch else "applyConfiguration") or {}).get("expression", "")
    structs = ("Object", "JSONPatch")
    program = compile_expression(text, ALL_VARIABLES, structs)
    return Mutation("JSONPatch" if is_patch else "ApplyConfiguration", program)
