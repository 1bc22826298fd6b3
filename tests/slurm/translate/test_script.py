"""job.sh, held by golden files.

`ORLOP_UPDATE_GOLDEN=1 pytest tests/slurm/translate/test_script.py` writes them anew.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.settings import SlurmSettings
from orlop.slurm.translate.script import directive, script, signal_lead, start

from ..pods import SLURM, container, pod, site, spec_of

GOLDEN = Path(__file__).parent / "golden"

CASES = {
    "plain": (pod(container()), site()),
    "resources": (pod(container({"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"})), site()),
    "deadline": (
        pod(
            container({"cpu": "1"}),
            activeDeadlineSeconds=3600,
            terminationGracePeriodSeconds=300,
            nodeSelector={"feature.slurm.orlop.dev/ib": "true"},
        ),
        site(),
    ),
    "annotations": (
        pod(
            container({"cpu": "1"}),
            annotations={
                SLURM + "flags": "--exclusive --mail-user='Ann Example <ann@example.org>'",
                SLURM + "nodes": "2",
                SLURM + "requeue": "true",
                SLURM + "mpi": "pmix",
            },
        ),
        site(),
    ),
    "site": (
        pod(container()),
        site(
            SlurmSettings(
                account="chem",
                qos="normal",
                flags=["--nice=10"],
                prologue="module load apptainer\nulimit -c 0\n",
            ),
            path="/opt/my tools/bin:/usr/bin",
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_script_is_as_it_was(name):
    golden = GOLDEN / f"{name}.sh"
    text = script(spec_of(*CASES[name]))
    if os.environ.get("ORLOP_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("name", CASES)
def test_bash_can_read_it(name):
    subprocess.run(["bash", "-n"], input=script(spec_of(*CASES[name])), text=True, check=True)


def test_the_agent_takes_the_shells_place_as_the_last_thing():
    last = script(spec_of(*CASES["site"])).splitlines()[-1]
    assert shlex.split(last) == [
        "exec", "$python", "-I", "/home/ann/.orlop/run/agent.pyz", "/home/ann/pod",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("python", "taken"), [("/bin/echo", "/bin/echo"), ("/no/such/python", "python3")]
)
def test_a_node_without_our_interpreter_takes_its_own(tmp_path, python, taken):
    (tmp_path / "python3").write_text("#!/bin/sh\necho python3 $*\n")
    (tmp_path / "python3").chmod(0o755)
    lines = "\n".join(start((python, "the agent")))
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    said = subprocess.run(["bash"], input=lines, env=env, text=True, capture_output=True).stdout
    assert said == ("the agent\n" if taken == python else "python3 the agent\n")


def test_nothing_a_script_makes_is_readable_by_others():
    lines = script(spec_of(*CASES["plain"])).splitlines()
    assert "umask 077" in lines


@pytest.mark.parametrize(
    ("option", "line"),
    [
        (("exclusive", None), "#SBATCH --exclusive"),
        (("nodes", "2-4"), "#SBATCH --nodes=2-4"),
        (("constraint", "[a|b]&c"), "#SBATCH --constraint=[a|b]&c"),
        (("job-name", "two words"), '#SBATCH --job-name="two words"'),
        (("job-name", 'say "hi"'), '#SBATCH --job-name="say \\"hi\\""'),
        (("job-name", "back\\slash"), '#SBATCH --job-name="back\\\\slash"'),
        (("job-name", "#1"), '#SBATCH --job-name="#1"'),
        (("job-name", "$HOME"), '#SBATCH --job-name="$HOME"'),
        (("comment", ""), '#SBATCH --comment=""'),
    ],
)
def test_values_are_quoted_for_sbatch(option, line):
    assert directive(option) == line


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30))
def test_a_directive_is_always_one_line(value):
    assert "\n" not in directive(("comment", value))


HOSTILE = [
    "two words",
    'say "hi"',
    "it's",
    "back\\slash",
    "#1 # 2",
    "$HOME `id` $(id)",
    "a=b;c|d&e",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_sbatch_reads_every_value_as_it_was_meant(name, rootless_slurm):
    text = f"#!/bin/bash\n{directive(('job-name', name))}\n{directive(('hold', None))}\ntrue\n"
    sbatch = rootless_slurm.run("head", ["sbatch", "--parsable", "-o", "/dev/null"], input=text)
    job = sbatch.stdout.strip()
    shown = rootless_slurm.run("head", ["squeue", "-h", "-j", job, "-o", "%j"]).stdout
    rootless_slurm.run("head", ["scancel", job])
    assert shown.rstrip("\n") == name


@pytest.mark.parametrize(
    ("text", "lead"),
    [
        ("#!/bin/bash\n#SBATCH --signal=B:TERM@90\ntrue\n", 90.0),
        ("#!/bin/bash\n#SBATCH --nodes=1\n", 0.0),
        ("#!/bin/bash\n#SBATCH --signal=B:USR1@120\ntrue\n", 120.0),
        ("# --signal=B:TERM@90\n", 0.0),
    ],
)
def test_a_scripts_early_signal_is_read_back(text, lead):
    assert signal_lead(text) == lead


def test_a_written_early_signal_is_read_back():
    assert signal_lead(script(spec_of(*CASES["deadline"]))) == 330.0
