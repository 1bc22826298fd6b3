"""Which GPUs a job has, and which of its containers sees which; with files for devices."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from orlop.agent.container.gpus import Gpus, dealt, driver_libraries, expanded, with_driver


@pytest.fixture
def node(tmp_path):
    """A node with files at these paths of its /dev."""

    def make(*names):
        for name in names:
            (tmp_path / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "dev" / name).touch()
        return tmp_path

    return make


def gpus_on(folder, containers=(), **environ):
    found = Gpus(environ, str(folder / "dev"), str(folder / "driver"), str(folder / "class"))
    found.deal(list(containers) or [one("c", 9)])
    return found


def one(name="c", gpus=0, *, init=False, policy="", rootfs="/image"):
    return SimpleNamespace(name=name, gpus=gpus, init=init, restart_policy=policy, rootfs=rootfs)


def bound(found, container):
    return sorted(bind.path for bind in found.binds(container))


NVIDIA = ("nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0", [0]), ("1,3", [1, 3]), ("0,2-4", [0, 2, 3, 4]), ("", []), ("GPU-ab", []), ("1-", [1])],
)
def test_numbers_are_read_as_slurm_writes_them(text, numbers):
    assert expanded(text) == numbers


def test_the_number_is_the_devices_even_where_programs_count_from_zero(node):
    found = gpus_on(node(*NVIDIA), SLURM_JOB_GPUS="2,3", CUDA_VISIBLE_DEVICES="0,1")
    expected = ["/dev/nvidia-uvm", "/dev/nvidia2", "/dev/nvidia3", "/dev/nvidiactl"]
    assert bound(found, one("c")) == expected
    assert found.variables(one("c"), True) == {"CUDA_VISIBLE_DEVICES": "0,1"}


def test_a_steps_own_count_more_than_its_jobs(node):
    found = gpus_on(node(*NVIDIA), SLURM_JOB_GPUS="0,1,2,3", SLURM_STEP_GPUS="3")
    assert "/dev/nvidia3" in bound(found, one("c"))
    assert "/dev/nvidia0" not in bound(found, one("c"))


def test_on_the_nodes_own_root_the_numbers_stay_the_jobs(node):
    found = gpus_on(node(*NVIDIA), SLURM_JOB_GPUS="2,3", CUDA_VISIBLE_DEVICES="2,3")
    assert found.variables(one("c", rootfs=""), False) == {"CUDA_VISIBLE_DEVICES": "2,3"}
    assert found.variables(one("c"), True) == {"CUDA_VISIBLE_DEVICES": "0,1"}


def test_without_slurms_word_the_order_of_the_bus_counts(node):
    folder = node(*NVIDIA)
    for bus, minor in (("0000:01:00.0", 3), ("0000:02:00.0", 1)):
        place = folder / "driver/gpus" / bus
        place.mkdir(parents=True)
        (place / "information").write_text(f"Model: \t\t X\nDevice Minor: \t {minor}\n")
    found = gpus_on(folder, CUDA_VISIBLE_DEVICES="1")
    assert "/dev/nvidia1" in bound(found, one("c"))
    assert "/dev/nvidia3" not in bound(found, one("c"))


def test_parts_of_gpus_keep_their_names_and_have_their_capabilities(node):
    files = ("nvidia0", "nvidiactl", "nvidia-caps/nvidia-cap12", "nvidia-caps/nvidia-cap13")
    found = gpus_on(node(*files), SLURM_JOB_GPUS="0", CUDA_VISIBLE_DEVICES="MIG-12ab")
    assert "/dev/nvidia-caps/nvidia-cap12" in bound(found, one("c"))
    assert found.variables(one("c"), True) == {"CUDA_VISIBLE_DEVICES": "MIG-12ab"}


@pytest.mark.parametrize(("number", "node_name"), [("1", "renderD129"), ("129", "renderD129")])
def test_amds_are_render_nodes(node, number, node_name):
    folder = node("kfd", "dri/renderD128", "dri/renderD129", "dri/card0", "dri/card1")
    (folder / "class/renderD129/device/drm/card1").mkdir(parents=True)
    found = gpus_on(folder, SLURM_JOB_GPUS=number, ROCR_VISIBLE_DEVICES=number)
    assert bound(found, one("c")) == ["/dev/dri/card1", f"/dev/dri/{node_name}", "/dev/kfd"]
    assert found.variables(one("c"), True) == {"ROCR_VISIBLE_DEVICES": "0"}


def test_a_container_without_gpus_is_told_that_there_are_none(node):
    asks, does_not = one("a", 1), one("b")
    found = gpus_on(node(*NVIDIA), [asks, does_not], SLURM_JOB_GPUS="1", CUDA_VISIBLE_DEVICES="0")
    assert bound(found, does_not) == []
    assert found.variables(does_not, True) == {"NVIDIA_VISIBLE_DEVICES": "void"}
    hidden = {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}
    assert found.variables(does_not, False) == hidden


def test_a_node_without_device_files_has_words_only(node):
    found = gpus_on(node(), SLURM_JOB_GPUS="1", CUDA_VISIBLE_DEVICES="1")
    assert bound(found, one("c")) == []
    assert found.variables(one("c"), True) == {"CUDA_VISIBLE_DEVICES": "1"}


def test_ranks_have_all_files_of_the_node_and_srun_tells_them_which_are_theirs(node):
    """A rank's own numbers count all of the node's, and the first rank's are not the others'."""
    folder = node(*NVIDIA)
    told = {"SLURM_STEP_GPUS": "2", "CUDA_VISIBLE_DEVICES": "2"}
    found = Gpus(told, str(folder / "dev"), str(folder / "driver"), str(folder / "class"))
    ranks = one("ranks", 1)
    found.deal([ranks], "ranks")
    assert bound(found, ranks) == sorted(f"/dev/{name}" for name in NVIDIA)
    assert found.variables(ranks, True) == {}
    none = Gpus({}, str(folder / "dev"), str(folder / "driver"), str(folder / "class"))
    none.deal([one("ranks")], "ranks")
    assert bound(none, one("ranks")) == []
    assert none.variables(one("ranks"), True) == {"NVIDIA_VISIBLE_DEVICES": "void"}


def test_ranks_leave_others_what_they_ask_for():
    containers = [one("beside", 1), one("ranks", 1)]
    found = dealt(containers, list("wxyz"), "ranks")
    assert {name: "".join(some) for name, some in found.items()} == {"ranks": "wxy", "beside": "z"}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([one("a", 2), one("b", 1)], {"a": "wx", "b": "y"}),
        ([one("a", 2), one("b")], {"a": "wx"}),
        ([one("i", 3, init=True), one("a", 3)], {"i": "wxy", "a": "wxy"}),
        ([one("s", 1, init=True, policy="Always"), one("a", 2)], {"s": "w", "a": "xy"}),
        ([one("a", 2), one("b", 2)], {"a": "wxy", "b": "wxy"}),
        ([one("a"), one("b")], None),
    ],
    ids=["each", "one-without", "init", "sidecar", "too-few", "nobody-asks"],
)
def test_gpus_are_dealt(containers, expected):
    found = dealt(containers, list("wxy"))
    assert expected == (found and {name: "".join(gpus) for name, gpus in found.items()})


def test_a_container_that_is_added_has_all_where_all_have_all(node):
    found = gpus_on(node(*NVIDIA), [one("a")], SLURM_JOB_GPUS="1")
    assert "/dev/nvidia1" in bound(found, one("later"))
    asked = gpus_on(node(*NVIDIA), [one("a", 1)], SLURM_JOB_GPUS="1")
    assert bound(asked, one("later")) == []


LISTING = """\
4 libs found in cache `/etc/ld.so.cache'
\tlibnvidia-ml.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1
\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1
\tlibcuda.so.1 (libc6) => /usr/lib/i386-linux-gnu/libcuda.so.1
\tlibcudart.so.12 (libc6,x86-64) => /opt/cuda/lib/libcudart.so.12
\tlibc.so.6 (libc6,x86-64, OS ABI: Linux 3.2.0) => /lib/x86_64-linux-gnu/libc.so.6
"""


def test_the_drivers_libraries_are_those_of_the_machine_and_of_the_driver_alone():
    folder = "/usr/lib/x86_64-linux-gnu"
    expected = {name: f"{folder}/{name}" for name in ("libnvidia-ml.so.1", "libcuda.so.1")}
    assert driver_libraries(LISTING, "x86_64") == expected
    assert driver_libraries(LISTING, "riscv64") == {}


def test_programs_find_the_driver_after_their_own():
    env = {"PATH": "/bin", "LD_LIBRARY_PATH": "/mine"}
    with_driver(env)
    with_driver(env)
    assert env["LD_LIBRARY_PATH"] == "/mine:/usr/local/nvidia/lib64"
    assert env["PATH"] == "/bin:/usr/local/nvidia/bin"
