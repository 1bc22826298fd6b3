"""Volumes as containers see them, in every runtime."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from .pods import container, files, give

EMPTY = {"name": "v", "kind": "emptyDir"}


@pytest.fixture
def folder():
    """A folder of the node that any user may write to."""
    with tempfile.TemporaryDirectory(prefix="orlop-host-", dir="/tmp") as path:
        os.chmod(path, 0o777)
        yield Path(path)


def host_path(path, kind=""):
    return {"name": "v", "kind": "hostPath", "path": str(path), "type": kind}


def mounted(script, *mounts, **more):
    found = [{"volume": volume, "path": path, **options} for volume, path, options in mounts]
    return container(script=script, mounts=found, **more)


def test_a_host_path_is_read_and_written_in_place(run_pod, runtime, folder):
    (folder / "in").write_text("from the node\n")
    pod = run_pod(
        mounted("cat /data/in; echo from the pod > /data/out", ("v", "/data", {})),
        runtime=runtime,
        volumes=[host_path(folder)],
    )
    assert pod.lines() == ["from the node"]
    assert (folder / "out").read_text() == "from the pod\n"


def test_what_a_container_writes_as_root_belongs_to_the_user(run_pod, runtime, folder):
    who = {"uid": 0, "gid": 0}
    pod = run_pod(
        mounted("touch /data/mine", ("v", "/data", {}), user=who),
        runtime=runtime,
        volumes=[host_path(folder)],
    )
    assert (folder / "mine").owner() == pod.user


def test_a_host_path_may_be_a_file(run_pod, runtime, folder):
    (folder / "conf").write_text("setting\n")
    pod = run_pod(
        mounted("cat /etc/app.conf", ("v", "/etc/app.conf", {"readOnly": True})),
        runtime=runtime,
        volumes=[host_path(folder / "conf", "File")],
    )
    assert pod.lines() == ["setting"]


def test_a_folder_of_the_node_is_made_where_asked_for(run_pod, folder):
    give(folder, "orlop-test")
    run_pod(
        mounted("touch /data/x", ("v", "/data", {})),
        volumes=[host_path(folder / "new/deep", "DirectoryOrCreate")],
    )
    assert (folder / "new/deep/x").exists()


def test_memory_volumes_are_in_memory_and_limited(run_pod, runtime):
    script = (
        "grep ' /m ' /proc/mounts | cut -d' ' -f3;"
        "head -c 900k /dev/zero > /m/a && echo fits; head -c 900k /dev/zero > /m/b || echo full"
    )
    pod = run_pod(
        mounted(script, ("v", "/m", {})),
        runtime=runtime,
        volumes=[{**EMPTY, "medium": "Memory", "sizeLimit": 1 << 20}],
    )
    lines = [line for line in pod.lines() if not line.startswith("head:")]
    assert lines == ["tmpfs", "fits", "full"]


def test_a_sub_path_is_a_part_of_the_volume(run_pod, runtime):
    pod = run_pod(
        mounted("cat /p/note; ls /whole", ("v", "/p", {"subPath": "a/b"}), ("v", "/whole", {})),
        init=[mounted("echo x > /p/note", ("v", "/p", {"subPath": "a/b"})) | {"name": "i"}],
        runtime=runtime,
        volumes=[EMPTY],
    )
    assert pod.lines() == ["x", "a"]


def test_a_sub_path_of_files_is_one_file(run_pod, runtime):
    pod = run_pod(
        mounted("cat /etc/one.conf; ls /etc/one.conf", ("v", "/etc/one.conf", {"subPath": "b"})),
        runtime=runtime,
        volumes=[files("v", a="A\n", b="B\n")],
    )
    assert pod.lines() == ["B", "/etc/one.conf"]


def test_a_link_laid_by_a_container_leads_no_sub_path_out(run_pod):
    pod = run_pod(
        mounted("ls /p", ("v", "/p", {"subPath": "way"})),
        init=[mounted("ln -s / /all/way", ("v", "/all", {})) | {"name": "i"}],
        volumes=[EMPTY],
    )
    assert pod.status()["reason"] == "StartError"
    assert "symbolic link" in pod.status()["message"]


def test_all_users_of_a_pod_may_write_to_its_empty_dir(run_pod, runtime, user):
    who = {"uid": 4321, "gid": 4321}
    pod = run_pod(
        mounted("touch /v/x && id -u", ("v", "/v", {}), user=who),
        runtime=runtime,
        user=user,
        volumes=[EMPTY],
    )
    assert pod.lines() == ["4321"]


def test_a_volume_may_cover_what_the_pod_provides(run_pod, runtime):
    pod = run_pod(
        mounted("cat /etc/hosts", ("v", "/etc/hosts", {"subPath": "hosts"})),
        runtime=runtime,
        volumes=[files("v", hosts="10.0.0.1 mine\n")],
    )
    assert pod.lines() == ["10.0.0.1 mine"]


def test_an_image_path_behind_a_link_is_mounted_inside_the_image(run_pod, stage):
    for runtime in ("crun", "apptainer", "native"):
        image = stage.rootfs("orlop-test")
        link = image / "var"
        if not link.is_symlink():
            link.symlink_to("/opt")
        pod = run_pod(
            mounted("cat /opt/data/key", ("v", "/var/data", {})),
            runtime=runtime,
            volumes=[files("v", key="k\n")],
        )
        assert pod.lines() == ["k"], pod.records()


def test_the_nodes_root_gets_mount_points_it_does_not_have(run_pod, user):
    mounts = [("v", path, {}) for path in ("/fresh", "/usr/fresh/deep", "/etc/fresh", "/dev/fresh")]
    script = (
        "for p in /fresh /usr/fresh/deep /etc/fresh /dev/fresh; do ls $p; done; ls /usr/bin/env"
    )
    pod = run_pod(
        mounted(script, *mounts), runtime="host", user=user, volumes=[files("v", key="k")]
    )
    assert pod.lines() == ["key"] * 4 + ["/usr/bin/env"]
    assert not Path("/fresh").exists()


def test_two_mounts_beside_each_other_below_a_new_folder_of_the_node(run_pod):
    mounts = [("v", "/usr/new/a", {}), ("v", "/usr/new/b", {}), ("v", "/usr/new/a/key2", {})]
    pod = run_pod(
        mounted("cat /usr/new/a/key /usr/new/b/key; ls -d /usr/new/a/key2", *mounts[:2]),
        runtime="host",
        volumes=[files("v", key="k\n")],
    )
    assert pod.lines()[:2] == ["k", "k"]


def test_files_with_strange_names_are_mounted(run_pod, runtime, folder):
    strange = folder / 'a,b:c "d" \\e =f'
    strange.mkdir()
    (strange / "x").write_text("found\n")
    os.chmod(strange, 0o777)
    pod = run_pod(
        mounted("cat '/data, \"x\":y/x'", ("v", '/data, "x":y', {})),
        runtime=runtime,
        volumes=[host_path(strange)],
    )
    assert pod.lines() == ["found"]


# Overlays upon overlays: the kernel stacks no third, so the agent can lay none over this image.
STACKED = (
    "unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
    """
    d=$(mktemp -d) && mount -t tmpfs none $d && cd $d && mkdir u1 w1 m1 u2 w2
    mount -t overlay none -o lowerdir=$1,upperdir=u1,workdir=w1,userxattr m1 &&
    mount -t overlay none -o lowerdir=m1,upperdir=u2,workdir=w2,userxattr $1 || exit 99
    shift; exec "$@"
    """, "sh",
)  # fmt: skip


@pytest.mark.parametrize("runtime", ["crun", "apptainer", "native"])
def test_where_no_overlay_can_be_had_the_image_is_copied(run_pod, stage, runtime):
    image = stage.rootfs("orlop-plain")
    pod = run_pod(
        container(script="touch /written && echo wrote; grep -c ' / overlay' /proc/mounts"),
        user="orlop-plain",
        runtime=runtime,
        prefix=(*STACKED, str(image)),
    )
    assert pod.lines() == ["wrote", "0"], pod.records()
    assert not (image / "written").exists()


def test_a_volume_over_its_limit_ends_the_pod_in_upstreams_words(run_pod, runtime):
    pod = run_pod(
        mounted("head -c 3000000 /dev/zero > /v/big; sleep 60", ("v", "/v", {})),
        runtime=runtime,
        volumes=[{**EMPTY, "sizeLimit": 1 << 20, "limit": "1Mi"}],
    )
    last = pod.records()[-1]
    words = 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". '
    assert (last["phase"], last["reason"], last["message"]) == ("Failed", "Evicted", words)
    assert [record["reason"] for record in pod.records("event")].count("Evicted") == 1


def test_a_folder_of_a_claim_keeps_what_a_pod_wrote(run_pod, folder, runtime):
    give(folder, "orlop-test")
    data = folder / "claim" / "data"
    data.mkdir(parents=True)
    for path in (data.parent, data):
        give(path, "orlop-test")
    claim = {"name": "v", "kind": "folder", "path": str(data)}
    run_pod(mounted("echo kept > /v/note", ("v", "/v", {})), runtime=runtime, volumes=[claim])
    again = {**claim, "readOnly": True}
    script = "cat /v/note; touch /v/x 2>/dev/null || echo read-only"
    pod = run_pod(mounted(script, ("v", "/v", {})), runtime=runtime, volumes=[again])
    assert pod.lines() == ["kept", "read-only"]


@pytest.mark.parametrize(
    ("asked", "says"), [("Enabled", "refused"), ("IfPossible", "refused"), ("", "done")]
)
def test_what_is_mounted_below_is_read_only_where_asked(run_pod, asked, says):
    tries = "touch /d/shm/orlop-$HOSTNAME 2>/dev/null && echo done || echo refused"
    script = f"{tries}; rm -f /d/shm/orlop-$HOSTNAME 2>/dev/null"
    options = {"readOnly": True, "recursiveReadOnly": asked}
    pod = run_pod(mounted(script, ("v", "/d", options)), volumes=[host_path("/dev")])
    assert pod.lines() == [says]


@pytest.mark.parametrize("runtime", ["apptainer", "native", "host"])
def test_every_runtime_makes_it_read_only(run_pod, runtime):
    script = "touch /d/shm/x 2>/dev/null && echo done || echo refused"
    options = {"readOnly": True, "recursiveReadOnly": "Enabled"}
    pod = run_pod(
        mounted(script, ("v", "/d", options)), runtime=runtime, volumes=[host_path("/dev")]
    )
    assert pod.lines() == ["refused"]


def test_huge_pages_that_a_node_does_not_have_are_refused_in_words(run_pod):
    volume = {**EMPTY, "medium": "HugePages-512Mi"}
    pod = run_pod(mounted("true", ("v", "/d", {})), volumes=[volume])
    (end,) = pod.records("finished")
    assert end["reason"] == "FailedMount"
    assert "no huge pages of 512Mi mounted" in end["message"]
