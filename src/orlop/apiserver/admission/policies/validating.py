"""ValidatingAdmissionPolicy: refuses, warns of or notes what breaks a rule in CEL.

An admission plugin, before the validating webhooks. Every policy that concerns a request is
evaluated; the first that denies it is told. As apiserver/pkg/admission/plugin/policy/validating:
dispatcher.go and validator.go, in their words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from ....api import kinds
from ....api.cel import CelError
from ....errors import ApiError
from ....store import Store
from ...request.failures import forbidden
from ..chain import Attributes, Plugin
from .compiled import CompiledPolicy, Policies, Validation, validating
from .evaluation import Evaluation, Evaluations, Failure

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
_FAILURES = "validation.policy.admission.k8s.io/validation_failure"
_LONGEST_NOTE = 10 << 10  # as upstream's maxAuditAnnotationValueLength
_LONGEST_MESSAGE = 5 * 1024


@dataclass(frozen=True, slots=True)
class Denial:
    policy: str
    binding: str
    actions: tuple[str, ...]
    message: str
    reason: str = ""
    index: int = 0

    @property
    def words(self) -> str:
        named = f"ValidatingAdmissionPolicy '{self.policy}' with binding '{self.binding}'"
        return f"{named} denied request: {self.message}"


class ValidatingPolicies(Plugin):
    def __init__(self, store: Store, evaluations: Evaluations) -> None:
        self._policies: Policies[CompiledPolicy] = Policies(
            store,
            kinds.VALIDATING_ADMISSION_POLICY,
            kinds.VALIDATING_ADMISSION_POLICY_BINDING,
            validating,
        )
        self._evaluations = evaluations

    async def validate(self, attributes: Attributes) -> None:
        policies = self._policies.all()
        if not policies:
            return
        denials: list[Denial] = []
        async for one in self._evaluations.of(policies, attributes):
            if isinstance(one, Failure):
                if one.policy.fails_closed:
                    denials.append(_failure(one))
                continue
            denials += _judged(one)
            denials += _annotated(one, attributes)
        _tell(denials, attributes)


def _failure(failure: Failure) -> Denial:
    binding = failure.binding
    return Denial(failure.policy.name, binding.name, binding.actions, failure.why)


def _judged(evaluation: Evaluation) -> Iterator[Denial]:
    policy, binding = evaluation.policy, evaluation.binding
    for index, validation in enumerate(policy.validations):
        reason = validation.reason
        try:
            if evaluation.value(validation.program) is True:
                continue
            message = _message(evaluation, validation)
        except CelError as error:
            if not policy.fails_closed:
                continue
            message = f"expression '{validation.program.text}' resulted in error: {error}"
            reason = ""
        yield Denial(policy.name, binding.name, binding.actions, message, reason, index)


def _message(evaluation: Evaluation, validation: Validation) -> str:
    """Return what the message's expression says, if that is one line of text; else its message."""
    if validation.message_program is not None:
        try:
            text = evaluation.value(validation.message_program)
        except CelError:
            text = None
        text = text.strip() if type(text) is str else ""
        if text and "\n" not in text and len(text) <= _LONGEST_MESSAGE:
            return text
    return validation.message or f"failed expression: {validation.program.text.strip()}"


def _annotated(evaluation: Evaluation, attributes: Attributes) -> Iterator[Denial]:
    """Note what the policy wants in the audit record.

    A note without a value is a failure where the policy fails closed.
    """
    policy, binding = evaluation.policy, evaluation.binding
    for key, program in policy.annotations:
        try:
            text = evaluation.value(program)
        except CelError as error:
            if policy.fails_closed:
                words = f"expression '{program.text}' resulted in error: {error}"
                yield Denial(policy.name, binding.name, binding.actions, words)
            continue
        if type(text) is str and text:
            name, text = f"{policy.name}/{key}", text[:_LONGEST_NOTE]
            former = attributes.annotations.get(name)
            if former is None or text not in former.split(", "):
                attributes.annotations[name] = f"{former}, {text}" if former else text


def _tell(denials: list[Denial], attributes: Attributes) -> None:
    for one in denials:
        if "Warn" in one.actions:
            warning = (
                f"Validation failed for ValidatingAdmissionPolicy '{one.policy}' with binding "
                f"'{one.binding}': {one.message}"
            )
            if warning not in attributes.warnings:
                attributes.warnings.append(warning)
    noted = [_note(one) for one in denials if "Audit" in one.actions]
    if noted:
        attributes.annotations[_FAILURES] = msgspec.json.encode(noted).decode()
    denied = [one for one in denials if "Deny" in one.actions]
    if denied:
        raise _refusal(denied[0], attributes)


def _note(denial: Denial) -> dict[str, object]:
    return {
        "message": denial.message,
        "policy": denial.policy,
        "binding": denial.binding,
        "expressionIndex": denial.index,
        "validationActions": list(denial.actions),
    }


def _refusal(denial: Denial, attributes: Attributes) -> ApiError:
    cause = {"message": denial.words}
    refused = forbidden(attributes.kind, attributes.name, denial.words, [cause])
    reason = denial.reason or "Invalid"
    code = _CODES.get(reason, 422)
    return ApiError(refused.message, details=refused.details, reason=reason, code=code)
