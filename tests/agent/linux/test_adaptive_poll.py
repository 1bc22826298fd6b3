"""What is dear to look at is looked at rarely, and no more once it has been seen."""

from __future__ import annotations

import threading
import time

from orlop.agent.linux.adaptive_poll import REST, now_and_then


def test_it_looks_until_it_has_seen_enough():
    looks, enough = [], threading.Event()

    def look() -> bool:
        looks.append(time.monotonic())
        if len(looks) == 3:
            enough.set()
        return len(looks) == 3

    now_and_then(look, 0.001)
    assert enough.wait(30)
    time.sleep(0.05)
    assert len(looks) == 3


def test_the_longer_a_look_takes_the_rarer_it_is_taken():
    looks, enough = [], threading.Event()

    def look() -> bool:
        began = time.monotonic()
        time.sleep(0.01)
        looks.append((began, time.monotonic()))
        if len(looks) == 2:
            enough.set()
        return len(looks) == 2

    now_and_then(look, 0.001)
    assert enough.wait(30)
    (began, ended), (again, _) = looks
    assert again - ended >= REST * (ended - began)
