"""Tells which Kubernetes this is: the release whose schema we serve, marked as ours.

Served at /version. Clients compare it with their own version.
"""

from __future__ import annotations

import platform
import sys
from importlib import metadata

from ...api.objects import Obj

SCHEMA_PACKAGE = "lightkube-models"  # its version begins with that of the Kubernetes release


def version_info() -> Obj:
    major, minor, patch, *_ = metadata.version(SCHEMA_PACKAGE).split(".")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{major}.{minor}.{patch}+orlop",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{sys.version_info.major}.{sys.version_info.minor}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"linux/{machine}",
    }
