"""Limits of accounts and QOS: which of them one job alone is beyond, and what a quota is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orlop.slurm.submit import limits
from orlop.slurm.submit.limits import (
    ASSOCIATION_FIELDS,
    QOS_FIELDS,
    Ask,
    Limits,
    exceeded,
    quota,
    tres_of,
)


def row(fields: tuple[str, ...], **values: str) -> str:
    return "|".join(values.get(name, "") for name in fields)


def known(association=None, account=None, qos=None, partitions=None) -> Limits:
    rows = [
        row(ASSOCIATION_FIELDS, Account="chem", **(account or {})),
        row(ASSOCIATION_FIELDS, Account="chem", User="ann", **(association or {})),
        row(ASSOCIATION_FIELDS, Account="chem", User="bob", GrpTRES="cpu=1"),
        row(ASSOCIATION_FIELDS, Account="bio", User="ann", GrpTRES="cpu=1"),
    ]
    of_qos = [
        row(QOS_FIELDS, Name="normal", **(qos or {})),
        row(QOS_FIELDS, Name="high", MaxWall="00:10:00"),
        row(QOS_FIELDS, Name="wide", MaxWall="10-00:00:00", GrpTRES="cpu=1000"),
    ]
    return Limits(
        "ann",
        "chem",
        limits.parse("\n".join(rows), ASSOCIATION_FIELDS),
        limits.parse("\n".join(of_qos), QOS_FIELDS),
        partitions or {},
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("cpu=4,mem=100G,node=2", {"cpu": 4, "mem": 102400, "node": 2}),
        ("gres/gpu:a100=2,mem=1500M", {"gres/gpu:a100": 2, "mem": 1500}),
        ("cpu=rubbish", {}),
        (f"cpu={'9' * 400},node=1", {"node": 1}),
    ],
)
def test_amounts_are_read(text, expected):
    assert tres_of(text) == expected


BIG = Ask(tres={"cpu": 64, "mem": 2048, "node": 2, "gres/gpu": 4}, seconds=7200)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ""),
        ({"association": {"MaxTRES": "cpu=64"}}, ""),
        ({"association": {"MaxTRES": "cpu=32"}},
         "it asks for 64 CPUs, and you in account chem may have 32 at once (MaxTRES)"),
        ({"account": {"GrpTRES": "mem=1G"}},
         "it asks for 2048 MiB of memory, and account chem may have 1024 at once (GrpTRES)"),
        ({"qos": {"MaxTRESPerUser": "gres/gpu=2"}},
         "it asks for 4 GPUs, and QOS normal may have 2 at once (MaxTRESPerUser)"),
        ({"qos": {"MaxTRESPerNode": "cpu=16"}},
         "it asks for 32 CPUs, and QOS normal may have 16 at once (MaxTRESPerNode)"),
        ({"association": {"MaxWall": "01:00:00"}},
         "it asks for 2 h, and you in account chem may have 1 h (MaxWall)"),
        ({"association": {"DefaultQOS": "high"}},
         "it asks for 2 h, and QOS high may have 10 min (MaxWall)"),
        ({"association": {"Partition": "gpu", "MaxTRES": "cpu=1"}}, ""),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_job_that_is_beyond_a_limit_on_its_own_is_told_which(given, words):
    assert exceeded(BIG, known(**given)) == words


def test_of_a_limit_that_several_set_the_first_holds_in_slurms_order():
    wide = {"GrpTRES": "cpu=1000", "MaxWall": "10-00:00:00"}
    tight = {"GrpTRES": "cpu=1,node=1000", "MaxWall": "00:01:00"}
    assert exceeded(BIG, known(association=tight)) != ""
    assert exceeded(BIG, known(association=tight, qos=wide)) == ""
    assert exceeded(BIG, known(account=tight, association=wide)) == ""


@pytest.mark.parametrize(
    ("partition", "given", "is_beyond"),
    [
        ("long", {"association": {"MaxWall": "01:00:00"}}, False),
        ("long", {"qos": {"GrpTRES": "cpu=1"}}, False),
        ("long", {"qos": {"GrpTRES": "cpu=1", "Flags": "DenyOnLimit,OverPartQOS"}}, True),
        ("long", {"qos": {"MaxTRES": "cpu=1"}}, True),
        ("main", {"association": {"MaxWall": "01:00:00"}}, True),
        ("main,long", {"association": {"MaxWall": "01:00:00"}}, False),
        ("short", {"association": {"MaxWall": "1-00:00:00"}}, True),
    ],
)
def test_a_partitions_own_qos_comes_first_unless_the_jobs_says_otherwise(
    partition, given, is_beyond
):
    limit = known(**given, partitions={"long": "wide", "short": "high"})
    assert bool(exceeded(replace(BIG, partition=partition), limit)) is is_beyond


def test_the_qos_of_partitions_are_read():
    shown = (
        "PartitionName=main AllowQos=ALL Default=NO QoS=N/A MaxTime=UNLIMITED\n"
        "PartitionName=long AllowQos=ALL Default=YES QoS=wide MaxTime=UNLIMITED\n"
    )
    assert limits.qos_of_partitions(shown) == {"long": "wide", "": "wide"}


def test_what_a_job_asks_for_is_read_from_scontrol_and_from_its_options():
    head = "JobId=7 JobName=x Account=chem QOS=high Partition=main TimeLimit=02:00:00"
    shown = f"{head} TRES=cpu=4,mem=8G,node=1,billing=4"
    assert limits.ask_of_job(shown) == Ask(
        "chem", "high", "main", {"cpu": 4, "mem": 8192, "node": 1, "billing": 4}, 7200
    )
    options = [("account", "chem"), ("cpus-per-task", "4"), ("ntasks", "2"), ("nodes", "2"),
               ("mem", "1G"), ("gres", "gpu:a100:2,nvme:1"), ("time", "2:00:00")]  # fmt: skip
    each = [("nodes", "2"), ("ntasks-per-node", "3"), ("cpus-per-task", "2")]
    assert limits.ask_of_options(each).tres == {"node": 2, "cpu": 12}
    per_task = [("ntasks", "3"), ("gpus-per-task", "a100:2,v100:1")]
    assert limits.ask_of_options(per_task).tres == {"node": 1, "cpu": 3, "gres/gpu": 9}
    tres = {"node": 2, "cpu": 8, "mem": 2048, "gres/gpu": 4, "gres/nvme": 2}
    assert limits.ask_of_options(options) == Ask("chem", "", "", tres, 7200)


def test_a_quota_is_the_tightest_of_all_limits_on_jobs_together():
    given = known(
        association={"GrpTRES": "cpu=64,mem=10G", "MaxSubmit": "100"},
        account={"GrpTRES": "cpu=32", "GrpSubmit": "500"},
        qos={"MaxTRESPerUser": "gres/gpu=2", "MaxTRES": "cpu=1", "MaxSubmitJobsPerUser": "50"},
    )
    assert quota(Ask(), given) == {
        "requests.cpu": "32",
        "requests.memory": "10240Mi",
        "requests.nvidia.com/gpu": "2",
        "pods": "50",
    }
    assert quota(Ask(account="none"), Limits("ann", "")) == {}
    endless = known(association={"GrpTRES": f"cpu={'9' * 400}", "MaxSubmit": "9" * 5000})
    assert quota(Ask(), endless) == {}
