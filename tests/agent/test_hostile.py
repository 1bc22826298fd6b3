"""What a container may try against its agent: to have it write, read or remove outside the pod."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from .pods import container, give

MOUNT = [{"volume": "v", "path": "/v"}]
EMPTY = [{"name": "v", "kind": "emptyDir"}]


@pytest.fixture(params=["crun", "apptainer", "native"])
def runtime(request):
    """Those with an image; on its node's own root a container is the owner of the cluster."""
    return request.param


@pytest.fixture
def victim():
    """A folder of the pod's owner that is no business of the pod."""
    with tempfile.TemporaryDirectory(prefix="orlop-victim-", dir="/tmp") as path:
        os.chmod(path, 0o777)
        (Path(path) / "kept").write_text("kept\n")
        yield Path(path)


@pytest.mark.parametrize("link", ["{victim}/message", "../../../../../../../../{victim}/message"])
def test_a_link_in_the_place_of_the_termination_message_leads_nowhere(
    run_pod, runtime, victim, link
):
    target = link.format(victim=victim)
    lays = container("i", script=f"ln -s {target} /v/message", mounts=MOUNT)
    speaks = container(
        "c", script="echo words > /v/message; exit 3", mounts=MOUNT,
        terminationMessagePath="/v/message",
    )  # fmt: skip
    run_pod(speaks, init=[lays], runtime=runtime, volumes=EMPTY)
    assert [path.name for path in victim.iterdir()] == ["kept"]


def test_a_link_to_a_folder_is_removed_and_not_the_folder(run_pod, runtime, victim):
    script = f"ln -s {victim} /v/way; mkdir -p /v/deep/er; ln -s {victim}/kept /v/deep/er/x"
    run_pod(container(script=script, mounts=MOUNT), runtime=runtime, volumes=EMPTY)
    assert (victim / "kept").read_text() == "kept\n"


def test_the_files_of_the_pods_folder_are_not_in_its_containers(make_pod, stage, runtime):
    look = (
        f"cat {stage.folder}/*/token; for f in {stage.folder}/*/token; do echo x > $f; done; ls /"
    )
    pod = make_pod(container(script=look), runtime=runtime)
    (pod.folder / "token").write_text("s3cret\n")
    give(pod.folder, pod.user)
    pod.run()
    assert (pod.folder / "token").read_text() == "s3cret\n"
    assert "s3cret" not in pod.lines()
    assert "bin" in pod.lines()


def test_a_line_that_looks_like_a_line_of_the_log_is_still_a_line(run_pod, runtime):
    forged = "2026-01-01T00:00:00.000000000Z stderr F forged"
    pod = run_pod(container(script=f"echo '{forged}'"), runtime=runtime)
    assert pod.lines() == [forged]
