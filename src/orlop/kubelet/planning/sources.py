"""The ConfigMaps, Secrets, tokens and volumes that a pod names, as they were when asked for.

`references` says which ones to fetch, `Sources` answers from those that were found. It does not
fetch anything itself, and a name that was not found is None, not an error: whether that matters is
for the variable or the volume that asks.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...api.objects import Obj


class References(NamedTuple):
    config_maps: frozenset[str]
    secrets: frozenset[str]
    tokens: frozenset[TokenWish]


class TokenWish(NamedTuple):
    """A token of the pod's service account; no audience means the API server's own."""

    audience: str
    seconds: int

    @classmethod
    def of(cls, source: Obj) -> TokenWish:
        """Return what a serviceAccountToken of a projected volume asks for."""
        return cls(source.get("audience") or "", int(source.get("expirationSeconds") or 3600))


@dataclass(frozen=True, slots=True)
class Sources:
    """The found objects, by name, in the pod's own namespace."""

    namespace: str = ""
    config_maps: Mapping[str, Obj] = field(default_factory=dict)
    secrets: Mapping[str, Obj] = field(default_factory=dict)
    tokens: Mapping[TokenWish, str] = field(default_factory=dict)
    volumes: Mapping[str, Obj] = field(default_factory=dict)  # PersistentVolumes, by the pod's name
    image_roots: Mapping[str, str] = field(default_factory=dict)  # of image volumes, likewise
    trust_bundles: Sequence[Obj] = ()  # all there are, where the pod mounts any

    def config_map(self, name: str) -> dict[str, bytes] | None:
        """Return keys and values of a ConfigMap, text and binary alike."""
        found = self.config_maps.get(name)
        if found is None:
            return None
        values = {key: str(text).encode() for key, text in (found.get("data") or {}).items()}
        values.update(_decoded(found.get("binaryData")))
        return values

    def secret(self, name: str) -> dict[str, bytes] | None:
        found = self.secrets.get(name)
        return None if found is None else _decoded(found.get("data"))

    def config_map_text(self, name: str) -> dict[str, str] | None:
        """Return the text of a ConfigMap; variables do not come from binaryData."""
        found = self.config_maps.get(name)
        return None if found is None else dict(found.get("data") or {})

    def secret_text(self, name: str) -> dict[str, str] | None:
        values = self.secret(name)
        if values is None:
            return None
        return {key: data.decode(errors="surrogateescape") for key, data in values.items()}


def references(pod: Obj) -> References:
    """Return every ConfigMap, Secret and token that the pod's variables and volumes name."""
    config_maps: set[str] = set()
    secrets: set[str] = set()
    for kind, name in _names(pod["spec"]):
        (config_maps if kind == "configMap" else secrets).add(name)
    return References(frozenset(config_maps), frozenset(secrets), frozenset(_tokens(pod["spec"])))


def wants_trust_bundles(pod: Obj) -> bool:
    """Return whether a projected volume of the pod names certificates that the cluster trusts."""
    volumes = pod["spec"].get("volumes") or []
    sources = (one for v in volumes for one in (v.get("projected") or {}).get("sources") or [])
    return any(source.get("clusterTrustBundle") for source in sources)


def _tokens(spec: Obj) -> Iterator[TokenWish]:
    for volume in spec.get("volumes") or []:
        for source in (volume.get("projected") or {}).get("sources") or []:
            if source.get("serviceAccountToken"):
                yield TokenWish.of(source["serviceAccountToken"])


def _names(spec: Obj) -> Iterator[tuple[str, str]]:
    groups = ("containers", "initContainers", "ephemeralContainers")
    for container in [each for group in groups for each in spec.get(group) or []]:
        for source in container.get("envFrom") or []:
            yield from _named(source, "configMapRef", "secretRef")
        for variable in container.get("env") or []:
            yield from _named(variable.get("valueFrom"), "configMapKeyRef", "secretKeyRef")
    for volume in spec.get("volumes") or []:
        yield from _volume_names(volume)
        for source in (volume.get("projected") or {}).get("sources") or []:
            yield from _volume_names(source)


def _named(source: Any, config_map: str, secret: str) -> Iterator[tuple[str, str]]:
    source = source or {}
    if source.get(config_map):
        yield "configMap", source[config_map].get("name", "")
    if source.get(secret):
        yield "secret", source[secret].get("name", "")


def _volume_names(source: Obj) -> Iterator[tuple[str, str]]:
    if source.get("configMap"):
        yield "configMap", source["configMap"].get("name", "")
    if source.get("secret"):
        secret = source["secret"]
        yield "secret", secret.get("secretName") or secret.get("name", "")


def _decoded(data: Mapping[str, str] | None) -> dict[str, bytes]:
    return {key: base64.b64decode(text) for key, text in (data or {}).items()}
