"""Who asks for verdicts, and how often: commands that count their calls stand for Slurm's."""

from __future__ import annotations

from orlop.engine import Job, JobId, JobState
from orlop.slurm.commands import CommandFailed
from orlop.slurm.submit.limit_checks import AT_ONCE, KEPT, Verdicts
from orlop.slurm.submit.limits import ASSOCIATION_FIELDS, QOS_FIELDS
from orlop.slurm.translate.job import JobSpec

REASON = "AssocGrpCpuLimit"


class Commands:
    """scontrol and sacctmgr of a user who may have two CPUs at once."""

    environ = {"USER": "ann"}

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.is_silent = False
        self.most = 2

    async def run(self, program: str, *arguments: str) -> str:
        self.calls.append(" ".join((program, *arguments)))
        if self.is_silent:
            raise CommandFailed(program, 1, "down")
        if "partition" in arguments:
            return "PartitionName=main Default=YES QoS=N/A\nPartitionName=long QoS=wide\n"
        if "qos" in arguments:
            wide = {"Name": "wide", "GrpTRES": "cpu=64"}
            return "|".join(wide.get(name, "") for name in QOS_FIELDS) + "\n"
        if program == "scontrol":
            return "JobId=1 Account=chem QOS=normal Partition=main TRES=cpu=4,node=1\n"
        if "user" in arguments:
            return "chem||normal|chem\n"
        row = {"Account": "chem", "User": "ann", "GrpTRES": f"cpu={self.most}"}
        return "|".join(row.get(name, "") for name in ASSOCIATION_FIELDS) + "\n"

    def shown(self) -> int:
        return sum("show job" in call for call in self.calls)


def waiting(*ids: str, reason: str = REASON) -> dict[JobId, Job]:
    return {
        JobId(one): Job(JobId(one), JobState.PENDING, reason=reason, partition="main")
        for one in ids
    }


async def test_a_job_beyond_a_limit_is_asked_for_once():
    commands = Commands()
    verdicts = Verdicts(commands, lambda: 0.0)
    for _ in range(3):
        found = await verdicts.judged(waiting("7"))
    assert found[JobId("7")].is_hopeless
    assert "it asks for 4 CPUs" in found[JobId("7")].message
    assert commands.shown() == 1


async def test_nothing_is_asked_while_nobody_meets_a_limit():
    commands = Commands()
    listed = waiting("7", reason="Priority")
    assert await Verdicts(commands, lambda: 0.0).judged(listed) == listed
    assert commands.calls == []


def asking(cpus: int, partition: str = "main") -> JobSpec:
    options = (("account", "chem"), ("cpus-per-task", str(cpus)), ("partition", partition))
    return JobSpec(options, (), "", (), "", "")


async def test_what_is_submitted_here_is_judged_before_slurm_comes_to_it():
    commands, now = Commands(), 0.0
    verdicts = Verdicts(commands, lambda: now)
    verdicts.remember(JobId("7"), asking(4))
    verdicts.remember(JobId("8"), asking(2))
    verdicts.remember(JobId("10"), asking(4, "long"))  # whose own QOS comes first
    listed = waiting("7", "8", "9", "10", reason="Priority")
    for _ in range(3):
        found = await verdicts.judged(listed)
    assert [job.is_hopeless for job in found.values()] == [True, False, False, False]
    words = "job 7 cannot start in partition main: it asks for 4 CPUs, and you in account chem"
    assert found[JobId("7")].message.startswith(words)
    assert (len(commands.calls), commands.shown()) == (4, 0)
    commands.most = 8  # the administrator has heard of it
    now = KEPT + 1
    assert not (await verdicts.judged(listed))[JobId("7")].is_hopeless


async def test_accounts_that_do_not_answer_are_not_asked_again_and_again():
    commands = Commands()
    commands.is_silent = True
    verdicts = Verdicts(commands, lambda: 0.0)
    for number in range(5):
        verdicts.remember(JobId(str(number)), asking(4))
        listed = waiting(*map(str, range(number + 1)), reason="Priority")
        assert not any(job.is_hopeless for job in (await verdicts.judged(listed)).values())
    assert len(commands.calls) == 1


async def test_tasks_of_an_array_are_one_question_and_thousands_of_jobs_a_few_at_a_time():
    commands = Commands()
    verdicts = Verdicts(commands, lambda: 0.0)
    found = await verdicts.judged(waiting(*(f"7_{task}" for task in range(500))))
    assert all(job.is_hopeless for job in found.values())
    assert commands.shown() == 1
    many = waiting(*(str(number) for number in range(1000, 1000 + 3 * AT_ONCE)))
    found = await verdicts.judged(many)
    assert sum(job.is_hopeless for job in found.values()) == AT_ONCE
    for _ in range(2):
        found = await verdicts.judged(many)
    assert all(job.is_hopeless for job in found.values())


async def test_limits_are_asked_for_again_after_a_while_and_silence_says_nothing():
    commands, now = Commands(), 0.0
    verdicts = Verdicts(commands, lambda: now)
    await verdicts.limits()
    before = len(commands.calls)
    await verdicts.limits()
    assert len(commands.calls) == before
    await verdicts.limits(kept=0.0)
    assert len(commands.calls) > before
    before, now = len(commands.calls), now + KEPT + 1
    await verdicts.limits()
    assert len(commands.calls) > before
    commands.is_silent = True
    assert not (await verdicts.judged(waiting("9")))[JobId("9")].is_hopeless
