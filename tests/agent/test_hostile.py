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


def test_nothing_that_the_agent_has_open_is_open_in_a_container(run_pod, runtime):
    look = "for f in /proc/1/fd/*; do readlink $f; done"
    pod = run_pod(container(script=look), runtime=runtime)
    assert len(pod.lines()) >= 3
    for line in pod.lines():
        is_stream = line.startswith(("pipe:", "/dev/null", "/dev/pts")) or line == "/bin/busybox"
        assert is_stream or line.startswith("/proc"), pod.lines()


ENV_FILE = [{"name": "WORD", "volume": "v", "path": "env", "key": "KEY"}]


@pytest.mark.parametrize(
    ("lays", "words"),
    [
        ("ln -s {victim}/env /v/env", "leads out of the volume"),
        ("ln -s ../../../../../../../../{victim}/env /v/env", "leads out of the volume"),
        ("ln -s /proc/self/environ /v/env", "leads out of the volume"),
        ("mkfifo /v/env", "not a regular file"),
        ("ln -s /proc/1/fd/1 /v/env", "leads out of the volume"),
    ],
    ids=["absolute", "upwards", "its-environment", "pipe", "descriptor"],
)
def test_a_file_of_variables_is_read_in_its_volume_or_not_at_all(run_pod, victim, lays, words):
    (victim / "env").write_text("KEY='s3cret'\n")
    first = container("i", script=lays.format(victim=victim), mounts=MOUNT)
    reads = container("c", script="echo got $WORD", mounts=MOUNT, envFiles=ENV_FILE)
    pod = run_pod(reads, init=[first], volumes=EMPTY, spec={"activeDeadlineSeconds": 10})
    assert pod.lines() == []
    said = " ".join(str(record) for record in pod.records())
    assert words in said
    assert "s3cret" not in said


def test_logs_of_any_size_and_bytes_stay_one_file(run_pod, runtime):
    script = "printf 'a\\0b\\033[2J\\n'; head -c 300000 /dev/zero | tr '\\0' x; echo; echo last"
    pod = run_pod(container("c", script=script), runtime=runtime)
    assert pod.lines()[-1] == "last"
    assert sorted(path.name for path in (pod.folder / "logs/c").iterdir()) == ["0.log"]
    assert sorted(path.name for path in (pod.folder / "logs").iterdir()) == ["c"]
