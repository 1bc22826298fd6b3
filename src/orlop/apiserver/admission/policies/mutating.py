"""MutatingAdmissionPolicy: changes objects by expressions in CEL.

An admission plugin, before the mutating webhooks. A mutation makes a part of an object, which is
laid over the whole as server-side apply would, or a list of JSON patches. What it makes is decoded
and defaulted again. As apiserver/pkg/admission/plugin/policy/mutating.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ....api import defaults, kinds
from ....api.cel import CelError
from ....api.cel.values import Duration, Optional, Timestamp
from ....api.managedfields.merge import merge
from ....api.managedfields.shapes import KeyedList, Leaf, Map, Shape, Struct, child_of, resolved
from ....api.objects import Obj, meta
from ....api.patch import json as json_patch
from ....api.reading import MAX_BYTES, MAX_DEPTH, MAX_VALUES, OutOfBounds
from ....api.schema import Schema
from ....errors import ApiError
from ....store import Store
from ...crd.served import ServedKinds
from ...objects.field_validation import within_bounds
from ...request.failures import forbidden
from ..chain import Attributes, Plugin
from .compiled import CompiledPolicy, Mutation, Policies, mutating
from .evaluation import Evaluation, Evaluations, Failure

_NAME = "policies"


class MutatingPolicies(Plugin):
    def __init__(
        self, store: Store, evaluations: Evaluations, schema: Schema, served: ServedKinds
    ) -> None:
        self._policies: Policies[CompiledPolicy] = Policies(
            store,
            kinds.MUTATING_ADMISSION_POLICY,
            kinds.MUTATING_ADMISSION_POLICY_BINDING,
            mutating,
        )
        self._evaluations = evaluations
        self._schema = schema
        self._served = served

    async def admit(self, attributes: Attributes) -> None:
        policies = self._policies.all()
        if not policies or attributes.obj is None or attributes.object_kind is not None:
            return
        rounds = attributes.round
        if rounds.number and rounds.last.get(_NAME) != _bytes(attributes.obj):
            rounds.changed(_NAME)
        async for one in self._evaluations.of(policies, attributes):
            uid = f"{one.policy.uid}/{one.binding.name}"
            if not rounds.is_due(_NAME, uid):
                continue
            if isinstance(one, Failure):
                self._failed(one.policy, one.binding.name, one.why, attributes)
                continue
            if self._mutate(one, attributes):
                rounds.changed(_NAME)
                rounds.is_wanted = True
            if one.policy.may_be_asked_again:
                rounds.called.setdefault(_NAME, set()).add(uid)
        rounds.last[_NAME] = _bytes(attributes.obj)

    def _failed(
        self, policy: CompiledPolicy, binding: str, why: str, attributes: Attributes
    ) -> None:
        if policy.fails_closed:
            words = f"policy '{policy.name}' with binding '{binding}' denied request: {why}"
            raise forbidden(attributes.kind, attributes.name, words)

    def _mutate(self, evaluation: Evaluation, attributes: Attributes) -> bool:
        """Mutate the object; return whether it is another one now."""
        obj = attributes.obj
        assert obj is not None, "admit has looked"
        before = _bytes(obj)
        for mutation in evaluation.policy.mutations:
            try:
                made = _Plain().of(evaluation.value(mutation.program))
                new = self._changed(msgspec.json.decode(_bytes(obj)), made, mutation, attributes)
            except (CelError, ApiError, ValueError) as error:
                why = f"expression '{mutation.program.text}' resulted in error: {error}"
                name = evaluation.binding.name
                self._failed(evaluation.policy, name, why, attributes)
                continue
            obj.clear()
            obj.update(new)
            evaluation.see(obj)
        return _bytes(obj) != before

    def _changed(self, obj: Obj, made: Any, mutation: Mutation, attributes: Attributes) -> Obj:
        kind, kept = attributes.kind, meta(obj).get("managedFields")
        if mutation.patch_type == "JSONPatch":
            if not isinstance(made, list):
                raise ValueError("must evaluate to a list of JSONPatch")
            new = json_patch.apply(obj, made)
        else:
            if not isinstance(made, dict):
                raise ValueError("must evaluate to an Object")
            shape = self._shape(attributes)
            _check_atomic(made, shape, "")
            new = merge(obj, made, shape)
        within_bounds(new)
        if meta(new).get("managedFields") != kept:
            raise ValueError("metadata.managedFields must not be changed")
        self._schema.decode(kind, new)
        defaults.apply_defaults(kind, new)
        return new

    def _shape(self, attributes: Attributes) -> Struct:
        assert self._served.shapes is not None, "the registry has set it"
        return self._served.shapes.of(attributes.kind, attributes.subresource)


def _check_atomic(made: Any, shape: Shape | None, path: str) -> None:
    """Refuse a part of a value that can be replaced as a whole and not in parts.

    As upstream.
    """
    if shape is None:
        return
    shape = resolved(shape, made)
    if isinstance(shape, Leaf) and isinstance(made, list | dict):
        what = {list: "arrays", dict: "maps or structs"}[type(made)]
        raise ValueError(f"invalid ApplyConfiguration: may not mutate atomic {what}: {path or '.'}")
    if isinstance(made, dict) and isinstance(shape, Struct | Map):
        for name, value in made.items():
            _check_atomic(value, child_of(shape, name), f"{path}.{name}")
    elif isinstance(made, list) and isinstance(shape, KeyedList):
        for value in made:
            _check_atomic(value, shape.element, f"{path}[]")


class _Plain:
    """Writes CEL values as JSON has them: what is in a list a hundred times is written as often."""

    def __init__(self) -> None:
        self._values = self._size = 0

    def of(self, value: Any, depth: int = 0) -> Any:
        self._values += 1
        if depth > MAX_DEPTH or self._values > MAX_VALUES or self._size > MAX_BYTES:
            raise OutOfBounds("it is larger or deeper than an object may be")
        match value:
            case dict():
                return {self._text(str(key)): self.of(one, depth + 1) for key, one in value.items()}
            case list():
                return [self.of(item, depth + 1) for item in value]
            case Optional():
                return self.of(value.held[0], depth + 1) if value.has_value else None
            case Timestamp() | Duration():
                return str(value)
            case bytes():
                return self._text(value.decode(errors="replace"))
            case str():
                return self._text(value)
            case None | bool() | int() | float():
                return value
        raise ValueError(f"a {type(value).__name__} cannot be a part of an object")

    def _text(self, text: str) -> str:
        self._size += len(text)
        return text


def _bytes(obj: Obj | None) -> bytes:
    return msgspec.json.encode(obj, order="sorted")
