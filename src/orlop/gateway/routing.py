"""Decides which backend a request goes to, by the rules of all Ingresses.

Built anew whenever one of them changes, asked for each request. Pure. As the Ingress API says: an
exact host before a wildcard before none, then the longest path, an exact one before a prefix.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..api.objects import Key, Obj, annotations_of, key_of, meta

CLASS = "orlop"
SERVICE_KEY = Key("kube-system", "orlop-ingress")  # by which the router is found in the cluster
CONTROLLER = "orlop.dev/ingress"
OLD_CLASS = "kubernetes.io/ingress.class"
IS_DEFAULT = "ingressclass.kubernetes.io/is-default-class"


class IngressBackend(NamedTuple):
    service: Key
    port: int | str


class IngressPath(NamedTuple):
    path: str
    is_exact: bool
    backend: IngressBackend

    def matches(self, path: str) -> bool:
        if self.is_exact:
            return path == self.path
        prefix = self.path.rstrip("/")
        return path == prefix or path.startswith(prefix + "/") or not prefix


class Routes:
    """All rules of the Ingresses that are ours, the oldest first: it wins where two are equal."""

    def __init__(self, ingresses: Iterable[Obj]) -> None:
        self._by_host: dict[str, list[IngressPath]] = {}
        self._default: IngressBackend | None = None
        for ingress in sorted(ingresses, key=_age):
            self._add(ingress)
        for rules in self._by_host.values():
            # Sorting is stable: of two equal ones the older stays first.
            rules.sort(key=lambda rule: (-len(rule.path.rstrip("/")), not rule.is_exact))

    def _add(self, ingress: Obj) -> None:
        spec, namespace = ingress.get("spec") or {}, key_of(ingress).namespace
        default = _backend(spec.get("defaultBackend"), namespace)
        if self._default is None:
            self._default = default
        for rule in spec.get("rules") or []:
            host = (rule.get("host") or "").lower()
            for path in (rule.get("http") or {}).get("paths") or []:
                backend = _backend(path.get("backend"), namespace)
                if backend is not None:
                    is_exact = path.get("pathType") == "Exact"
                    made = IngressPath(path.get("path") or "/", is_exact, backend)
                    self._by_host.setdefault(host, []).append(made)

    def find(self, host: str, path: str) -> IngressBackend | None:
        """Return the backend of a request; None where no rule is for it."""
        host = host.rpartition(":")[0].lower() if _has_port(host) else host.lower()
        for candidate in (host, "*." + host.partition(".")[2], ""):
            for rule in self._by_host.get(candidate, ()):
                if rule.matches(path):
                    return rule.backend
        return self._default


def _has_port(host: str) -> bool:
    return ":" in host and not host.endswith("]")


def _age(ingress: Obj) -> tuple[str, Key]:
    return str(meta(ingress).get("creationTimestamp") or ""), key_of(ingress)


def _backend(backend: Obj | None, namespace: str) -> IngressBackend | None:
    """Return the backend of a service; backends that are other resources are nobody's here."""
    service = (backend or {}).get("service")
    if not service:
        return None
    port = service.get("port") or {}
    return IngressBackend(
        Key(namespace, service["name"]), port.get("number") or port.get("name") or ""
    )


def is_ours(ingress: Obj, classes: Iterable[Obj]) -> bool:
    """Return whether an Ingress is of a class of ours, or of none while ours is the default."""
    spec = ingress.get("spec") or {}
    asked = spec.get("ingressClassName") or annotations_of(ingress).get(OLD_CLASS)
    ours = [one for one in classes if (one.get("spec") or {}).get("controller") == CONTROLLER]
    if asked:
        return asked in [meta(one)["name"] for one in ours]
    return any(annotations_of(one).get(IS_DEFAULT) == "true" for one in ours)


def certificates(ingresses: Iterable[Obj]) -> dict[str, Key]:
    """Return host -> the Secret with its certificate; under "" one for hosts that no rule names."""
    found: dict[str, Key] = {}
    for ingress in sorted(ingresses, key=_age):
        namespace = key_of(ingress).namespace
        for tls in (ingress.get("spec") or {}).get("tls") or []:
            if tls.get("secretName"):
                for host in tls.get("hosts") or [""]:
                    found.setdefault(host.lower(), Key(namespace, tls["secretName"]))
    return found
