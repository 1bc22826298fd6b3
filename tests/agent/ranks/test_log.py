"""Lines of all ranks in one log, and srun's words on the one that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from orlop.agent.container.logs import tail
from orlop.agent.container.run import TERMINAL
from orlop.agent.ranks.log import Failure, RankLog

SAID = (
    b" 0: hello\n"
    b"12: from: afar\n"
    b" 3: \n"
    b"srun: error: n2: task 12: Exited with exit code 7\n"
    b"srun: error: n1: tasks 0-3: Terminated\n"
)


def written(path):
    with open(path) as file:
        return [line.split(" ", 3)[2:] for line in file.read().splitlines()]


@pytest.mark.parametrize("is_labelled", [False, True])
def test_each_line_is_marked_with_its_rank(tmp_path, is_labelled):
    path = str(tmp_path / "logs" / "0.log")
    log = RankLog(path, is_labelled)
    log.feed("stderr", SAID)
    log.close()
    assert [mark for mark, _ in written(path)] == ["F:0", "F:12", "F:3", "F", "F"]
    shown = [" 0: hello", "12: from: afar", " 3: "] if is_labelled else ["hello", "from: afar", ""]
    assert [text for _, text in written(path)][:3] == shown
    assert tail(path).startswith("\n".join(shown) + "\n")


def test_the_first_that_failed_is_remembered(tmp_path):
    log = RankLog(str(tmp_path / "log"))
    log.feed("stderr", SAID[:70])
    assert log.failure is None
    log.feed("stderr", SAID[70:])
    assert str(log.failure) == "rank 12 on node n2: exited with code 7"
    assert (log.failure.code, log.failure.signal) == (7, 0)
    log.close()


def test_the_worst_counts_but_not_what_srun_ended(tmp_path):
    log = RankLog(str(tmp_path / "log"))
    ends = ((1, "Exited with exit code 1"), (3, "Exited with exit code 3"), (0, "Terminated"))
    for rank, how in (*ends, (2, "Exited with exit code 143")):
        log.feed("stderr", f"srun: error: n1: task {rank}: {how}\n".encode())
    assert log.worst.code == 3
    assert log.words == (
        "rank 1 on node n1: exited with code 1; rank 3 on node n1: exited with code 3"
    )
    log.close()


@pytest.mark.parametrize(
    ("ranks", "what", "code", "words"),
    [
        ("3", "Killed", 137, "rank 3 on node n1: ended by signal 9 (Killed)"),
        ("3", "Segmentation fault (core dumped)", 139, "rank 3 on node n1: ended by signal 11"),
        ("0-3,5", "Exited with exit code 1", 1, "ranks 0-3,5 on node n1: exited with code 1"),
        ("3", "Out Of Memory", 137, "rank 3 on node n1: ended by signal 9 (Out Of Memory)"),
    ],
)
def test_how_a_rank_ended_in_the_words_and_numbers_of_kubernetes(ranks, what, code, words):
    failure = Failure("n1", ranks, what)
    assert failure.code == code
    assert str(failure).startswith(words)


def test_those_who_are_attached_see_whole_lines_without_labels(tmp_path):
    log = RankLog(str(tmp_path / "log"))
    seen = [log.shown("stdout", part) for part in (b" 0: he", b"llo\n1", b"2: a: b\n 3: ")]
    assert seen == [b"", b"hello\n", b"a: b\n"]
    log.show_anew()
    assert log.shown("stdout", b" 4: later\n") == b"later\n"
    log.close()


def test_labels_that_were_asked_for_are_seen_and_lines_fit_a_terminal(tmp_path):
    log = RankLog(str(tmp_path / "log"), is_labelled=True, newline=b"\r\n")
    assert log.shown("stdout", b" 0: hello\n") == b" 0: hello\r\n"
    log.close()


@pytest.mark.parametrize(("is_labelled", "text"), [(False, "$ ls"), (True, "0: $ ls")])
def test_what_the_first_rank_prints_on_its_terminal_is_its_own(tmp_path, is_labelled, text):
    path = str(tmp_path / "log")
    log = RankLog(path, is_labelled)
    assert log.shown(TERMINAL, b"$ l") == b"$ l"
    log.feed(TERMINAL, b"$ l")
    log.feed("stdout", b"1: between\n")
    log.feed(TERMINAL, b"s\n")
    log.close()
    between = "1: between" if is_labelled else "between"
    assert written(path) == [["F:1", between], ["F:0", text]]
    assert " stdout " in Path(path).read_text().splitlines()[1]


@pytest.mark.parametrize("piece", [1000, 1 << 20])
def test_every_part_of_a_long_line_is_marked_with_its_rank(tmp_path, piece):
    path = str(tmp_path / "log")
    log = RankLog(path)
    said = b" 7: " + b"x" * 40000 + b"\n 8: short\n"
    for start in range(0, len(said), piece):
        log.feed("stdout", said[start : start + piece])
    log.close()
    lines = written(path)
    assert [mark for mark, _ in lines] == ["P:7", "P:7", "F:7", "F:8"]
    assert "".join(text for _, text in lines[:3]) == "x" * 40000
    assert log.failure is None
