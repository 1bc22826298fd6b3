"""Objects of any built-in kind, made up from the schema: right in type, wrong otherwise.

Plain random choices from a seed, not hypothesis: thousands of objects a second, the same each time.
"""

from __future__ import annotations

import random
from typing import Any

from orlop.api.schema import Schema

_TEXTS = [
    "", "a", "A", "-", "a.b/c", "x y", "Always", "Never", "None", "ClusterIP", "Indexed",
    "10.0.0.1", "::1", "/", "..", "25%", "0%", "metadata.name", "* * * * *", "Exists", "In",
    "RollingUpdate", "Container", "kubernetes.io/tls", "latest", "x:1", "ü", "a" * 300,
]  # fmt: skip
_NUMBERS = [0, 1, -1, 80, 65536, 2**31 - 1]
_SCALARS: dict[str, list[Any]] = {
    "s": _TEXTS,
    "i": _NUMBERS,
    "l": _NUMBERS,
    "b": [True, False],
    "d": [0.0, 1.5],
    "y": ["", "AA==", "e30="],
    "q": ["0", "1", "500m", "1Gi", "-1", "100u", "1e3"],
    "x": [*_NUMBERS, *_TEXTS],
    "t": ["2026-01-02T12:00:00Z", "1970-01-01T00:00:00Z"],
    "T": ["2026-01-02T12:00:00.000000Z"],
    "*": [{}, {"a": 1}],
}
_LIKELY = ("metadata", "spec", "status", "template", "containers", "selector")


class Maker:
    """Makes objects of one schema, from one seed."""

    def __init__(self, schema: Schema, seed: int = 0) -> None:
        self._schema = schema
        self._random = random.Random(seed)

    def struct(self, name: str, depth: int = 7) -> dict[str, Any]:
        """A struct with some of its fields; none at all once it is deep enough."""
        fields = self._schema.struct(name).fields
        if depth <= 0 or not fields:
            return {}
        count = self._random.randint(0, min(6, len(fields)))
        wanted = self._random.sample(sorted(fields), count)
        wanted += [key for key in _LIKELY if key in fields and self._random.random() < 0.8]
        return {key: self._value(fields[key].spec, depth) for key in dict.fromkeys(wanted)}

    def _value(self, spec: str, depth: int) -> Any:
        if spec[0] == "[":
            return [self._value(spec[1:], depth) for _ in range(self._random.randint(0, 2))]
        if spec[0] == "{":
            keys = self._random.sample(_TEXTS, self._random.randint(0, 2))
            return {key: self._value(spec[1:], depth) for key in keys}
        if spec[0] == "@":
            return self.struct(spec[1:], depth - 1)
        return self._random.choice(_SCALARS[spec])

    def json(self, depth: int = 4) -> Any:
        """Any JSON at all, mostly under names that pods have."""
        choice = self._random.randrange(8 if depth else 6)
        if choice == 6:
            return [self.json(depth - 1) for _ in range(self._random.randint(0, 2))]
        if choice == 7:
            keys = ["metadata", "spec", "containers", "name", "labels", "image", "x", "env"]
            some = self._random.sample(keys, self._random.randint(0, 4))
            return {key: self.json(depth - 1) for key in some}
        return [None, True, 1, 1.5, "a", {}][choice]

    def text(self, alphabet: str, most: int) -> str:
        return "".join(self._random.choices(alphabet, k=self._random.randint(0, most)))

    def bytes(self, most: int) -> bytes:
        return self._random.randbytes(self._random.randint(0, most))
