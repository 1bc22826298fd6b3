"""How much a volume holds, and what becomes of the pod that holds too much."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from orlop.agent.pod.disk_limits import Watch, bytes_in, is_watched

from ..pods import container


def test_a_folder_is_counted_as_du_counts(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"x" * 1_000_000)
    os.link(tmp_path / "a/b/file", tmp_path / "a/same")
    (tmp_path / "a/out").symlink_to("/usr")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert 1_000_000 <= bytes_in(str(tmp_path)) < 1_200_000


def test_files_without_contents_count_too(tmp_path):
    """Otherwise a pod could take all inodes of a disk, and be within its limit."""
    for number in range(1000):
        (tmp_path / f"f{number}").touch()
    assert bytes_in(str(tmp_path)) >= 256_000


def test_what_is_gone_counts_nothing(tmp_path):
    assert bytes_in(str(tmp_path / "gone")) == 0


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"kind": "emptyDir", "sizeLimit": 5}, True),
        ({"kind": "emptyDir", "sizeLimit": None}, False),
        ({"kind": "emptyDir", "medium": "Memory", "sizeLimit": 5}, False),
        ({"kind": "hostPath"}, False),
    ],
)
def test_only_limits_on_disk_are_watched(volume, expected):
    assert is_watched(volume) is expected


MIB = 1 << 20


def limit(mib):
    return {"limit": mib * MIB, "words": f"{mib}Mi"} if mib else {}


def excess(folder, *, pod=0, a=0, b=0, sizes):
    """What a watch finds in a pod of two containers and a volume that wrote so many MiB."""
    places = {"a": "layers/a-0", "old a": "layers/a-1", "a-1": "layers/a-1-0", "log": "logs/a",
              "b": "layers/b-0", "v": "v"}  # fmt: skip
    for place in places.values():
        (folder / place).mkdir(parents=True, exist_ok=True)
    for name, mib in sizes.items():
        (folder / places[name] / "file").write_bytes(b"x" * mib * MIB)
    containers = [SimpleNamespace(name=n, storage=limit(m)) for n, m in (("a", a), ("b", b))]
    volumes = [{"name": "v", "kind": "emptyDir", "medium": ""}]
    whole = SimpleNamespace(storage=limit(pod))
    plan = SimpleNamespace(containers=containers, volumes=volumes, pod=whole)
    found = SimpleNamespace(path=lambda name: str(folder / name))
    return Watch(plan, found, str(folder / "layers"), str(folder / "logs"), print).excess()


@pytest.mark.parametrize(
    ("limits", "sizes", "words"),
    [
        ({"a": 2}, {"a": 1}, ""),
        ({"a": 2}, {"a": 3}, 'Container a exceeded its local ephemeral storage limit "2Mi". '),
        ({"a": 2}, {"a": 1, "old a": 1, "log": 1},
         'Container a exceeded its local ephemeral storage limit "2Mi". '),
        ({"a": 2}, {"b": 5, "v": 5, "a-1": 5}, ""),
        ({"a": 4, "pod": 4}, {"a": 2, "b": 2, "v": 1},
         "Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. "),
        ({"a": 4, "pod": 6}, {"a": 2, "b": 2, "v": 1}, ""),
    ],
    ids=["within", "over", "with-log-and-runs", "others'", "the-pod", "the-pod-within"],
)  # fmt: skip
def test_what_containers_keep_is_held_against_their_limits(tmp_path, limits, sizes, words):
    assert excess(tmp_path, **limits, sizes=sizes) == words


@pytest.mark.parametrize("runtime", ["crun", "apptainer", "native"])
def test_a_container_that_writes_too_much_is_evicted(run_pod, runtime):
    script = "head -c 3m /dev/zero > /big; exec sleep 60"
    limited = container(script=script, storage={"limit": MIB, "words": "1Mi"})
    pod = run_pod(limited, runtime=runtime)
    (end,) = pod.records("finished")
    assert (end["phase"], end["reason"]) == ("Failed", "Evicted")
    assert end["message"] == 'Container c exceeded its local ephemeral storage limit "1Mi". '


def test_a_pod_that_asks_for_more_than_is_free_does_not_begin(run_pod):
    pod = run_pod(container(script="echo x"), spec={"storage": {"request": 1 << 60}})
    (end,) = pod.records("finished")
    assert end["reason"] == "OutOfephemeral-storage"
    assert f"ephemeral-storage, requested: {1 << 60}, used: " in end["message"]
    assert pod.lines() == []
