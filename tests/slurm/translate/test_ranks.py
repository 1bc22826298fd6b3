"""Which pods run a container once for every task, and what their jobs ask for."""

from __future__ import annotations

import pytest

from orlop.errors import ConfigError
from orlop.slurm.translate.ranks import RankSet, rank_set, tasks_per_node

from ..pods import SLURM as OURS
from ..pods import container, options_of, pod, spec_of


def annotated(**notes):
    return {OURS + name.replace("_", "-"): value for name, value in notes.items()}


@pytest.mark.parametrize(
    "asked",
    [
        {OURS + "ntasks": "2"},
        {OURS + "nodes": "2"},
        {OURS + "nodes": "2-4"},
        {OURS + "ntasks-per-node": "4"},
        {OURS + "flags": "-n 8"},
        {OURS + "mpi": "pmix"},
        {OURS + "ntasks": "2", OURS + "gang": "false"},
    ],
    ids=str,
)
def test_a_pod_that_asks_for_several_tasks_is_a_rank_set(asked):
    found = rank_set(pod(container(), annotations=asked))
    assert found is not None
    assert found.container == "main"


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {OURS + "ntasks": "1", OURS + "nodes": "1"},
        {OURS + "ntasks": "8", OURS + "mpi": "container"},
        {OURS + "ntasks": "8", "slurm-job.hpk.io/mpi-flags": "--bind-to none"},
        {OURS + "ntasks": "8", "slurm-job.knoc.io/mpi-flags": "true"},
        {"slurm-job.hpk.io/flags": "--ntasks=8"},
        {OURS + "ntasks": "8", OURS + "gang": "true"},
        {"slurmjob.slinky.slurm.net/min-nodes": "2"},
    ],
    ids=str,
)
def test_a_container_that_starts_its_tasks_itself_or_has_one_runs_once(asked):
    assert rank_set(pod(container(), annotations=asked)) is None


@pytest.mark.parametrize(
    "by",
    [
        {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}},
        {"spec": {"schedulingGroup": {"podGroupName": "g"}}},
    ],
    ids=["the plugin's group", "the built-in group"],
)
def test_a_member_of_a_pod_group_runs_once(by):
    made = pod(container(), annotations=annotated(ntasks="8"))
    for part, fields in by.items():
        made[part] |= fields
    assert rank_set(made) is None


@pytest.mark.parametrize(
    ("image", "notes", "launches"),
    [
        ("openmpi", {"nodes": "2"}, True),
        ("openmpi", {"nodes": "2-4", "ntasks": "8"}, True),
        ("openmpi", {"nodes": "1", "ntasks": "8"}, False),
        ("host", {"nodes": "2"}, False),
    ],
)
def test_an_image_that_starts_mpi_itself_on_several_nodes_is_given_an_srun(image, notes, launches):
    made = pod(container(), annotations=annotated(mpi="container", **notes))
    made["spec"]["containers"][0] |= {"image": image, "resources": {"requests": {"cpu": "3"}}}
    found = rank_set(made)
    assert (found is not None and found.launches) is launches
    assert options_of(made)["cpus-per-task"] == "3"
    if found is not None:
        assert found.planned("")["launches"]


@pytest.mark.parametrize(("nodes", "launches"), [(1, False), (2, True)])
def test_mpi_flags_of_earlier_systems_reach_as_many_nodes_as_their_flags_ask_for(nodes, launches):
    notes = {"slurm-job.knoc.io/flags": f"-N{nodes} -n 4", "slurm-job.knoc.io/mpi-flags": "-v"}
    found = rank_set(pod(container(), annotations=notes))
    assert (found is not None and found.launches) is launches


def test_the_rank_container_its_label_and_the_flags_of_srun_are_annotations():
    notes = annotated(
        ntasks="2", mpi="pmi2", mpi_container="b", label="true", srun_flags="-m 'cyclic'"
    )
    both = pod(container(name="a"), container(name="b"), annotations=notes)
    found = rank_set(both)
    assert found == RankSet("b", "pmi2", True, ("-m", "cyclic"))
    assert found.planned("pmix")["mpi"] == "pmi2"
    assert not any(name in spec_of(both).options for name in ("mpi-container", "label"))


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        ({"mpi_container": "x"}, "expected one of main"),
        ({"srun_flags": "hostname"}, "expected options"),
        ({"srun_flags": "--x='"}, "cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_was_expected(notes, words):
    with pytest.raises(ConfigError, match=words):
        rank_set(pod(container(), annotations=annotated(ntasks="2", **notes)))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"ntasks": "16", "nodes": "2"}, 8),
        ({"ntasks": "5", "nodes": "2"}, 3),
        ({"nodes": "3"}, 1),
        ({"ntasks-per-node": "4", "nodes": "2"}, 4),
        ({"ntasks": "16"}, None),
    ],
)
def test_how_many_tasks_a_node_has_at_most(asked, expected):
    assert tasks_per_node(asked) == expected


def test_each_rank_gets_what_its_container_asks_for_and_each_node_the_others_once():
    asked = pod(
        container({"cpu": "2", "memory": "100Mi"}),
        container({"memory": "50Mi"}, name="log"),
        annotations=annotated(ntasks="16", nodes="2"),
    )
    assert options_of(asked) == {
        "cpus-per-task": "2",
        "mem": "850M",
        "nodes": "2",
        "ntasks": "16",
        "ntasks-per-node": "8",
    }


def test_memory_goes_with_cpus_where_slurm_chooses_how_many_nodes():
    asked = pod(container({"cpu": "2", "memory": "100Mi"}), annotations=annotated(ntasks="16"))
    expected = {"cpus-per-task": "2", "mem-per-cpu": "50M", "ntasks": "16"}
    assert options_of(asked) == expected


def test_gpus_are_those_of_all_ranks_of_a_node():
    one = container({"nvidia.com/gpu": "1"})
    asked = pod(one, annotations=annotated(ntasks="8", nodes="2"))
    assert options_of(asked)["gres"] == "gpu:4"
    assert rank_set(asked).planned("")["gpus"] == 1


def test_gpus_go_with_tasks_where_slurm_chooses_how_many_nodes():
    asked = pod(container({"nvidia.com/gpu": "2"}), annotations=annotated(ntasks="8"))
    assert options_of(asked) == {"gpus-per-task": "2", "ntasks": "8"}


@pytest.mark.parametrize("option", ["gres", "gpus-per-node", "gpus"])
def test_gpus_in_slurms_words_are_for_slurm_to_deal(option):
    value = "gpu:4" if option == "gres" else "4"
    notes = annotated(ntasks="4", nodes="1", **{option: value})
    found = rank_set(pod(container({"nvidia.com/gpu": "1"}), annotations=notes))
    assert "gpus" not in found.planned("")


def test_a_container_that_starts_mpi_itself_gives_srun_no_such_type():
    spec = spec_of(pod(container(), annotations=annotated(mpi="container", ntasks="4")))
    assert "SLURM_MPI_TYPE" not in dict(spec.environment)
    assert spec.value("ntasks") == "4"
