"""The words of mpirun, and what is left of them."""

from __future__ import annotations

import time

import pytest

from orlop.extensions.mpijob.mpirun_arguments import NotStripped, Stripped, strip

STRIPPED = [
    ("mpirun /pi", Stripped(["/pi"])),
    ("/usr/bin/mpirun -np 4 /pi -n 7", Stripped(["/pi", "-n", "7"], ranks=4)),
    ("mpirun --np=4 /pi", Stripped(["/pi"], ranks=4)),
    ("mpiexec -n 2 -x A=b -x C pi", Stripped(["pi"], ranks=2, env={"A": "b"})),
    ("mpiexec.hydra -genv A b -ppn 1 pi x", Stripped(["pi", "x"], per_node=1, env={"A": "b"})),
    ("mpirun -pernode pi", Stripped(["pi"], per_node=1)),
    ("mpirun -mca btl ^tcp pi", Stripped(["pi"], env={"OMPI_MCA_btl": "^tcp"})),
    ("mpirun --prtemca a b pi", Stripped(["pi"], env={"PRTE_MCA_a": "b"})),
    ("mpirun --bind-to none --tag-output pi",
     Stripped(["pi"], flags=["--cpu-bind=none"], is_labelled=True)),
    ("mpirun --map-by ppr:2:node:OVERSUBSCRIBE pi", Stripped(["pi"], per_node=2)),
    ("mpirun --map-by :OVERSUBSCRIBE pi", Stripped(["pi"])),
    ("mpirun -bynode pi", Stripped(["pi"], flags=["--distribution=cyclic"])),
    ("mpirun -wdir /data pi", Stripped(["pi"], folder="/data")),
    ("mpirun --allow-run-as-root --hostfile /etc/mpi/hostfile -- pi", Stripped(["pi"])),
    ("mpirun --rank-by slot -stdin none pi", Stripped(["pi"])),
]  # fmt: skip


@pytest.mark.parametrize(("line", "wanted"), STRIPPED)
def test_mpirun_and_its_options_are_taken_off(line: str, wanted: Stripped) -> None:
    assert strip(line.split()) == wanted


def test_a_shell_with_one_plain_line_is_read() -> None:
    assert strip(["sh", "-c", "mpirun -n 3 python 'a b.py'"]) == Stripped(["python", "a b.py"], 3)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["python", "x.py"],
        ["mpirun"],
        ["mpirun", "-n"],
        ["mpirun", "-n", "x", "pi"],
        ["mpirun", "-n", "2" * 5000, "pi"],
        ["mpirun", "-n", "1", "a", ":", "-n", "1", "b"],
        ["sh", "-c", "cd /x && mpirun pi"],
        ["sh", "-c", "mpirun -n $N pi"],
        ["sh", "-c", "mpirun pi\necho done"],
        ["sh", "-c", "mpirun pi *.dat"],
    ],
)
def test_what_is_no_plain_mpirun_is_said(words: list[str]) -> None:
    with pytest.raises(NotStripped):
        strip(words)


REFUSED = [
    ("mpirun --timeout 60 pi", "does not know --timeout"),
    ("mpirun --npersocket 2 pi", "does not know --npersocket"),
    ("mpiexec -gtool x pi", "does not know -gtool"),
    ("mpiexec -outfile-pattern f pi", "does not know -outfile-pattern"),
    ("mpirun --map-by ppr:1:socket pi", "expected one of ppr:<n>:node"),
    ("mpirun --map-by node:PE=2 pi", "does not know 'PE=2'"),
    ("mpirun --rank-by node pi", "expected one of slot"),
    ("mpirun --stdin all pi", "expected one of none"),
    ("mpirun --tag-output=1 pi", "takes no value"),
]


@pytest.mark.parametrize(("line", "words"), REFUSED)
def test_an_option_that_srun_could_not_keep_is_named(line: str, words: str) -> None:
    with pytest.raises(NotStripped, match=words):
        strip(line.split())


def test_a_shell_line_with_a_quote_that_is_not_closed_is_not_understood() -> None:
    with pytest.raises(NotStripped, match="wants the command mpirun"):
        strip(["sh", "-c", "mpirun -n 2 ./prog 'x"])


def test_very_many_words_are_read_at_once() -> None:
    began = time.process_time()
    assert strip(["mpirun", *["-v"] * 100_000, "pi"]) == Stripped(["pi"])
    assert time.process_time() - began < 1
