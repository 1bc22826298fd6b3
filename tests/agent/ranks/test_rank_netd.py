"""Whom an attendant knows of."""

from __future__ import annotations

import json
import os
import select
import socket

from orlop.agent.netd.netd_supervisor import PACKETS, send
from orlop.agent.ranks import rank_netd as module
from orlop.agent.ranks.rank_netd import RankNetd

from .test_networking import NETWORK


def test_callers_are_forgotten_with_their_listeners(tmp_path, monkeypatch):
    """A pipe stands for a listener: both tell when nobody is at the other end any more."""
    raw = {
        "version": 1,
        "pod": {"namespace": "d", "name": "p", "uid": "u"},
        "containers": [{"name": "c", "argv": ["true"]}],
        "scratch": str(tmp_path),
        "ranks": {"container": "c", "network": NETWORK},
    }
    (tmp_path / "plan.json").write_text(json.dumps(raw))
    ours, theirs = socket.socketpair(socket.AF_UNIX, PACKETS)
    monkeypatch.setattr(module, "DOOR", theirs.detach())
    attendant = RankNetd(str(tmp_path))
    ends = {}
    with ours:
        for pid in (17, 18):
            listener, ends[pid] = os.pipe()
            send(ours, str(pid).encode(), [listener])
            os.close(listener)
            attendant._on_door()
    assert attendant._keeper.elsewhere() == [17, 18]
    os.close(ends[17])
    for fd, events in attendant._poll.poll(60_000):
        assert events & select.POLLHUP
        attendant._watches[fd]()
    assert attendant._keeper.elsewhere() == [18]
    os.close(ends[18])
    keeper = attendant._keeper
    rooms = [end for room in keeper._rooms for end in room] + [keeper._notices]
    ends_of_keeper = (keeper._door, keeper._way_in, keeper._porch, keeper._way_to_porch)
    for end in (attendant._door, *ends_of_keeper, *rooms):
        end.close()
    for fd in (*attendant._callers, attendant._line._wake_read, attendant._line._wake_write):
        os.close(fd)
