"""What a SlurmJob prints, from the logs that an API server would stream."""

from __future__ import annotations

import os
import sys

import pytest

from orlop.cli.kubectl_plugin.job_output import Output, _lines


class Api:
    """As kubeapi.KubeApi, for one pod."""

    def __init__(self, **logs: bytes) -> None:
        self.logs = {name.replace("_", "-"): text for name, text in logs.items()}
        self.asked: list[str] = []

    def stream(self, path: str):
        self.asked.append(path)
        name = path.partition("container=")[2].partition("&")[0]
        yield from (self.logs[name][:4], self.logs[name][4:])


def started(*names: str):
    return [{"name": name, "state": {"running": {}}} for name in names]


def test_lines_are_whole_and_the_last_one_ends():
    assert list(_lines([b"a", b"b\nc\n", b"", b"d"])) == [b"ab\n", b"c\n", b"d\n"]


def test_errors_are_printed_as_errors(capfdbinary: pytest.CaptureFixture[bytes]):
    output = Output(Api(job=b"out\xff", errors=b"bad\n"), "ns", "p", follow=False)
    output.show(started("job", "errors"), labelled=False)
    output.finish()
    assert capfdbinary.readouterr() == (b"out\xff", b"bad\n")


def test_tasks_are_shown_once_as_they_start_each_line_with_its_task(
    capfdbinary: pytest.CaptureFixture[bytes],
):
    api = Api(task_0=b"one\ntwo", task_1=b"three\n")
    output = Output(api, "ns", "p", follow=True)
    waits = {"name": "task-1", "state": {"waiting": {"reason": "Resources"}}}
    output.show([*started("task-0"), waits], labelled=True)
    output.finish()
    assert [path.partition("?")[2] for path in api.asked] == ["container=task-0&follow=true"]
    output.show(started("task-0", "task-1"), labelled=True)
    output.finish()
    printed = capfdbinary.readouterr().out
    assert printed == b"[task-0] one\n[task-0] two\n[task-1] three\n"


def test_it_ends_where_nobody_reads_any_more(monkeypatch: pytest.MonkeyPatch):
    """As `| head` has it."""
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        output = Output(Api(job=b"1\n2\n3\n"), "ns", "p", follow=True)
        output.show(started("job"), labelled=False)
        assert not output.finish()
        assert output.is_cut_off
        stdout.write("what is left, at the end of Python")
