"""The form of an answer that a client wants: plain object, Table, or metadata only; JSON or YAML.

Called per request with its Accept header. We answer JSON whenever JSON is acceptable at all,
whatever the order: every client that asks for protobuf first takes JSON too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ...errors import NotAcceptable

_JSON = ("application/json", "application/*", "*/*")
_YAML = ("application/yaml", "application/x-yaml")
_SHAPES = {
    "Table": "table",
    "PartialObjectMetadata": "partial",
    "PartialObjectMetadataList": "partial",
}
_VERSIONS = ("v1", "v1beta1")


@dataclass(frozen=True, slots=True)
class Form:
    """`shape` is object, table or partial; `version` that of meta.k8s.io, where it matters."""

    media_type: str = "application/json"
    shape: str = "object"
    version: str = "v1"

    @property
    def is_yaml(self) -> bool:
        return self.media_type in _YAML


PLAIN = Form()


@lru_cache(maxsize=256)
def form_of(accept: str) -> Form:
    """Return the first acceptable clause that we can serve; NotAcceptable if there is none."""
    yaml: Form | None = None
    for media_type, parameters in clauses(accept):
        form = _served(media_type, parameters)
        if form is not None and not form.is_yaml:
            return form
        yaml = yaml or form
    if yaml is None:
        raise NotAcceptable(
            "only the following media types are accepted: application/json, application/yaml"
        )
    return yaml


def clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Return media types and their parameters, in the client's order.

    Anything is acceptable where the client says nothing.
    """
    return [_clause(text) for text in accept.split(",") if text.strip()] or [("*/*", {})]


def _clause(text: str) -> tuple[str, dict[str, str]]:
    media_type, *rest = (part.strip() for part in text.split(";"))
    pairs = (part.split("=", 1) for part in rest if "=" in part)
    return media_type.lower(), {name.strip(): value.strip() for name, value in pairs}


def _served(media_type: str, parameters: dict[str, str]) -> Form | None:
    if media_type in _YAML:
        return Form("application/yaml") if "as" not in parameters else None
    if media_type not in _JSON:
        return None
    wanted = parameters.get("as")
    if wanted is None:
        return PLAIN
    shape, version = _SHAPES.get(wanted), parameters.get("v", "v1")
    is_meta = parameters.get("g", "meta.k8s.io") == "meta.k8s.io"
    if shape is None or version not in _VERSIONS or not is_meta:
        return None
    return Form("application/json", shape, version)
