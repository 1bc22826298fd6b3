"""Reads the definitions of a kind: one CustomResourceDefinition a file, named as the definition is.

Asked by the registry; the controller that installs them reads what is in them. A file's name says
which definition is in it and its digest whether a cluster has it already, so that nothing is parsed
where nothing is new.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Manifest:
    """One file, and the name of the definition in it."""

    name: str
    text: str

    @property
    def digest(self) -> str:
        """Return a short digest of the file, as it is kept in an annotation."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def document(self) -> dict[str, Any]:
        """Return what the file says; a fresh copy."""
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        parsed: dict[str, Any] = yaml.load(self.text, Loader=loader)
        return parsed


def in_folder(folder: Path) -> dict[str, Manifest]:
    """Return every definition of a folder, by its name."""
    files = sorted(folder.glob("*.yaml"))
    return {file.stem: Manifest(file.stem, file.read_text(encoding="utf-8")) for file in files}
