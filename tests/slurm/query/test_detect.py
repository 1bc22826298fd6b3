"""What is found out about a site's Slurm."""

from __future__ import annotations

import math

import pytest

from orlop.errors import EngineUnavailable
from orlop.slurm.commands import Commands
from orlop.slurm.query import detect
from orlop.slurm.query.detect import Association, Slurm, parse_associations, parse_config

CONFIG = """\
Configuration data as of 2026-11-15T15:17:39
AccountingStorageEnforce = associations,limits,qos
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = main=odd
KillWait                = 45 sec
MinJobAge               = 120 sec
SLURM_VERSION           = 22.05.8

Cgroup Support Configuration:
KillWait                = 1 sec
"""


def test_the_configuration_is_read():
    facts = Slurm(parse_config(CONFIG))
    assert (facts.version, facts.cluster) == ("22.05.8", "main=odd")
    assert (facts.kill_wait, facts.min_job_age) == (45.0, 120.0)
    assert facts.has_accounting
    assert facts.enforces_accounts


def test_what_it_does_not_say_has_slurms_defaults():
    facts = Slurm(parse_config("AccountingStorageType = (null)\nKillWait = unknown\n"))
    assert (facts.version, facts.cluster) == ("unknown", "")
    assert (facts.kill_wait, facts.min_job_age) == (30.0, 300.0)
    assert not facts.has_accounting
    assert not facts.enforces_accounts


def test_an_answer_that_says_nothing_is_none():
    with pytest.raises(EngineUnavailable):
        parse_config("\n")


def test_associations_are_read_and_broken_lines_left_out():
    text = "chem||high,low|chem\nphys|gpu||chem\n||x|\nshort\n"
    assert parse_associations(text) == [
        Association("chem", "", ("high", "low"), True),
        Association("phys", "gpu", (), False),
    ]


async def test_where_there_is_no_slurm_none_is_found(tmp_path):
    commands = Commands({"PATH": str(tmp_path)})
    assert await detect.find(commands) is None
    assert await detect.associations(commands) == []
    with pytest.raises(EngineUnavailable, match="not in PATH"):
        await detect.slurm(commands)


@pytest.mark.slurm
async def test_a_real_slurm_is_found(rootless):
    facts = await detect.find(rootless.commands)
    assert facts is not None
    assert facts.version.startswith("2")
    assert (facts.cluster, facts.has_accounting) == ("orlop", False)
    assert facts.kill_wait == 5.0
    assert facts.min_job_age > 0


@pytest.mark.slurm
async def test_a_site_without_accounts_has_none_and_that_is_no_error(rootless):
    assert await detect.associations(rootless.commands) == []


@pytest.mark.slurm
async def test_the_partitions_limits_are_found(rootless):
    assert await detect.partition_limits(rootless.commands) == {"main": (None, math.inf)}
