"""Commands for a rank that is named, and where that is."""

from __future__ import annotations

import os
import socket

import pytest

from orlop.agent.exec.nsenter import Command
from orlop.agent.ranks.entering import launch, node_of, rank_of

LAYOUT = """\
Job step layout:
  4 tasks, 2 nodes (n1,n2)

  Node 0 (n1), 2 task(s): 0 2
  Node 1 (n2), 2 task(s): 1 13
"""


@pytest.mark.parametrize(
    ("argv", "rank"), [(["@3", "ps"], 3), (["ps", "@3"], None), (["@", "x"], None), ([], None)]
)
def test_a_command_names_its_rank_by_its_first_word(argv, rank):
    assert rank_of(argv) == rank


def test_slurm_tells_where_a_rank_is():
    assert [node_of(LAYOUT, rank) for rank in (0, 1, 2, 13)] == ["n1", "n2", "n1", "n2"]


def test_a_rank_that_is_not_there_is_named():
    with pytest.raises(OSError, match="there is no rank 3"):
        node_of(LAYOUT, 3)


def test_a_rank_without_a_command_is_refused(monkeypatch):
    def gone(code):
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", gone)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(SystemExit):
            launch(Command(["@3"], None, 0, False), 3, {}, "", theirs)()
        assert ours.recv(100) == b"!expected a command after @3, found none"
