"""One job for all members of a gang."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest

from orlop.errors import ConfigError
from orlop.slurm.gang.gang_spec import (
    Named,
    as_gang,
    early_signal,
    gang_comment,
    gang_in,
    own_environment,
)
from orlop.slurm.gang.packing import pack, shape_of
from orlop.slurm.translate.job import JobSpec
from orlop.slurm.translate.script import script
from orlop.slurm.translate.signals import EarlySignal

from ..pods import SLURM, container, pod, site, spec_of


def member(name: str = "w-0", requests: dict[str, str] | None = None, **options: str) -> JobSpec:
    annotations = {SLURM + key.replace("_", "-"): value for key, value in options.items()}
    one = pod(container(requests or {}), annotations=annotations)
    one["metadata"] |= {"name": name, "uid": name}
    return spec_of(one)


def gang(*members: JobSpec, limits: Sequence[str] = ()) -> JobSpec:
    shapes = [shape_of(dict(spec.options), spec.title) for spec in members]
    comment = gang_comment("c0ffee", "ab12")
    named = Named("default/train", comment, "/home/ann/gangs/ab12")
    return as_gang(members, pack(shapes), limits, named)


def test_the_job_of_a_gang_has_a_task_for_each_bundle():
    found = gang(*[member(f"w-{n}", {"cpu": "2", "memory": "1Gi"}) for n in range(4)])
    assert found.value("ntasks") == "4"
    assert found.value("cpus-per-task") == "2"
    assert found.value("mem-per-cpu") == "512M"
    assert found.value("mem") is None
    assert found.value("job-name") == "default/train"
    assert found.value("comment") == "orlop:c0ffee:gang-ab12"
    assert found.value("chdir") == "/home/ann/gangs/ab12"


def test_its_script_starts_the_leader():
    text = script(gang(member(), member("w-1")))
    assert text.startswith("#!/bin/bash\n# Orlop: gang default/train, 2 pods.")
    assert text.endswith("agent.pyz gang /home/ann/gangs/ab12\n")


def test_gpus_go_with_the_tasks():
    found = gang(*[member(f"w-{n}", {"nvidia.com/gpu": "2"}) for n in range(2)])
    assert found.value("gpus-per-task") == "2"
    assert found.value("gres") is None


def test_other_gres_are_counted_by_the_node():
    found = gang(*[member(f"w-{n}", gres="nvme:1") for n in range(2)])
    assert (found.value("nodes"), found.value("ntasks-per-node")) == ("2", "1")
    assert found.value("gres") == "nvme:1"


def test_what_one_member_says_holds_for_the_job():
    found = gang(member(), member("w-1", account="research", constraint="ib"))
    assert found.value("account") == "research"
    assert found.value("constraint") == "ib"


def test_a_gang_is_requeued_if_a_member_wishes_it():
    found = dict(gang(member(), member("w-1", requeue="true")).options)
    assert "requeue" in found
    assert "no-requeue" not in found


def test_members_that_disagree_are_told_so():
    words = r"--qos=high \(pod default/w-0\), --qos=low \(pod default/w-1\): .* must agree"
    with pytest.raises(ConfigError, match=words):
        gang(member(qos="high"), member("w-1", qos="low"))


def test_licences_are_those_of_all_members_together():
    found = gang(member(licenses="matlab:2,ansys"), member("w-1", licenses="matlab"))
    assert found.value("licenses") == "matlab:3,ansys:1"


def test_the_longest_time_limit_holds():
    asked = ("10", "2:00:00", "")
    found = gang(member(time="10"), member("w-1", time="2:00:00"), member("w-2"), limits=asked)
    assert found.value("time") == "2:00:00"


def test_one_members_deadline_does_not_end_the_others():
    hurried = spec_of(pod(container(), activeDeadlineSeconds=60))
    assert gang(hurried, member("w-1")).value("time") is None
    assert gang(hurried, hurried).value("time") == hurried.value("time")


def test_the_leader_is_woken_for_the_first_that_wants_to_be_told():
    """Never by TERM, which would be the end of all; what each wants to hear is its own."""
    limits = site(default_time=7200.0)
    patient = spec_of(pod(container(), terminationGracePeriodSeconds=300), limits)
    warned = member("w-1", signal="USR2@100")
    found = gang(patient, warned, member("w-2"))
    assert found.value("signal") == "B:USR1@330"
    assert not any(name.startswith("ORLOP_") for name, _ in found.environment)
    assert early_signal(patient) == EarlySignal(signal.SIGTERM, 330)
    assert early_signal(warned) == EarlySignal(signal.SIGUSR2, 100)
    assert own_environment(patient) == {}, "all of its grace"
    asked = {"ORLOP_KILL_WAIT": "30", "ORLOP_WARNING_SIGNAL": str(int(signal.SIGUSR2))}
    assert own_environment(warned) == asked


def test_a_gang_that_nobody_wants_to_be_warned_of_has_no_signal():
    assert gang(member(), member("w-1")).value("signal") is None


def test_a_gang_is_told_from_a_pod_by_its_comment():
    assert gang_in("gang-ab12") == "ab12"
    assert gang_in("6f1c-77") == ""
