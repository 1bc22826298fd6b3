"""An image never runs without its container: where none can be made, nothing is started."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

from orlop.agent.container.runtimes.native import Native
from orlop.agent.pod.sandbox import Sandbox


def test_an_image_without_namespaces_is_refused_in_words(tmp_path: Path) -> None:
    sandbox = Sandbox(1000, 1000, False, False, False, "user namespaces are not permitted")
    box = SimpleNamespace(
        folder=str(tmp_path), root="/images/a/rootfs", sandbox=sandbox, container=None
    )
    launch = Native().compose(box)
    child = os.fork()
    if child == 0:
        launch.body()  # ends the process, whatever comes of it
        os._exit(42)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    words = "an image cannot be had without a runtime: user namespaces are not permitted"
    assert Native().words(box, launch, "", b"") == words
    assert not Path(launch.pid_file).exists()
