"""Prepares the images of the test registry, so that neither the demo nor a test waits for them.

Called by set-up. The recipes and the registry are the test cluster's; this only asks it to fill
its storage now, and says what is missing if it cannot.
"""

from __future__ import annotations

import shutil

from tests.cluster.storage import ALL, BASIC, Collection
from tools.devroot import DevRoot
from tools.extent import Extent
from tools.steps import Lacking, Step

NEEDED = {"docker-registry": "docker-registry", "busybox": "busybox-static"}


def step(dev: DevRoot, extent: Extent) -> Step:
    collection = BASIC if extent is Extent.DEMO else ALL
    return Step("images", lambda: collection.is_prepared(dev), lambda: prepare(dev, collection))


def prepare(dev: DevRoot, collection: Collection) -> str:
    for program, package in NEEDED.items():
        if shutil.which(program) is None:
            raise Lacking(f"{program} is missing: apt-get install {package}")
    return f"built in {collection.prepared(dev)}"
