"""The job of a rank set whose other containers ask for CPUs, and what srun is told of its ranks."""

from __future__ import annotations

import pytest

from orlop import wellknown
from orlop.slurm.submit.limits import ask_of_options

from ..pods import SLURM as OURS
from ..pods import container, options_of, pod, spec_of

SHAPE = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "mincpus", "overcommit")


def rank_set(cpu="1", beside="2", init="", flags="", **notes):
    annotations = {OURS + name.replace("_", "-"): value for name, value in notes.items()}
    if flags:
        annotations[wellknown.SRUN_FLAGS] = flags
    others = [container({"cpu": beside}, name="log", restartPolicy="Always")] if beside else []
    others += [container({"cpu": init}, name="init")] if init else []
    main = container({"cpu": cpu} if cpu else {})
    return pod(main, annotations=annotations, initContainers=others)


def shape_of(one):
    found = options_of(one)
    return {name: found[name] for name in SHAPE if name in found}


def words_for_srun(one):
    return dict(spec_of(one).environment).get(wellknown.RANKS_ENV, "")


@pytest.mark.parametrize(
    ("asked", "shape", "words"),
    [
        (
            {"nodes": "2", "ntasks": "16"},
            {"nodes": "2", "ntasks": "20", "ntasks-per-node": "10"},
            "--ntasks=16 --ntasks-per-node=8 --cpus-per-task=1",
        ),
        (
            {"cpu": "4", "beside": "300m", "nodes": "2", "ntasks": "4"},
            {"nodes": "2", "ntasks": "18", "ntasks-per-node": "9"},
            "--ntasks=4 --ntasks-per-node=2 --cpus-per-task=4",
        ),
        (
            {"nodes": "2", "ntasks": "5"},
            {"nodes": "2", "ntasks": "10", "ntasks-per-node": "5"},
            "--ntasks=5 --cpus-per-task=1",
        ),
        (
            {"cpu": "", "nodes": "3"},
            {"nodes": "3", "ntasks": "9", "ntasks-per-node": "3"},
            "--ntasks-per-node=1 --cpus-per-task=1",
        ),
        (
            {"ntasks": "8", "ntasks_per_node": "4"},
            {"ntasks": "12", "ntasks-per-node": "6"},
            "--ntasks=8 --ntasks-per-node=4 --cpus-per-task=1",
        ),
        (
            {"nodes": "2", "ntasks": "16", "overcommit": "true"},
            {"nodes": "2", "ntasks": "6", "ntasks-per-node": "3"},
            "--ntasks=16 --cpus-per-task=1 --overcommit",
        ),
        (
            {"nodes": "2-3", "ntasks": "4"},
            {"nodes": "2-3", "ntasks": "8", "ntasks-per-node": "4"},
            "--ntasks=4 --cpus-per-task=1",
        ),
        (
            {"ntasks": "16", "overcommit": "true"},
            {"nodes": "1", "ntasks": "3", "ntasks-per-node": "3"},
            "--ntasks=16 --cpus-per-task=1 --overcommit",
        ),
        (
            {"nodes": "1", "ntasks": "2", "beside": "", "init": "8"},
            {"nodes": "1", "ntasks": "8", "ntasks-per-node": "8"},
            "--ntasks=2 --ntasks-per-node=2 --cpus-per-task=1",
        ),
        (
            {"nodes": "1", "ntasks": "2", "beside": "1", "init": "1"},
            {"nodes": "1", "ntasks": "3", "ntasks-per-node": "3"},
            "--ntasks=2 --ntasks-per-node=2 --cpus-per-task=1",
        ),
    ],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else value[:12],
)
def test_each_node_has_the_cpus_of_its_ranks_and_of_the_others(asked, shape, words):
    one = rank_set(**asked)
    assert shape_of(one) == shape
    assert words_for_srun(one) == words
    assert not spec_of(one).warnings


def test_where_slurm_chooses_the_nodes_the_first_has_room_for_the_others_beside_a_rank():
    one = rank_set(cpu="2", beside="3", ntasks="5")
    assert shape_of(one) == {"ntasks": "7", "cpus-per-task": "2", "mincpus": "6"}
    assert words_for_srun(one) == "--ntasks=5 --cpus-per-task=2"
    assert dict(spec_of(one).environment)[wellknown.SPARE_ENV] == "2"


@pytest.mark.parametrize(
    ("rank", "beside", "expected"),
    [("400Mi", "100Mi", "200M"), ("400Mi", "2000Mi", "400M"), ("", "600Mi", "100M")],
)
def test_memory_of_the_others_comes_with_their_cpus(rank, beside, expected):
    main = container({"cpu": "2", **({"memory": rank} if rank else {})})
    log = container({"cpu": "3", "memory": beside}, name="log")
    one = pod(main, log, annotations={OURS + "ntasks": "5"})  # 3 tasks are at least on each node
    assert options_of(one)["mem-per-cpu"] == expected
    one["metadata"]["annotations"][OURS + "mem-per-cpu"] = "7M"
    assert options_of(one)["mem-per-cpu"] == "7M"


def test_memory_that_nobody_asks_for_is_left_to_slurm():
    assert "mem-per-cpu" not in options_of(rank_set(ntasks="5"))


def test_a_set_of_one_rank_leaves_room_for_the_others_too():
    one = rank_set(mpi="none")
    assert shape_of(one) == {"ntasks": "3", "cpus-per-task": "1", "mincpus": "3"}
    assert words_for_srun(one) == "--ntasks=1 --cpus-per-task=1"


def test_other_containers_are_told_of_the_ranks_and_not_of_the_job():
    told = dict(spec_of(rank_set(cpu="2", nodes="2", ntasks="4")).environment)
    assert (told["SLURM_NTASKS"], told["SLURM_CPUS_PER_TASK"]) == ("4", "2")


def test_a_whole_node_must_only_have_enough():
    one = rank_set(nodes="2", ntasks="4", exclusive="true")
    expected = {"nodes": "2", "ntasks": "4", "ntasks-per-node": "2", "cpus-per-task": "1"}
    assert shape_of(one) == expected | {"mincpus": "4"}
    assert not words_for_srun(one)


@pytest.mark.parametrize(
    "asked",
    [
        {"nodes": "2", "ntasks": "4", "beside": ""},
        {"nodes": "2", "ntasks": "4", "beside": "0"},
        {"nodes": "1", "ntasks": "8", "beside": "", "init": "8"},
        {"nodes": "2", "ntasks": "4", "mincpus": "7"},
    ],
    ids=str,
)
def test_a_job_whose_ranks_leave_room_enough_is_as_it_was(asked):
    one = rank_set(**asked)
    assert shape_of(one)["ntasks"] == asked["ntasks"]
    assert not words_for_srun(one)


@pytest.mark.parametrize(("nodes", "ntasks", "each"), [("2", "5", "3"), ("2-3", "4", "2")])
def test_srun_need_not_warn_of_ranks_that_do_not_come_out_even(nodes, ntasks, each):
    one = rank_set(cpu="2", beside="", nodes=nodes, ntasks=ntasks)
    assert shape_of(one)["ntasks-per-node"] == each
    assert words_for_srun(one) == f"--ntasks={ntasks} --cpus-per-task=2"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"nodes": "2", "ntasks": "4", "gpus_per_task": "1"}, "gpus-per-task"),
        ({"nodes": "2", "ntasks": "4", "ntasks_per_socket": "1"}, "ntasks-per-socket"),
        ({"ntasks": "4", "distribution": "cyclic"}, "distribution"),
        ({"ntasks": "4", "flags": "-m cyclic"}, "distribution"),
    ],
    ids=str,
)
def test_what_slurm_cannot_be_asked_for_is_told(asked, why):
    one = rank_set(**asked)
    [warning] = spec_of(one).warnings
    assert warning.startswith("2 CPUs that containers beside the ranks ask for are not in the job")
    assert f"with --{why} Slurm" in warning
    assert shape_of(one)["ntasks"] == "4"


def test_limits_are_held_against_all_cpus_of_the_job():
    ask = ask_of_options(spec_of(rank_set(nodes="2", ntasks="16")).options)
    assert (ask.tres["cpu"], ask.tres["node"]) == (20, 2)
    assert ask_of_options([("nodes", "2"), ("ntasks-per-node", "4")]).tres["cpu"] == 8
