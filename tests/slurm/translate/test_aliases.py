"""Annotations of HPK, KNoC, interLink and slurm-bridge, by what each meant there."""

from __future__ import annotations

import pytest

from orlop import wellknown
from orlop.errors import ConfigError
from orlop.settings import SlurmSettings
from orlop.slurm.translate import job

from ..pods import container, options_of, pod, site, spec_of

BRIDGE = "slurmjob.slinky.slurm.net/"


@pytest.mark.parametrize("alias", wellknown.FLAGS_ALIASES)
def test_raw_flags_of_earlier_systems_are_flags(alias):
    asked = pod(container(), annotations={alias: "--nodes=2 --ntasks-per-node=4 -p main"})
    assert options_of(asked) == {"nodes": "2", "ntasks-per-node": "4"}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("account", "chem", {"account": "chem"}),
        ("constraints", "ib", {"constraint": "ib"}),
        ("cpu-per-task", "4", {"cpus-per-task": "4"}),
        ("exclusive", "true", {"exclusive": None}),
        ("exclusive", "false", {}),
        ("gres", "gpu:1", {"gres": "gpu:1"}),
        ("licenses", "matlab:1", {"licenses": "matlab:1"}),
        ("mem-per-node", "4096", {"mem": "4096"}),
        ("min-nodes", "2", {"nodes": "2"}),
        ("max-nodes", "4", {"nodes": "1-4"}),
        ("priority", "10", {"priority": "10"}),
        ("qos", "high", {"qos": "high"}),
        ("reservation", "course", {"reservation": "course"}),
        ("timelimit", "90", {"time": "90"}),
        ("wckey", "w", {"wckey": "w"}),
    ],
)
def test_each_annotation_of_slurm_bridge_means_what_it_did_there(name, value, expected):
    assert options_of(pod(container(), annotations={BRIDGE + name: value})) == expected


def test_both_bounds_of_nodes_are_one_option():
    both = {BRIDGE + "min-nodes": "2", BRIDGE + "max-nodes": "4"}
    assert options_of(pod(container(), annotations=both)) == {"nodes": "2-4"}


def test_its_job_name_and_partition_are_taken():
    both = {BRIDGE + "job-name": "train", BRIDGE + "partition": "gpu"}
    spec = spec_of(pod(container(), annotations=both))
    assert (spec.value("job-name"), spec.value("partition")) == ("train", "gpu")


@pytest.mark.parametrize("name", ["user-id", "group-id", "of-tomorrow"])
def test_what_has_no_meaning_here_is_told_and_not_refused(name):
    spec = spec_of(pod(container(), annotations={BRIDGE + name: "1000"}))
    assert spec.warnings == (f"{BRIDGE}{name} has no meaning here and is ignored",)


@pytest.mark.parametrize("alias", wellknown.MPI_FLAGS_ALIASES)
def test_mpi_flags_start_the_command_under_mpiexec(alias):
    asked = pod(annotations={alias: "--bind-to core", "slurm.hpk.io/flags": "--ntasks=8"})
    assert job.mpi_launcher(asked) == ("mpiexec", "-np", "8", "--bind-to", "core")


@pytest.mark.parametrize(
    ("flags", "count"),
    [
        ("", "1"),
        ("--nodes=2 --ntasks-per-node=4", "8"),
        ("-N 3", "3"),
        ("--ntasks-per-node=4 -n 6", "6"),
    ],
)
def test_mpi_flags_start_as_many_as_the_job_has_tasks(flags, count):
    asked = pod(annotations={"slurm-job/mpi-flags": "", "slurm-job/flags": flags})
    assert job.mpi_launcher(asked) == ("mpiexec", "-np", count)


def test_mpi_flags_true_leave_the_command_alone():
    assert job.mpi_launcher(pod(annotations={"slurm-job.knoc.io/mpi-flags": "true"})) == ()
    assert job.mpi_launcher(pod()) == ()


def test_mpi_flags_that_cannot_be_read_are_told():
    with pytest.raises(ConfigError, match=r"mpi-flags: .* cannot be read"):
        job.mpi_launcher(pod(annotations={"slurm-job.knoc.io/mpi-flags": "'open"}))


def test_pre_exec_of_interlink_follows_the_sites_prologue():
    asked = pod(container(), annotations={"slurm-job.vk.io/pre-exec": "module load mpi"})
    settings = SlurmSettings(prologue="module load apptainer\n")
    assert spec_of(asked, site(settings)).prologue == "module load apptainer\nmodule load mpi"


@pytest.mark.parametrize(
    "annotations",
    [
        {"slurm-job.vk.io/singularity-options": "--nv"},
        {"interlink.eu/pod-ip": "10.0.0.1"},
        {"slurm-job.knoc.io/image-root": "/images"},
        {"example.com/other": "x"},
    ],
)
def test_annotations_of_others_change_nothing(annotations):
    assert options_of(pod(container(), annotations=annotations)) == {}
