"""Probes as they are counted: when they are due, what their results add up to, what is told."""

from __future__ import annotations

import pytest

from orlop.agent.pod.lifecycle_events import Probed
from orlop.agent.probes.handlers import Outcome
from orlop.agent.probes.prober import BURST, REFILL, Allowance, Probe, Prober, probe_spec


def probe(kind="readiness", since=0.0, **fields):
    return Probe(probe_spec(kind, fields), since)


def verdicts(one, results):
    """The verdict after each result, where it changed it."""
    return [one.verdict if one.end(0.0, is_good) else None for is_good in results]


@pytest.mark.parametrize(
    ("kind", "fields", "results", "expected"),
    [
        ("readiness", {}, [True], [True]),
        ("readiness", {"successThreshold": 2}, [True, True], [None, True]),
        ("readiness", {"successThreshold": 2}, [True, False, True], [None, None, None]),
        ("readiness", {"failureThreshold": 2}, [True, False, False], [True, None, False]),
        ("readiness", {}, [False, False, False], [None, None, None]),
        ("liveness", {}, [True, False, False, False], [None, None, None, False]),
        ("liveness", {"failureThreshold": 1}, [False], [False]),
        ("liveness", {"failureThreshold": 2}, [False, True, False], [None, None, None]),
        ("startup", {"failureThreshold": 2}, [False, True], [None, True]),
        ("startup", {"failureThreshold": 2}, [False, False], [None, False]),
        ("liveness", {"failureThreshold": 2}, [False, None, False], [None, None, False]),
    ],
)
def test_thresholds_count_results_in_a_row(kind, fields, results, expected):
    assert verdicts(probe(kind, **fields), results) == expected


def test_the_first_look_comes_after_the_delay_and_the_next_after_the_period():
    one = probe(initialDelaySeconds=5, periodSeconds=3, since=100.0)
    assert one.next_at == 105.0
    one.begin(105.0)
    one.end(105.2, True)
    assert one.next_at == 108.0


def test_a_look_that_outlasts_its_period_is_followed_at_once():
    one = probe(periodSeconds=1)
    one.begin(0.0)
    one.end(2.5, True)
    assert one.next_at == 2.5


def test_many_events_are_told_at_once_and_then_few():
    allowance = Allowance(0.0)
    assert [allowance.take(1.0) for _ in range(BURST + 1)] == [True] * BURST + [False]
    assert not allowance.take(REFILL / 2)
    assert allowance.take(REFILL + 2.0)


class Supervisor:
    """The prober's surroundings: a clock, and who is told."""

    def __init__(self):
        self.time, self.posted, self.recorded = 0.0, [], []

    def now(self):
        return self.time

    def post(self, event):
        self.posted.append(event)

    def record(self, fields):
        self.recorded.append(fields)


class Scripted:
    """Checks that are answered by the test, each when it likes."""

    def __init__(self):
        self.begun = []

    def begin(self, container, action, timeout, done):
        self.begun.append((container, action, timeout, done))

    def answer(self, *outcome):
        done = self.begun.pop(0)[3]
        done(Outcome(*outcome))


class Scene:
    def __init__(self, **probes):
        self.supervisor, self.checks, self.is_ending = Supervisor(), Scripted(), False
        self.prober = Prober(self.supervisor, self.checks, lambda: self.is_ending)
        self.prober.watch("a", 0, 0.0, probes)

    def at(self, time):
        """What is asked at a time, by the probe's own mark."""
        self.supervisor.time = time
        self.prober.tick(time)
        return [action["exec"] for _, action, _, _ in self.checks.begun]


def marked(name, **fields):
    return {"exec": name, "periodSeconds": 10, **fields}


def test_nothing_else_is_asked_before_the_container_has_started():
    scene = Scene(startup=marked("s"), liveness=marked("l"), readiness=marked("r"))
    assert scene.at(0.0) == ["s"]
    scene.checks.answer("failure", "no")
    assert scene.at(9.0) == []
    assert scene.at(10.0) == ["s"]
    scene.checks.answer("success")
    assert scene.supervisor.posted == [Probed("a", 0, "startup", True)]
    assert scene.at(10.1) == ["l", "r"], "at once, and not after another period"
    assert scene.at(25.0) == ["l", "r"], "none is asked again before it has answered"


def test_a_failed_container_is_not_asked_whether_it_lives_any_more():
    scene = Scene(liveness=marked("l", failureThreshold=1), readiness=marked("r"))
    scene.at(0.0)
    scene.checks.answer("failure", "no")
    scene.checks.answer("success")
    assert scene.at(10.0) == ["r"]


def test_a_pod_that_ends_is_asked_only_whether_it_is_ready():
    scene = Scene(liveness=marked("l"), readiness=marked("r"))
    scene.is_ending = True
    assert scene.at(0.0) == ["r"]


def test_what_could_not_be_tried_counts_neither_way():
    scene = Scene(liveness=marked("l", failureThreshold=1))
    scene.at(0.0)
    scene.checks.answer("error", "no such program")
    assert scene.supervisor.posted == []
    (event,) = scene.supervisor.recorded
    assert event["message"].startswith("Liveness probe errored and resulted in unknown state: no")


@pytest.mark.parametrize(
    ("outcome", "reason", "message"),
    [
        (("failure", "HTTP probe failed with statuscode: 500"), "Unhealthy",
         "Readiness probe failed: HTTP probe failed with statuscode: 500"),
        (("warning", "Probe terminated redirects"), "ProbeWarning",
         "Readiness probe warning: Probe terminated redirects"),
    ],
)  # fmt: skip
def test_every_look_that_was_not_well_is_told_in_upstreams_words(outcome, reason, message):
    scene = Scene(readiness=marked("r"))
    scene.at(0.0)
    scene.checks.answer(*outcome)
    (event,) = scene.supervisor.recorded
    assert (event["kind"], event["reason"], event["message"]) == ("Warning", reason, message)


def test_a_warning_is_good():
    scene = Scene(readiness=marked("r"))
    scene.at(0.0)
    scene.checks.answer("warning", "redirects")
    assert scene.supervisor.posted == [Probed("a", 0, "readiness", True)]


def test_the_answer_for_a_run_that_is_over_is_passed_over():
    scene = Scene(readiness=marked("r"))
    scene.at(0.0)
    scene.prober.drop("a")
    scene.checks.answer("success")
    assert scene.supervisor.posted == []


def test_the_prober_wakes_for_the_next_probe_that_may_run():
    scene = Scene(startup=marked("s", initialDelaySeconds=7), liveness=marked("l"))
    assert scene.prober.next_deadline() == 7.0
    scene.at(7.0)
    assert scene.prober.next_deadline() is None, "the answer will wake it"
