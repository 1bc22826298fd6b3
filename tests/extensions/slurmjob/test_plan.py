"""From a SlurmJob to sbatch's arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from orlop.api.objects import Obj
from orlop.engine import JobState
from orlop.errors import ConfigError
from orlop.extensions.slurmjob.plan import Plan, plan_of
from orlop.settings import NamespaceSettings, SlurmSettings
from orlop.slurm.query.user_jobs import UserJob
from orlop.slurm.translate.policy import Policy

FOLDER = Path("/home/ann/.orlop/slurmjobs/ns_j_u1")


def job(**spec: Any) -> Obj:
    return {"metadata": {"name": "j", "namespace": "ns", "uid": "u1"}, "spec": spec}


def plan(settings: SlurmSettings | None = None, **spec: Any) -> Plan:
    spec = spec if "script" in spec else {"command": ["true"], **spec}
    return plan_of(job(**spec), FOLDER, settings or SlurmSettings(), "c0ffee")


def test_a_plain_job_has_its_name_its_folder_and_a_comment() -> None:
    assert plan().arguments() == [
        "--job-name=j",
        f"--chdir={FOLDER}/work",
        f"--output={FOLDER}/slurm-%j.out",
        "--comment=orlop-job:c0ffee:u1",
        f"{FOLDER}/job.sh",
    ]


def test_what_the_script_says_is_not_said_twice() -> None:
    script = "#!/bin/sh\n#SBATCH -J mine -o mine-%j.log -D /scratch\ntrue\n"
    found = plan(script=script)
    given = [word.partition("=")[0] for word in found.arguments()]
    assert given == ["--comment", f"{FOLDER}/job.sh"]
    assert found.output("17") == "/scratch/mine-17.log"


def test_options_are_stronger_than_the_script_and_flags_than_both() -> None:
    script = "#!/bin/sh\n#SBATCH --time=1 --nodes=1 --qos=low\ntrue\n"
    found = plan(script=script, options={"time": 2, "nodes": 2}, flags=["-t", "3"])
    assert (found.effective["time"], found.effective["nodes"]) == ("3", "2")
    assert found.effective["qos"] == "low"
    assert "--time=3" in found.arguments()


def test_settings_are_weaker_than_the_script() -> None:
    settings = SlurmSettings(partition="long", account="research", flags=["--nice=5"])
    found = plan(settings, script="#!/bin/sh\n#SBATCH -p short\ntrue\n")
    assert "--partition=long" not in found.arguments()
    assert {"--account=research", "--nice=5"} <= set(found.arguments())


def test_a_users_comment_stays_behind_ours() -> None:
    words = plan(options={"comment": "for the paper"}).arguments()
    assert "--comment=orlop-job:c0ffee:u1 for the paper" in words


def test_a_dependency_joins_the_users_own() -> None:
    words = plan(options={"dependency": "singleton"}).arguments("afterok:7")
    assert "--dependency=singleton,afterok:7" in words
    assert "--kill-on-invalid-dep=yes" in words


def test_an_array_prints_to_a_file_a_task() -> None:
    found = plan(array="0-2")
    assert found.tasks == (0, 1, 2)
    assert found.output("8", "1") == f"{FOLDER}/slurm-8_1.out"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("e-%j.txt", "/w/e-10.txt"),
        ("%A-%4a.err", "/w/8-0001.err"),
        ("/logs/%x/%N.err", "/logs/many/n3.err"),
    ],
)
def test_errors_have_a_file_of_their_own_where_the_job_says_so(
    template: str, expected: str
) -> None:
    script = f"#!/bin/sh\n#SBATCH -J many -D /w -a 0-2 --error={template}\ntrue\n"
    seen = UserJob("8_1", JobState.RUNNING, "RUNNING", node_list="n[3-4]", own_number="10")
    assert plan(script=script).errors("8", "1", seen) == expected


@pytest.mark.parametrize("error", ["", "-e /dev/null", "-o all.txt -e all.txt"])
def test_errors_among_the_output_have_none(error: str) -> None:
    found = plan(script=f"#!/bin/sh\n#SBATCH -D /w {error}\ntrue\n")
    assert not found.has_errors_apart
    assert found.errors("8") == ""


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"options": {"wait": ""}}, "--wait cannot be used"),
        ({"flags": ["x"]}, "expected options"),
        ({"workingDirectory": "here"}, "absolute path"),
        ({"options": {"array": "x"}}, "cannot be read"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(spec: Obj, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        plan(**spec)


def test_secrets_are_neither_in_the_script_nor_among_the_arguments() -> None:
    found = plan(env=[{"name": "PASSWORD", "value": "hunter2"}])
    assert "hunter2" not in found.text() + found.program + " ".join(found.arguments())


def policed(annotations: dict[str, str], configured: Obj, **spec: Any) -> Plan:
    namespaces = {"ns": msgspec.convert(configured, NamespaceSettings)}
    settings = SlurmSettings(namespaces=namespaces)
    body = job(**(spec if "script" in spec else {"command": ["true"], **spec}))
    return plan_of(body, FOLDER, settings, "c0ffee", Policy(settings, "ns", annotations))


def test_a_namespace_is_weaker_than_the_script() -> None:
    annotations = {"slurm.orlop.dev/account": "research", "slurm.orlop.dev/qos": "low"}
    found = policed(annotations, {}, script="#!/bin/sh\n#SBATCH --qos=high\ntrue\n")
    assert "--account=research" in found.arguments()
    assert found.effective["qos"] == "high"


def test_a_namespace_has_its_partition() -> None:
    assert policed({"slurm.orlop.dev/partition": "long"}, {}).effective["partition"] == "long"


def test_what_is_locked_for_a_namespace_cannot_be_changed() -> None:
    configured = {"locked": ["--account=research"]}
    assert "--account=research" in policed({}, configured).arguments()
    with pytest.raises(ConfigError, match="is fixed for the namespace"):
        policed({}, configured, script="#!/bin/sh\n#SBATCH -A other\ntrue\n")


def test_the_limits_of_a_namespace_hold() -> None:
    configured = {"max_time": "1:00:00", "max_nodes": 2}
    assert policed({}, configured).effective["time"] == "01:00:00"
    assert policed({}, configured, options={"time": 30}).effective["time"] == "30"
    with pytest.raises(ConfigError, match="allows"):
        policed({}, configured, options={"time": 120})
    with pytest.raises(ConfigError, match="allows 2"):
        policed({}, configured, options={"nodes": 3})
    with pytest.raises(ConfigError, match="--time: 'soon' is no duration"):
        policed({}, configured, options={"time": "soon"})


@pytest.mark.parametrize(
    ("output", "file", "is_its"),
    [
        ("%N.%j.out", "n3.17.out", True),
        ("%N.%j.out", "a/n3.17.out", False),
        ("%N.%j.out", ".17.out", False),
        ("%N/%N", "n3/n3", True),
        ("%N/%N", "n3/n4", False),
        ("out", "out", True),
        ("out", "out2", False),
        ("%N" * 40 + "b", "a" * 250, False),
    ],
)
def test_a_file_is_known_by_its_name_on_whichever_node(output, file, is_its) -> None:
    made = plan(options={"output": output, "chdir": "/w"})
    assert made.is_printed_to(f"/w/{file}", "17") == is_its
