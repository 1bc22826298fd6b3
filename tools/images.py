"""Prepares the images of the test registry, so that no test has to wait for them.

Called by set-up. The recipes and the registry are the test cluster's; this only asks it to fill
its storage now, and says what is missing if it cannot.
"""

from __future__ import annotations

import shutil

from tests.cluster.registry import is_prepared, prepared_storage

from .devroot import DevRoot
from .steps import Lacking, Step

NEEDED = {"docker-registry": "docker-registry", "busybox": "busybox-static"}


def step(dev: DevRoot) -> Step:
    return Step("images", lambda: is_prepared(dev), lambda: prepare(dev))


def prepare(dev: DevRoot) -> str:
    for program, package in NEEDED.items():
        if shutil.which(program) is None:
            raise Lacking(f"{program} is missing: apt-get install {package}")
    return f"built in {prepared_storage(dev)}"
