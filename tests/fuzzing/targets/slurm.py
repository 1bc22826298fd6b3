"""What Slurm's commands print, with jobs named by others; and users' own words for Slurm."""

from __future__ import annotations

import shlex

from orlop.agent.pod.gang import counts
from orlop.agent.ranks.container_server import tasks_on
from orlop.cli.kubectl_plugin.sbatch_line import split
from orlop.errors import ConfigError
from orlop.extensions.mpijob.mpirun_arguments import NotStripped, strip
from orlop.slurm import durations, hostlist
from orlop.slurm.query import partitions, sacct, site, squeue, user_jobs
from orlop.slurm.submit import limits, user_script
from orlop.slurm.translate import gres, sbatch_options

from ..target import Registry, Target, encoded

target = Registry()
_UID = "5f0c8f0a-0000-4000-8000-000000000001"
_COMMENT = f"orlop:{_UID}:7c0c8f0a-0000-4000-8000-000000000002 extra"


def _squeue(**told: str) -> str:
    row = {
        **dict.fromkeys(squeue.SQUEUE_FIELDS, ""),
        **{"JobArrayID": "17", "JobID": "17", "State": "RUNNING", "Reason": "None"},
        **{
            "RestartCnt": "0",
            "Partition": "main",
            "NodeList": "n[1-3,7]",
            "SubmitTime": "1700000000",
        },
        **{"StartTime": "1700000001", "EndTime": "1700003600", "TimeLimit": "1-00:00:00"},
        **{"Account": "a", "QOS": "normal", "NumNodes": "4", "NumCPUs": "8", "exit_code": "0"},
        **{"WorkDir": "/home/u", "Name": "default/web", "Comment": _COMMENT},
        **told,
    }
    return squeue.SEPARATOR.join([*row.values(), ""])


_SQUEUE = encoded(
    "\n".join(lines) + "\n"
    for lines in (
        [_squeue()],
        [_squeue(JobArrayID="18_3", State="PENDING", Reason="Resources", NodeList="")],
        [_squeue(State="FAILED", Reason="TimeLimit", exit_code="256"), _squeue(JobArrayID="9+1")],
        [_squeue(Comment=f"orlop-job:{_UID}:x y", State="CONFIGURING", TimeLimit="UNLIMITED")],
    )
)
_WORDS = encoded(
    (
        *(
            squeue.SEPARATOR,
            "\n",
            "PENDING",
            "TIMEOUT",
            "NODE_FAIL",
            "CANCELLED by 0",
            "(null)",
            "N/A",
        ),
        *(
            "BadConstraints",
            "QOSMaxWallDurationPerJobLimit",
            "orlop:",
            "orlop-job:",
            "_[1-9%2]",
            "+",
        ),
        *("n[1-3]", "[", "]", "1-00:00:00", "UNLIMITED", "0:15", "3:9", "Partition_Limit", "\x85"),
    )
)


def _text(data: bytes) -> str:
    """As Commands decodes what Slurm prints."""
    return data.decode(errors="replace")


@target(
    "slurm-squeue",
    "slurm/query/squeue.py and slurm/query/user_jobs.py: squeue",
    "other jobs of the user, by any name",
)
def slurm_squeue() -> Target:
    def run(data: bytes) -> None:
        text = _text(data)
        squeue.parse_squeue(text, _UID, lambda folder: 30.0)
        for jobs in user_jobs.UserJobs().read(text).values():
            for one in jobs:
                user_jobs.uid_of_comment(one.comment, _UID)

    return Target(run, _SQUEUE, _WORDS)


@target(
    "slurm-sacct",
    "slurm/query/squeue.py, user_jobs.py and sacct.py: sacct",
    "other jobs of the user, by any name",
)
def slurm_sacct() -> Target:
    def run(data: bytes) -> None:
        text = _text(data)
        squeue.parse_sacct(text, lambda folder: 30.0)
        squeue.folders_of(text)
        squeue.job_in_folder(text, "/home/u", "3")
        user_jobs.parse_sacct(text)
        user_jobs.submitted_with(text, "/a")
        sacct.parse(text)

    mark = squeue.SEPARATOR
    ended = [
        "17",
        "TIMEOUT",
        "TimeLimit",
        "main",
        "n[1-3]",
        "1",
        "2",
        "3",
        "1:00:00",
        "/home/u",
        "web",
    ]
    whole = ["17_3", "18", "FAILED", "None", "main", "a", "q", "n1", "1", "2", "UNLIMITED",
             "1", "2", "3", "1:9", "/home/u", "web"]  # fmt: skip
    used = "17|COMPLETED|12|1-00:00:01.5|1204K|0\n17.batch|COMPLETED|12|00:01|3.50M|1844674407\n"
    submitted = mark.join(("17", "sbatch /a", "/home/u"))
    seeds = encoded((mark.join(ended) + "\n", mark.join(whole) + "\n", used, submitted))
    return Target(run, seeds, (*_WORDS, b"|", b".batch", b"K", b"1-00:00:01.5"))


@target(
    "slurm-nodes",
    "slurm/query/partitions.py, site.py, slurm/translate/gres.py, slurm/submit/limits.py: "
    "sinfo, scontrol, sacctmgr",
    "the site",
)
def slurm_nodes() -> Target:
    def run(data: bytes) -> None:
        text = _text(data)
        gres.parse_licenses(text)
        gres.resources_of(gres.parse(text))
        partitions.parse_topology(text)
        for parse in (site.parse_partitions, site.parse_qos, site.parse_reservations):
            parse(text)
        site.parse_accounts(text, "a")
        limits.qos_of_partitions(text)
        limits.tres_of(text)
        limits.ask_of_job(text)
        rows = [row for row in partitions.parse(text) if len(row.hosts) < 1000]
        facts = partitions.Facts(licenses={"a": 1})
        partitions.machines(rows, facts)
        partitions.places(rows, facts)

    row = ["main", "main*", "up", "1-00:00:00", "8", "31000", "gpu:a100:4(S:0-1),nvme:1", "fast",
           "mixed~", "all", "none", "n[1-4]", "1000"]  # fmt: skip
    seeds = encoded(
        (
            partitions.SEPARATOR.join(row) + "\n",
            "main|main*|up|1:00:00|1:00|1-inf|1/2/0/3|8/8/0/16|all|n[1-3]\n",
            "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-4] Switches=(null)\n",
            "LicenseName=ansys@flex\n    Total=10 Used=0 Free=10 Remote=no\n",
            "ReservationName=r StartTime=1700000000 EndTime=1700000001 Nodes=n1 NodeCnt=1\n",
            "PartitionName=main Default=YES QoS=q\ncpu=4,mem=100G,gres/gpu:a100=2,node=1\n",
            "JobId=3 NumNodes=1 TRES=cpu=1,mem=3M,node=1 TimeLimit=UNLIMITED Partition=a,b\n",
        )
    )
    # A hostlist or a duration that cannot be read is told as a failure of the command.
    return Target(run, seeds, (*_WORDS, b"gpu:", b"mem=", b"Nodes=", b"|"), (ValueError,))


@target("slurm-hostlist", "slurm/hostlist.py", "annotations of small accounts")
def slurm_hostlist() -> Target:
    def run(data: bytes) -> None:
        # Of fewer hosts than may be: what is made comes after all that is read, and takes its time.
        hostlist.compress(hostlist.expand(_text(data), 1000))

    seeds = encoded(("n[1-3,7],login", "a[01-10]b[1-2]", "(null)", "n1,n2,n3", "rack[0-3]n[00-15]"))
    words = encoded(("[", "]", "[0-9]", "[1-4095]", ",", "-", "00"))
    return Target(run, seeds, words, (ValueError,))


@target("slurm-durations", "slurm/durations.py, counts of tasks", "annotations of small accounts")
def slurm_durations() -> Target:
    def run(data: bytes) -> None:
        text = _text(data)
        try:
            found = durations.seconds(text)
            if found is not None:
                durations.limit(found)
                durations.in_words(found)
        except ValueError:
            pass
        counts(text)
        tasks_on(text, 1)

    seeds = encoded(("1-00:00:00", "90", "1:30:00", "UNLIMITED", "2(x3),1", "8(x2),4"))
    # The job's own environment, from Slurm: what cannot be read ends the step with its words.
    return Target(run, seeds, encoded(("(x", "-", ":", ",")), (ValueError,))


@target(
    "slurm-options",
    "slurm/translate/sbatch_options.py, slurm/submit/user_script.py, "
    "cli/kubectl_plugin/sbatch_line.py: flags and scripts",
    "annotations of small accounts",
)
def slurm_options() -> Target:
    def run(data: bytes) -> None:
        text = _text(data)
        user_script.header(text)
        user_script.output_file(text, {"j": "17", "a": "3"})
        user_script.exported(data)
        for read in (
            lambda: sbatch_options.from_flags(text, "here"),
            lambda: sbatch_options.from_annotation(*text.partition("=")[::2], "here"),
            lambda: user_script.tasks(text),
            lambda: user_script.check(text, "here"),
            lambda: split(shlex.split(text)),
        ):
            try:
                read()
            except ConfigError:
                pass
            except ValueError:  # of shlex alone
                if _is_quoted_right(text):
                    raise

    seeds = encoded(
        (
            "--nodes=2 -n4 --time 1:00 -HO --gres=gpu:1 'a b'",
            "#!/bin/sh\n#SBATCH --nodes=2 # why\n#SBATCH -N 1 --array=0-15:4,20%2\necho\n",
            "0-15:4,20%2", "1,3,5", "time=10", "slurm-%A_%4a.out",
            "A=b\0C=d e\0BASH_FUNC_f%%=() {\0",
        )
    )  # fmt: skip
    words = encoded(
        ("--", "-N", "=", "#SBATCH ", "%", ":", "--wrap", "--array", "'", '"', "--export=ALL,")
    )
    return Target(run, seeds, words)


def _is_quoted_right(text: str) -> bool:
    try:
        shlex.split(text)
    except ValueError:
        return False
    return True


@target("mpirun-words", "extensions/mpijob/mpirun_arguments.py", "small accounts")
def mpirun_words() -> Target:
    def run(data: bytes) -> None:
        words = _text(data).split("\n")
        strip(words)

    seeds = encoded(
        (
            "mpirun\n-np\n4\n-x\nA=b\n--map-by\nppr:2:node\n--mca\na\nb\nprog\n-v",
            "sh\n-c\nmpiexec -n 2 -ppn 1 -genv A b ./prog 'x y' && true",
            "/usr/bin/mpirun\n--bind-to=core\n--\nprog",
        )
    )
    words = encoded(("mpirun", "sh\n-c\n", "\n", "-np", "--", "ppr:", "'", '"', ";", "$", "\\"))
    return Target(run, seeds, words, (NotStripped,))
