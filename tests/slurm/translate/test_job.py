"""From pods to jobs: every rule of slurm/translate/job.py's docstring."""

from __future__ import annotations

import math

import pytest

from orlop.errors import ConfigError
from orlop.settings import SlurmSettings
from orlop.slurm.translate import job

from ..pods import SLURM, container, options_of, pod, site, spec_of

GPU = {"nvidia.com/gpu": "2"}


def annotated(**options: str):
    return {SLURM + name.replace("_", "-"): value for name, value in options.items()}


# What every job has


def test_a_job_carries_the_pods_name_and_is_found_again_by_its_comment():
    spec = spec_of(pod(container()))
    assert spec.value("job-name") == "default/web-1"
    assert spec.value("comment") == "orlop:c0ffee:6f1c"
    assert job.pod_uid_of("orlop:c0ffee:6f1c", "c0ffee") == "6f1c"


@pytest.mark.parametrize("comment", ["", "orlop:other:6f1c", "my job", "orlop:c0ffee"])
def test_jobs_that_are_not_ours_have_no_pod(comment):
    assert job.pod_uid_of(comment, "c0ffee") == ""


def test_a_job_writes_into_the_pods_folder_and_brings_no_environment():
    found = dict(spec_of(pod(container())).options)
    assert found["output"] == "/home/ann/pod/slurm.out"
    assert found["chdir"] == "/home/ann/pod"
    assert found["open-mode"] == "append"
    assert found["export"] == "NIL"


def test_a_job_is_requeued_only_if_asked():
    assert "no-requeue" in dict(spec_of(pod(container())).options)
    asked = dict(spec_of(pod(container(), annotations=annotated(requeue="true"))).options)
    assert "requeue" in asked
    assert "no-requeue" not in asked


def test_a_pod_may_be_requeued_though_the_flags_of_every_job_say_no():
    where = site(SlurmSettings(flags=["--no-requeue"]))
    asked = dict(spec_of(pod(container(), annotations=annotated(requeue="true")), where).options)
    assert "requeue" in asked
    assert "no-requeue" not in asked


def test_the_partition_is_the_node_it_is_bound_to():
    assert spec_of(pod(container())).value("partition") == "main"


def test_a_partition_in_the_settings_flags_does_not_override_the_node():
    settings = SlurmSettings(flags=["--partition=elsewhere", "--nice=5"])
    found = spec_of(pod(container()), site(settings))
    assert (found.value("partition"), found.value("nice")) == ("main", "5")


def test_a_partition_that_the_pod_names_is_taken_at_its_word():
    asked = pod(container(), annotations=annotated(partition="gpu,gpu-long"))
    assert spec_of(asked).value("partition") == "gpu,gpu-long"
    assert job.requested_partition(asked) == "gpu,gpu-long"
    assert job.requested_partition(pod(container())) == ""
    assert job.requested_partition(pod(annotations=annotated(flags="-p x"))) == "x"


# Resources


def test_cpu_and_memory_become_cpus_per_task_and_mem():
    found = options_of(pod(container({"cpu": "1500m", "memory": "1G"})))
    assert found == {"cpus-per-task": "2", "mem": "954M"}


def test_a_pod_that_asks_for_nothing_leaves_slurms_defaults():
    assert options_of(pod(container())) == {}


def test_gpus_become_gres():
    assert options_of(pod(container(GPU))) == {"gres": "gpu:2"}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (annotated(gres="nvme:1"), {"gres": "gpu:2,nvme:1"}),
        (annotated(gres="gpu:a100:4"), {"gres": "gpu:a100:4"}),
        (annotated(gres="gres/gpu:1,nvme:1"), {"gres": "gres/gpu:1,nvme:1"}),
        (annotated(gpus="4"), {"gpus": "4"}),
        (annotated(gpus_per_node="a100:2"), {"gpus-per-node": "a100:2"}),
    ],
)
def test_gpus_give_way_to_gpus_in_slurms_words_and_join_other_gres(annotations, expected):
    assert options_of(pod(container(GPU), annotations=annotations)) == expected


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (annotated(mem="9G"), {"cpus-per-task": "1", "mem": "9G"}),
        (annotated(mem_per_cpu="2G"), {"cpus-per-task": "1", "mem-per-cpu": "2G"}),
        (annotated(cpus_per_task="4"), {"cpus-per-task": "4", "mem": "1024M"}),
        (annotated(cpus_per_gpu="4"), {"cpus-per-gpu": "4", "mem": "1024M"}),
        (annotated(flags="-c 3"), {"cpus-per-task": "3", "mem": "1024M"}),
    ],
)
def test_what_a_pod_says_in_slurms_words_is_stronger_than_its_requests(annotations, expected):
    asked = pod(container({"cpu": "1", "memory": "1Gi"}), annotations=annotations)
    assert options_of(asked) == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--mem-per-cpu=1G", "-c9"], {"mem": "1024M", "cpus-per-task": "1"}),
        (["--mem=1G"], {"mem": "1024M", "cpus-per-task": "1"}),
    ],
)
def test_requests_are_stronger_than_the_flags_of_every_job(flags, expected):
    asked = pod(container({"cpu": "1", "memory": "1Gi"}))
    assert options_of(asked, site(SlurmSettings(flags=flags))) == expected


def test_flags_of_every_job_hold_where_the_pod_says_nothing():
    flags = site(SlurmSettings(flags=["--mem-per-cpu=1G", "--gres=gpu:1,nvme:1"]))
    assert options_of(pod(container()), flags) == {"mem-per-cpu": "1G", "gres": "gpu:1,nvme:1"}
    assert options_of(pod(container(GPU)), flags)["gres"] == "gpu:2,nvme:1"
    mem = annotated(mem="5G")
    assert options_of(pod(container(), annotations=mem), flags)["mem"] == "5G"
    assert "mem-per-cpu" not in options_of(pod(container(), annotations=mem), flags)


# Features


def test_a_node_selector_on_features_becomes_a_constraint():
    selector = {"feature.slurm.orlop.dev/ib": "true", "feature.slurm.orlop.dev/amd": "true"}
    assert options_of(pod(container(), nodeSelector=selector)) == {"constraint": "amd&ib"}


def test_it_is_joined_with_a_constraint_of_the_pods_own():
    asked = pod(
        container(),
        annotations=annotated(constraint="rome"),
        nodeSelector={"feature.slurm.orlop.dev/ib": "true", "kubernetes.io/os": "linux"},
    )
    assert options_of(asked) == {"constraint": "rome&ib"}


@pytest.mark.parametrize("constraint", ["a|b", "[rack1|rack2]", "(a|b)", "a*2"])
def test_a_constraint_with_alternatives_cannot_be_joined(constraint):
    asked = pod(
        container(),
        annotations=annotated(constraint=constraint),
        nodeSelector={"feature.slurm.orlop.dev/ib": "true"},
    )
    with pytest.raises(ConfigError, match="write them all as one constraint"):
        spec_of(asked)


def test_a_feature_has_the_value_true_only():
    with pytest.raises(ConfigError, match=r"expected \"true\".*found 'false'"):
        spec_of(pod(container(), nodeSelector={"feature.slurm.orlop.dev/ib": "false"}))


# Time


@pytest.mark.parametrize(
    ("deadline", "grace", "annotations", "limits", "time"),
    [
        (90, 30, {}, {}, "00:02:00"),
        (3600, 0, {}, {}, "01:00:00"),
        (3600, None, {}, {}, "01:01:00"),
        (3600, 0, annotated(time="30"), {}, "30"),
        (600, 0, annotated(time="30"), {}, "00:10:00"),
        (600, 0, annotated(time="UNLIMITED"), {}, "00:10:00"),
        (86400, 0, {}, {"max_time": 300.0}, "00:05:00"),
        (86400, 0, {}, {"max_time": math.inf}, "1-00:00:00"),
        (None, 0, annotated(time="1-0"), {}, "1-0"),
        (None, 0, {}, {"max_time": 300.0}, None),
    ],
)
def test_the_shorter_of_deadline_and_time_holds(deadline, grace, annotations, limits, time):
    fields = {"activeDeadlineSeconds": deadline, "terminationGracePeriodSeconds": grace}
    asked = pod(container(), annotations=annotations, **fields)
    assert spec_of(asked, site(**limits)).value("time") == time


def test_a_time_that_is_none_is_told():
    with pytest.raises(ConfigError, match="soon"):
        spec_of(pod(container(), annotations=annotated(time="soon")))


@pytest.mark.parametrize(
    ("grace", "annotations", "facts", "signal"),
    [
        (30, annotated(time="60"), {"kill_wait": 30.0}, None),
        (60, annotated(time="60"), {"kill_wait": 30.0}, "B:TERM@90"),
        (600, annotated(time="60"), {"kill_wait": 30.0}, "B:TERM@630"),
        (3600, annotated(time="60"), {"kill_wait": 30.0}, "B:TERM@900"),
        (60, annotated(time="5"), {"kill_wait": 5.0}, None),
        (60, {}, {"kill_wait": 5.0}, None),
        (60, {}, {"kill_wait": 5.0, "default_time": 60.0}, None),
        (60, {}, {"kill_wait": 5.0, "default_time": 600.0, "max_time": 60.0}, "B:TERM@90"),
        (60, {}, {"kill_wait": 5.0, "max_time": math.inf}, None),
        (60, {}, {"kill_wait": 5.0, "max_time": 600.0}, "B:TERM@90"),
        (60, annotated(time="UNLIMITED"), {"kill_wait": 5.0}, None),
    ],
)
def test_the_agent_is_told_in_time_where_slurm_alone_would_not_wait(
    grace, annotations, facts, signal
):
    asked = pod(container(), annotations=annotations, terminationGracePeriodSeconds=grace)
    assert spec_of(asked, site(**facts)).value("signal") == signal


@pytest.mark.parametrize(
    ("asked", "signal"), [({}, None), ({"ntasks": "2"}, "B:TERM@60")], ids=["alone", "ranks"]
)
def test_hooks_of_ranks_run_before_slurm_signals_them_itself(asked, signal):
    main = container() | {"lifecycle": {"preStop": {"exec": {"command": ["true"]}}}}
    spec = spec_of(pod(main, annotations=annotated(time="60", **asked)), site(kill_wait=30.0))
    assert spec.value("signal") == signal


@pytest.mark.parametrize(
    ("grace", "told"), [(5, "30"), (30, "30"), (60, None)], ids=["short", "default", "early signal"]
)
def test_the_agent_knows_how_long_slurm_waits_unless_it_is_signalled_early(grace, told):
    asked = pod(container(), annotations=annotated(time="60"), terminationGracePeriodSeconds=grace)
    environment = dict(spec_of(asked, site(kill_wait=30.0)).environment)
    assert environment.get("ORLOP_KILL_WAIT") == told


@pytest.mark.parametrize(
    ("word", "option"),
    [("requeue", "requeue"), ("successor", "no-requeue"), ("fail", "no-requeue")],
)
def test_only_a_pod_that_is_requeued_at_its_limit_may_be(word, option):
    found = dict(spec_of(pod(container(), annotations=annotated(on_timeout=word))).options)
    assert {"requeue", "no-requeue"} & found.keys() == {option}


def test_what_a_time_limit_cannot_mean_is_told():
    with pytest.raises(ConfigError, match="expected requeue, successor or fail, found 'retry'"):
        spec_of(pod(container(), annotations=annotated(on_timeout="retry")))


def test_a_successor_knows_how_many_were_before_it():
    spec = spec_of(pod(container(), annotations=annotated(restart_count="3")))
    assert dict(spec.environment)["ORLOP_RESTART_COUNT"] == "3"


@pytest.mark.parametrize("name", ["end-time", "expiring", "replace", "job-id", "node-list"])
def test_what_is_written_on_pods_is_no_option(name):
    assert options_of(pod(container(), annotations={SLURM + name: "x"})) == {}


# Precedence


SETTINGS = SlurmSettings(
    flags=["--nice=1", "--qos=flags", "--account=flags"],
    qos="settings",
    priority_classes={"urgent": ["--qos=class", "--nice=2"], "bad": ["--array=1-3"]},
)


@pytest.mark.parametrize(
    ("priority", "annotations", "qos", "nice"),
    [
        ("", {}, "settings", "1"),
        ("unknown", {}, "settings", "1"),
        ("urgent", {}, "class", "2"),
        ("urgent", {"slurm-job.knoc.io/flags": "--nice=3"}, "class", "3"),
        ("", {"slurm-job.knoc.io/flags": "--nice=3", SLURM + "flags": "--nice=4"}, "settings", "4"),
        ("", {SLURM + "flags": "--qos=f", "slurmjob.slinky.slurm.net/qos": "b"}, "b", "1"),
        ("", {"slurmjob.slinky.slurm.net/qos": "b", SLURM + "qos": "own"}, "own", "1"),
        ("", {SLURM + "flags": "-q a --qos=b", SLURM + "nice": "9"}, "b", "9"),
    ],
)
def test_from_weakest_to_strongest(priority, annotations, qos, nice):
    asked = pod(container(), annotations=annotations, priorityClassName=priority)
    found = spec_of(asked, site(SETTINGS))
    assert (found.value("qos"), found.value("nice")) == (qos, nice)


def test_the_users_sbatch_variables_are_the_weakest():
    defaults = {"account": "mine", "qos": "mine", "reservation": "mine"}
    found = spec_of(pod(container()), site(SETTINGS, defaults=defaults))
    assert found.value("account") == "flags"
    assert found.value("qos") == "settings"
    assert found.value("reservation") == "mine"


def test_an_annotation_with_false_takes_a_flag_back():
    both = {SLURM + "flags": "--exclusive", SLURM + "exclusive": "false"}
    assert options_of(pod(container(), annotations=both)) == {}


def test_what_orlop_wrote_back_is_no_option():
    written = {SLURM + "job-id": "17", SLURM + "node-list": "n1"}
    assert options_of(pod(container(), annotations=written)) == {}


@pytest.mark.parametrize(
    "annotations",
    [annotated(array="1-3"), annotated(flags="--wrap=true"), annotated(comment="x")],
)
def test_options_that_would_break_a_pod_are_refused(annotations):
    with pytest.raises(ConfigError, match="cannot be used"):
        spec_of(pod(container(), annotations=annotations))


def test_a_bad_priority_class_is_told_with_its_place_in_the_settings():
    with pytest.raises(ConfigError, match=r"slurm\.priority_classes\.bad in config\.yaml"):
        spec_of(pod(container(), priorityClassName="bad"), site(SETTINGS))


def test_options_that_change_nothing_are_ignored_and_told():
    asked = pod(container(), annotations=annotated(output="/x", flags="-e y --verbose --nodes=1"))
    spec = spec_of(asked)
    assert spec.value("output") == "/home/ann/pod/slurm.out"
    assert spec.value("nodes") == "1"
    assert [warning.split()[0] for warning in spec.warnings] == ["--error", "--verbose", "--output"]


def test_a_name_of_its_own_is_kept():
    assert spec_of(pod(annotations=annotated(job_name="mine"))).value("job-name") == "mine"


def test_mpi_is_told_to_srun_through_its_variable():
    spec = spec_of(pod(container(), annotations=annotated(mpi="pmix")))
    assert ("SLURM_MPI_TYPE", "pmix") in spec.environment
    assert spec.value("mpi") is None
