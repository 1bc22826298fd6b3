"""The kinds that come with Orlop: one CustomResourceDefinition a file, named as the definition is.

Read by the controller that installs them, once the control plane is up. A file's name says which
definition is in it and its digest whether a cluster has it already, so that nothing is parsed
where nothing is new. `scripts/` has what controllers put into pods. Nothing here speaks to an API
server.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Manifest:
    """One file, and the name of the definition in it."""

    name: str
    text: str

    @property
    def digest(self) -> str:
        """Changes with the file; short, as it is kept in an annotation."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def document(self) -> dict[str, Any]:
        """What the file says; a fresh copy."""
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        parsed: dict[str, Any] = yaml.load(self.text, Loader=loader)
        return parsed


def definitions(folder: Path = _FOLDER) -> dict[str, Manifest]:
    """Every definition that comes with Orlop, by its name."""
    files = sorted(folder.glob("*.yaml"))
    return {file.stem: Manifest(file.stem, file.read_text(encoding="utf-8")) for file in files}


def script(name: str) -> str:
    """The text of a shell script that is put into pods."""
    return (_FOLDER / "scripts" / name).read_text(encoding="utf-8")
