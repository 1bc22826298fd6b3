"""OpenAPI documents, as kubectl explain, apply and diff ask for them.

Called for paths below /openapi. They are made of the schema on first request, and kept as bytes.
"""

from __future__ import annotations

from ..api.kinds import Kinds
from ..api.schema import Schema
from .discovery import Document


class OpenApi:
    def __init__(self, kinds: Kinds, schema: Schema) -> None:
        self._kinds = kinds
        self._schema = schema

    def document(self, path: str, accept: str) -> Document | None:
        return None
