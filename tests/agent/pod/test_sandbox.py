"""The sandbox: what it isolates, how ids are mapped, and life where the kernel forbids it."""

from __future__ import annotations

import os

import pytest

from orlop.agent.pod import sandbox

from ..pods import IS_ROOT, container

# In a user namespace of its own, where no other may be made: as on a site that forbids them.
DENIED = ("unshare", "--user", "--map-root-user", "sh", "-c",
          'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"', "sh")  # fmt: skip
# Part of /proc is hidden, as in a container of the site's: no other /proc may be mounted.
MASKED = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
          'mount -t tmpfs none /proc/scsi 2>/dev/null || mount -t tmpfs none /proc/fs;'
          'exec "$@"', "sh")  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alice:100000:65536\n", (100000, 65536)),
        ("bob:1:2\nalice:300000:10\nalice:400000:10\n", (300000, 10)),
        ("1000:500000:20\n", (500000, 20)),
        ("bob:100000:65536\n", None),
        ("alice:100000:0\n", None),
        ("nonsense\n\n", None),
    ],
    ids=["by name", "the first", "by number", "others", "empty range", "nonsense"],
)
def test_the_range_of_subordinate_ids_is_found(tmp_path, text, expected):
    path = tmp_path / "subuid"
    path.write_text(text)
    assert sandbox._range_of(str(path), ["1000", "alice"]) == expected


def test_without_the_file_there_is_no_range(tmp_path):
    assert sandbox._range_of(str(tmp_path / "none"), ["alice"]) is None


@pytest.mark.skipif(not IS_ROOT, reason="needs the two users of set-up")
def test_ids_are_a_range_with_subuids_and_one_without(run_pod, user):
    pod = run_pod(container(script="cat /proc/self/uid_map"), user=user)
    counts = [int(line.split()[2]) for line in pod.lines()]
    assert counts == ([1, 65536] if user == "orlop-test" else [1])


def test_files_of_many_owners_can_be_made_where_ids_are_mapped(run_pod):
    pod = run_pod(container(script="touch /x && chown 33:34 /x && stat -c %u:%g /x"))
    assert pod.lines() == ["33:34"]


def test_the_nodes_mounts_and_name_are_not_changed(run_pod):
    with open("/proc/self/mountinfo") as file:
        before = file.read()
    name = os.uname().nodename
    run_pod(container(script="mount -t tmpfs none /tmp; hostname"), runtime="host")
    with open("/proc/self/mountinfo") as file:
        assert file.read() == before
    assert os.uname().nodename == name


def test_where_namespaces_are_denied_the_nodes_own_root_still_works(run_pod):
    pod = run_pod(container(script="echo hi; exit 3"), runtime="host", prefix=DENIED)
    assert pod.lines() == ["hi"]
    assert pod.status()["exitCode"] == 3
    (condition,) = pod.records("condition")
    assert (condition["condition"], condition["status"]) == ("orlop.dev/Sandboxed", "False")
    assert condition["reason"] == "UserNamespacesDenied"
    assert "max_user_namespaces" in condition["message"]


def test_where_namespaces_are_denied_what_needs_them_says_so(run_pod):
    volume = {"name": "v", "kind": "emptyDir"}
    mounted = container(mounts=[{"volume": "v", "path": "/v"}])
    for pod in (
        run_pod(mounted, runtime="host", volumes=[volume], prefix=DENIED),
        run_pod(container(), runtime="crun", prefix=DENIED),
    ):
        assert pod.status()["reason"] == "StartError"
        assert "user namespaces are not permitted on this node" in pod.status()["message"]


def test_where_namespaces_are_denied_nothing_is_left_behind(run_pod):
    mark = f"77.{os.getpid()}"
    script = f"setsid sleep {mark} & setsid sh -c 'sleep {mark} & sleep {mark}' & sleep 0.3"
    pod = run_pod(container(script=script), runtime="host", prefix=DENIED)
    assert pod.code == 0
    assert _processes(f"sleep\0{mark}\0") == []


def test_where_proc_is_masked_containers_run_without_process_numbers_of_their_own(run_pod):
    for runtime in ("crun", "native", "host"):
        pod = run_pod(
            container(script="echo hi"), runtime=runtime, prefix=MASKED, user="orlop-plain"
        )
        assert pod.lines() == ["hi"], pod.records()


def _processes(words):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline") as file:
                    line = file.read()
            except OSError:
                continue
            if words in line:
                found.append(int(name))
    return found
