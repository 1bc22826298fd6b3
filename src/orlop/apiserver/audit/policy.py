"""Decides which requests are worth a record, and how much of them: a Policy of audit.k8s.io/v1.

Read once at the start from a file that users write, so every mistake in it is named. The first rule
that matches decides; what none matches is not recorded. As apiserver/pkg/audit/policy.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from ...errors import ConfigError
from ..auth.authentication import User
from ..request.requestinfo import RequestInfo

STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")


class Level(IntEnum):
    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3

    @property
    def word(self) -> str:
        return _WORDS[self]


_WORDS = {
    Level.NONE: "None",
    Level.METADATA: "Metadata",
    Level.REQUEST: "Request",
    Level.REQUEST_RESPONSE: "RequestResponse",
}
_LEVELS = {word: level for level, word in _WORDS.items()}


class Resources(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    group: str = ""
    resources: list[str] = []
    resourceNames: list[str] = []

    def match(self, info: RequestInfo) -> bool:
        if self.group not in (info.group, "*"):
            return False
        full = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        wanted = {full, "*"} | ({f"*/{info.subresource}"} if info.subresource else set())
        if info.subresource:
            wanted.add(f"{info.resource}/*")
        is_named = not self.resourceNames or info.name in self.resourceNames
        return is_named and (not self.resources or bool(wanted & set(self.resources)))


class AuditRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: str
    users: list[str] = []
    userGroups: list[str] = []
    verbs: list[str] = []
    resources: list[Resources] = []
    namespaces: list[str] = []
    nonResourceURLs: list[str] = []
    omitStages: list[str] = []
    omitManagedFields: bool | None = None

    def match(self, user: User, info: RequestInfo) -> bool:
        if self.users and user.name not in self.users:
            return False
        if self.userGroups and not set(self.userGroups) & set(user.groups):
            return False
        if self.verbs and info.verb not in self.verbs:
            return False
        if info.is_resource:
            return self._match_resource(info)
        if self.nonResourceURLs:
            return any(_is_path(pattern, info.path) for pattern in self.nonResourceURLs)
        return not self.resources and not self.namespaces

    def _match_resource(self, info: RequestInfo) -> bool:
        if self.nonResourceURLs:
            return False
        if self.namespaces and info.namespace not in self.namespaces:
            return False
        return not self.resources or any(one.match(info) for one in self.resources)


class AuditDecision(NamedTuple):
    level: Level
    omitted: frozenset[str] = frozenset()
    omits_managed_fields: bool = False


class AuditPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rules: list[AuditRule]
    apiVersion: str = "audit.k8s.io/v1"
    kind: str = "Policy"
    metadata: dict[str, Any] = {}
    omitStages: list[str] = []
    omitManagedFields: bool = False

    def decide(self, user: User, info: RequestInfo) -> AuditDecision:
        for rule in self.rules:
            if rule.match(user, info):
                said = rule.omitManagedFields
                omits = self.omitManagedFields if said is None else said
                stages = frozenset([*self.omitStages, *rule.omitStages])
                return AuditDecision(_LEVELS[rule.level], stages, omits)
        return AuditDecision(Level.NONE)


def load_policy(path: Path) -> AuditPolicy:
    """Load the policy from a file; ConfigError, with what is wrong, if it is none."""
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        policy = msgspec.convert(yaml.load(path.read_text(), Loader=loader), AuditPolicy)
        _check(policy)
    except (OSError, ValueError, yaml.YAMLError) as error:
        text = f"{path}: {error}; expected a Policy of audit.k8s.io/v1"
        raise ConfigError(text, "InvalidConfiguration") from error
    return policy


def _check(policy: AuditPolicy) -> None:
    if (policy.apiVersion, policy.kind) != ("audit.k8s.io/v1", "Policy"):
        raise ValueError(f"found {policy.apiVersion} {policy.kind}")
    if not policy.rules:
        raise ValueError("rules: there must be at least one")
    for number, rule in enumerate(policy.rules):
        if rule.level not in _LEVELS:
            raise ValueError(f"rules[{number}].level: found {rule.level!r}, not in {list(_LEVELS)}")
        if rule.nonResourceURLs and (rule.resources or rule.namespaces):
            raise ValueError(f"rules[{number}]: either nonResourceURLs or resources, not both")
    for stage in [*policy.omitStages, *(s for rule in policy.rules for s in rule.omitStages)]:
        if stage not in STAGES:
            raise ValueError(f"omitStages: found {stage!r}, not in {list(STAGES)}")


def _is_path(pattern: str, path: str) -> bool:
    if pattern.endswith("*"):
        return path.startswith(pattern.removesuffix("*"))
    return path == pattern
