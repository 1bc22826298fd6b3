"""What a container may ask of srun, and what it may not."""

from __future__ import annotations

import pytest

from orlop.agent.ranks.srun_options import Refused, read

JOB = "17"


def asked(*words):
    """What srun is told beside what is always said."""
    options = read([*words, "prog"], JOB).options()
    return [word for word in options if word not in ("--overlap", "--mem=0", "--job-name=prog")]


@pytest.mark.parametrize(
    ("words", "options"),
    [
        # As Hydra, Intel's, Open MPI 4 and 5, and a person call it.
        ("-N 2 -n 2 --input none", ["--nodes=2", "--ntasks=2", "--input=none"]),
        (
            "-N 2 -n 2 --ntasks-per-node 1 --nodelist n1,n2 --input none",
            ["--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--nodelist=n1,n2", "--input=none"],
        ),
        (
            "--ntasks-per-node=1 --kill-on-bad-exit --mpi=none --nodes=1 --nodelist=n[2-3]",
            ["--ntasks-per-node=1", "--kill-on-bad-exit", "--mpi=none", "--nodes=1",
             "--nodelist=n[2-3]"],
        ),
        ("--external-launcher --cpu_bind=none", ["--external-launcher", "--cpu_bind=none"]),
        ("-lN2 -n4 -uvv", ["--label", "--nodes=2", "--ntasks=4", "--unbuffered", "--verbose",
                           "--verbose"]),
        ("-K1 -K -I5 -s", ["--kill-on-bad-exit=1", "--kill-on-bad-exit", "--immediate=5",
                           "--oversubscribe"]),
        ("-m block:cyclic --cpu-bind=map_cpu:0,2", ["--distribution=block:cyclic",
                                                    "--cpu-bind=map_cpu:0,2"]),
        ("--ntasks-per-n 2 --lab --exclusi=user", ["--ntasks-per-node=2", "--label",
                                                   "--exclusive=user"]),
        ("--tasks-per-node=2", ["--ntasks-per-node=2"]),
        ("-o none -e all -i 3", ["--output=none", "--error=all", "--input=3"]),
        ("--gres=gpu:a100:2 --gpus-per-task=1 --mem=4G", ["--gres=gpu:a100:2", "--gpus-per-task=1",
                                                          "--mem=4G"]),
        ("-t 1-02:00:00 -W0 -x n4", ["--time=1-02:00:00", "--wait=0", "--exclude=n4"]),
        ("--jobid 17 -n1", ["--ntasks=1"]),
        ("", []),
    ],
)  # fmt: skip
def test_what_is_allowed_goes_on_spelled_out(words, options):
    assert asked(*words.split()) == options


@pytest.mark.parametrize(
    "words",
    [
        # Programs and files of the node
        "--prolog=/tmp/x", "--epilog /tmp/x", "--task-prolog=/tmp/x", "--task-epilog=/tmp/x",
        "--task-p=/tmp/x", "--pro=/tmp/x", "--bcast=/home/me/x", "--bcast", "--send-libs",
        "--multi-prog", "--export-file=/home/me/.ssh/id", "--nodefile=/etc/passwd",
        "-F /etc/passwd", "--open-mode=append", "--propagate", "--get-user-env",
        "--output=/home/me/.bashrc", "--output=.bashrc", "-o/home/me/.bashrc", "-o %t", "-lo x",
        "--outp /tmp/x", "--error=x", "-e x", "--input=/home/me/.ssh/id", "-i x", "--output=",
        "--nodelist=/etc/passwd", "-w ./hosts", "--exclude=/etc/passwd", "-x ../x",
        # Others than this job, this user and this image
        "--jobid=18", "--jobid 18", "--job=18", "--uid=0", "--gid=0", "--het-group=1",
        "--pack-group=1", "--container=/x", "--container-id=x", "-M other", "--clusters=other",
        "-E", "--preserve-env",
        # What the job has, and what there is not
        "-p main", "--partition=main", "-A a", "--qos=x", "--reservation=x", "-d afterok:1",
        "-Z", "--no-allocate", "-H", "--signal=9", "--network=x", "--slurmd-debug=9", "--x11",
        "--pty", "--interactive", "--test-only", "-T 9", "--resv-ports", "--profile=all",
        # Nothing that srun knows, or nothing certain
        "--nosuch", "--nosuch=1", "-j", "-y", "--n=1", "--ntasks-per=1", "--task=1", "--=x",
        # Values that are none
        "-n x", "-n -1", "--mem=/x", "--mpi=../x", "--mpi=", "--label=1", "--wait=x",
        "--kill-on-bad-exit=2", "--job-name=a\nb",
    ],
)  # fmt: skip
def test_all_else_is_refused(words):
    with pytest.raises(Refused):
        read([*words.split(" "), "prog"], JOB)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--prolog=/tmp/x", "--prolog is not allowed in a container: it would run, read or write"),
        ("--task-p=/tmp/x", "--task-p (--task-prolog) is not allowed in a container: it would run"),
        ("-p main", "-p (--partition) is not allowed in a container: it is for the whole job"),
        ("-lo /x", "--output=/x is not allowed in a container: it would run, read or write files"),
        ("--jobid=18", "--jobid=18: expected the job of this container, 17"),
        ("--nosuch", "--nosuch is not allowed in a container: nothing is known of it here"),
        ("--ntasks-per=1", "--ntasks-per may be any of --ntasks-per-core, --ntasks-per-gpu"),
        ("-n x", "--ntasks=x is not allowed in a container: it has another form"),
    ],
)
def test_a_refusal_names_the_option_and_why(words, said):
    with pytest.raises(Refused) as refused:
        read([*words.split(" "), "prog"], JOB)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    "words",
    [[], ["-n", "2"], ["-n"], ["prog", ":", "--prolog=x", "id"], ["prog", "a", ":"], ["--"]],
)
def test_without_one_command_there_is_nothing_to_run(words):
    with pytest.raises(Refused):
        read(words, JOB)


def test_the_command_is_whatever_comes_after_the_options():
    assert read(["-n", "1", "prog", "-n", "5", "--prolog=x"], JOB).command == [
        "prog", "-n", "5", "--prolog=x",
    ]  # fmt: skip
    assert read(["-n1", "--", "-prog"], JOB).command == ["-prog"]


@pytest.mark.parametrize("word", ["--version", "-V", "--help", "--usage"])
def test_srun_may_be_asked_about_itself(word):
    assert read([word], JOB).is_question


def test_a_call_shares_with_others_and_has_its_programs_name_unless_it_says_otherwise():
    assert read(["/opt/my prog"], JOB).options() == [
        "--overlap", "--mem=0", "--job-name=my_prog",
    ]  # fmt: skip
    words = ["--exact", "--mem=1G", "-Jx", "prog"]
    assert read(words, JOB).options() == ["--exact", "--mem=1G", "--job-name=x"]


ENV = {"A": "1", "B": "2", "SLURM_CONF": "/x", "SRUN_DEBUG": "9", "SLURMD_NODENAME": "n9"}


@pytest.mark.parametrize(
    ("export", "env"),
    [
        (None, {"A": "1", "B": "2"}),
        ("ALL", {"A": "1", "B": "2"}),
        ("ALL,A=3,C=x=y", {"A": "3", "B": "2", "C": "x=y"}),
        ("A=3,ALL", {"A": "3", "B": "2"}),
        ("B,C,SLURM_CONF", {"B": "2"}),
        ("C='x,y',D=\"'\"", {"C": "x,y", "D": "'"}),
        ("NONE", {}),
        ("NIL", {}),
        ("SLURM_CONF=/x,SLURM_TASK_PROLOG=/x", {}),
    ],
)
def test_which_variables_tasks_have_of_their_caller(export, env):
    words = [] if export is None else [f"--export={export}"]
    wanted = read([*words, "prog"], JOB)
    assert wanted.exported(ENV) == env
    assert not any("export" in word for word in wanted.options())


def test_the_folder_of_tasks_is_one_of_the_container():
    wanted = read(["-D", "/data", "prog"], JOB)
    assert wanted.folder == "/data"
    assert not any("/data" in word for word in wanted.options())
