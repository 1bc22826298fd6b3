"""Holds pods to the security level that their namespace's labels ask for.

An admission plugin, always on; a namespace without labels is privileged. Pods are refused by
`enforce` and, like the workloads that make pods, warned of by `warn` and noted by `audit`. As
k8s.io/pod-security-admission/admission, with Orlop's own ways out of a container beside those that
upstream knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ....api import kinds
from ....api.asked import asked
from ....api.objects import Key, Obj, labels_of, meta
from ....api.podsecurity import PREFIX, PodSecurityLevels, Standard, levels_of, stricter, violations
from ....api.validation import invalid
from ....errors import ConfigError
from ....settings import PodSecuritySettings
from ....store import Store
from ...request.failures import forbidden
from ..chain import Attributes, Plugin
from ..reading import Objects
from .ways_out import ways_out

_TEMPLATES = {
    kinds.POD_TEMPLATE.resource: ("template",),
    kinds.CRON_JOB.resource: ("spec", "jobTemplate", "spec", "template"),
    **{
        kind.resource: ("spec", "template")
        for kind in (
            kinds.REPLICATION_CONTROLLER,
            kinds.REPLICA_SET,
            kinds.DEPLOYMENT,
            kinds.STATEFUL_SET,
            kinds.DAEMON_SET,
            kinds.JOB,
        )
    },
}
_MOST_PODS = 3000  # looked at when a namespace gets stricter


@dataclass(frozen=True, slots=True)
class PodSecurityConfig:
    """The administrator's pod security: where labels say nothing, and who is not asked at all."""

    defaults: PodSecurityLevels | None = None
    exempt_namespaces: tuple[str, ...] = ()
    exempt_users: tuple[str, ...] = ()
    exempt_runtime_classes: tuple[str, ...] = ()
    # Kinds whose programs run as they are on a node, as the user, and in no container at all.
    unconfined: frozenset[str] = frozenset()


def config_of(settings: PodSecuritySettings, unconfined: Iterable[str] = ()) -> PodSecurityConfig:
    """Read what the administrator has set; ConfigError for an unknown level or version."""
    modes = {name: getattr(settings, name) for name in ("enforce", "audit", "warn")}
    labels: dict[str, str] = {}
    for mode, text in modes.items():
        level, _, version = text.partition(":")
        labels |= {PREFIX + mode: level, f"{PREFIX}{mode}-version": version or "latest"}
    defaults, errors = levels_of(labels)
    if errors:
        raise ConfigError(f"pod_security in the configuration: {errors[0]}")
    return PodSecurityConfig(
        defaults,
        tuple(settings.exempt_namespaces),
        tuple(settings.exempt_users),
        tuple(settings.exempt_runtime_classes),
        frozenset(unconfined),
    )


class PodSecurity(Plugin):
    def __init__(self, store: Store, config: PodSecurityConfig | None = None) -> None:
        self._store = store
        self._namespaces = Objects(store, kinds.NAMESPACE)
        self._config = config or PodSecurityConfig()

    async def validate(self, attributes: Attributes) -> None:
        obj, resource = attributes.obj, attributes.kind.resource
        if obj is None or attributes.operation not in ("CREATE", "UPDATE"):
            return
        if resource == kinds.NAMESPACE.resource and not attributes.subresource:
            self._check_namespace(attributes, obj)
        elif resource == kinds.POD.resource:
            self._check_pod(attributes, obj)
        elif resource in self._config.unconfined and not attributes.subresource:
            self._check_unconfined(attributes, obj)
        elif resource in _TEMPLATES and not attributes.subresource:
            template = obj
            for name in _TEMPLATES[resource]:
                template = template.get(name) or {}
            levels = self._levels(attributes)
            if levels is not None:
                self._tell(attributes, levels, template)

    def _check_pod(self, attributes: Attributes, pod: Obj) -> None:
        if attributes.subresource not in ("", "ephemeralcontainers", "resize"):
            return
        if attributes.old is not None and not _is_significant(pod, attributes.old):
            return
        levels = self._levels(attributes)
        if levels is None or self._is_exempt_class(pod):
            return
        broken = _broken(levels.enforce, pod)
        attributes.annotations["pod-security.kubernetes.io/enforce-policy"] = str(levels.enforce)
        if broken:
            self._note(attributes, levels, pod)
            why = f'violates PodSecurity "{levels.enforce}": {", ".join(broken)}'
            raise forbidden(attributes.kind, attributes.name, why)
        self._tell(attributes, levels, pod)

    def _check_unconfined(self, attributes: Attributes, job: Obj) -> None:
        """Check a job that runs outside of containers.

        Its namespace must be `privileged`; one that is there already may still be ended.
        """
        if not _starts_something(job, attributes.old):
            return
        levels = self._levels(attributes)
        if levels is None:
            return
        words = f"{attributes.kind.kind} (its program runs on a node outside of any container)"
        if levels.audit.level != "privileged":
            told = f'would violate PodSecurity "{levels.audit}": {words}'
            attributes.annotations["pod-security.kubernetes.io/audit-violations"] = told
        if levels.enforce.level != "privileged":
            why = f'violates PodSecurity "{levels.enforce}": {words}; run its program in a pod'
            raise forbidden(attributes.kind, attributes.name, why)
        if levels.warn.level != "privileged":
            _warn(attributes, f'would violate PodSecurity "{levels.warn}": {words}')

    def _levels(self, attributes: Attributes) -> PodSecurityLevels | None:
        """Return the namespace's levels; None where nothing has to be looked at."""
        config = self._config
        if attributes.namespace in config.exempt_namespaces:
            attributes.annotations["pod-security.kubernetes.io/exempt"] = "namespace"
            return None
        if attributes.user.name in config.exempt_users:
            attributes.annotations["pod-security.kubernetes.io/exempt"] = "user"
            return None
        found = self._namespaces.get(Key("", attributes.namespace))
        levels, errors = levels_of(labels_of(found or {}), config.defaults)
        is_open = all(one.level == "privileged" for one in levels)
        if errors:
            told = f"Failed to parse policy: {errors[0]}"
            attributes.annotations["pod-security.kubernetes.io/error"] = told
        return None if is_open and not errors else levels

    def _is_exempt_class(self, pod: Obj) -> bool:
        name = (pod.get("spec") or {}).get("runtimeClassName")
        return bool(name) and name in self._config.exempt_runtime_classes

    def _tell(self, attributes: Attributes, levels: PodSecurityLevels, pod: Obj) -> None:
        if self._is_exempt_class(pod):
            return
        self._note(attributes, levels, pod)
        broken = _broken(levels.warn, pod)
        if broken:
            _warn(attributes, f'would violate PodSecurity "{levels.warn}": {", ".join(broken)}')

    def _note(self, attributes: Attributes, levels: PodSecurityLevels, pod: Obj) -> None:
        broken = _broken(levels.audit, pod)
        if broken:
            told = f'would violate PodSecurity "{levels.audit}": {", ".join(broken)}'
            attributes.annotations["pod-security.kubernetes.io/audit-violations"] = told

    def _check_namespace(self, attributes: Attributes, namespace: Obj) -> None:
        levels, errors = levels_of(labels_of(namespace), self._config.defaults)
        old = attributes.old
        before, former = levels_of(labels_of(old or {}), self._config.defaults)
        if errors and (old is None or [str(e) for e in errors] != [str(e) for e in former]):
            raise invalid(attributes.kind, attributes.name, errors)
        if old is None or levels.enforce == before.enforce:
            return
        is_same_version = levels.enforce.version == before.enforce.version
        if is_same_version and not stricter(levels.enforce, before.enforce):
            return
        if attributes.name not in self._config.exempt_namespaces:
            for line in self._existing(attributes.name, levels.enforce):
                _warn(attributes, line)

    def _existing(self, namespace: str, standard: Standard) -> list[str]:
        """Return which pods that run already would no longer be let in, alike ones together."""
        counted: Counter[str] = Counter()
        first: dict[str, str] = {}
        records = self._store.list(kinds.POD.resource, namespace).records
        for record in records[:_MOST_PODS]:
            pod = record.decode()
            if self._is_exempt_class(pod):
                continue
            broken = _broken(standard, pod)
            if broken:
                reasons = ", ".join(one.partition(" (")[0] for one in broken)
                counted[reasons] += 1
                first.setdefault(reasons, meta(pod)["name"])
        if not counted:
            return []
        head = f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level'
        return [f'{head} "{standard}"', *sorted(
            f"{first[why]}{_others(count - 1)}: {why}" for why, count in counted.items()
        )]  # fmt: skip


def _broken(standard: Standard, pod: Obj) -> list[str]:
    """Return the checks, upstream's and ours, that a pod fails against a standard."""
    found = violations(standard, meta(pod), pod.get("spec") or {})
    is_open = standard.level == "privileged"
    return found if is_open else [*found, *ways_out(meta(pod), pod.get("spec") or {})]


def _others(count: int) -> str:
    if not count:
        return ""
    return f" (and {count} other {'pod' if count == 1 else 'pods'})"


def _warn(attributes: Attributes, line: str) -> None:
    if line not in attributes.warnings:
        attributes.warnings.append(line)


def _starts_something(job: Obj, old: Obj | None) -> bool:
    """Return whether the object is new, or asks for more than before.

    A pod that shows a job of others starts nothing.
    """
    spec = dict(job.get("spec") or {})
    former = None if old is None else dict(old.get("spec") or {})
    if "jobId" in spec:
        return False
    for name in ("cancel", "ttlSecondsAfterFinished"):
        spec.pop(name, None)
        if former is not None:
            former.pop(name, None)
    return spec != former


def _is_significant(new: Obj, old: Obj) -> bool:
    """Return whether an update changed anything that a standard looks at, or what runs."""
    return _looked_at(new) != _looked_at(old)


def _looked_at(pod: Obj) -> tuple[object, ...]:
    spec = pod.get("spec") or {}
    annotations = meta(pod).get("annotations") or {}
    kept = {name: value for name, value in annotations.items() if "security." in name}
    kept |= asked(annotations)
    named = [spec.get(n) or () for n in ("containers", "initContainers", "ephemeralContainers")]
    looks = ("name", "image", "securityContext", "ports")
    each = [[[one.get(name) for name in looks] for one in some] for some in named]
    return kept, each, spec.get("securityContext"), spec.get("volumes")
