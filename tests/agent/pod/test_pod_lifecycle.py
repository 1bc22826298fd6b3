"""The pod's life as a state machine: every rule, with times of our own and no I/O."""

from __future__ import annotations

import itertools

import pytest

from orlop.agent.container.container_state import Spec
from orlop.agent.pod.lifecycle_events import (
    Begin,
    Exited,
    Finish,
    NotStarted,
    Record,
    Signal,
    Start,
    Started,
    Terminate,
    Tick,
    Warn,
)
from orlop.agent.pod.pod_lifecycle import Life, PodSpec

KILL, TERM, QUIT = 9, 15, 3


class Story:
    """A Life that is told events and remembers what it wanted."""

    def __init__(self, *specs, policy="Always", grace=30.0, deadline=0.0, past=(), **more):
        pod = PodSpec("p_default(u)", policy, grace, deadline, active_since=0.0, **more)
        self.life = Life(pod, [spec if isinstance(spec, Spec) else Spec(spec) for spec in specs])
        self.life.remember(list(past))
        self.now = 0.0
        self.actions = []

    def tell(self, event, at=None):
        """Observe an event; what it asks to be done, without the records."""
        self.now = self.now if at is None else at
        actions = self.life.observe(event, self.now)
        self.actions += actions
        return [action for action in actions if not isinstance(action, Record)]

    def runs(self, name, code=0, at=None, **more):
        """A container starts and ends."""
        self.tell(Started(name), at)
        return self.tell(Exited(name, code, **more))

    def records(self, kind):
        found = [a.fields for a in self.actions if isinstance(a, Record)]
        return [fields for fields in found if fields["type"] == kind]

    def last(self, name):
        return [fields for fields in self.records("container") if fields["name"] == name][-1]

    def events(self):
        return [fields["reason"] for fields in self.records("event")]

    def end(self):
        (finished,) = self.records("finished")
        return finished["phase"], finished["reason"]


def init(name):
    return Spec(name, init=True)


def test_all_containers_start_at_once():
    assert Story("a", "b").tell(Begin()) == [Start("a", 0), Start("b", 0)]


def test_init_containers_run_in_order_before_the_others():
    story = Story(init("i"), init("j"), "a", "b")
    assert story.tell(Begin()) == [Start("i", 0)]
    assert story.runs("i") == [Start("j", 0)]
    assert story.runs("j") == [Start("a", 0), Start("b", 0)]


def test_containers_wait_for_the_init_containers_with_upstreams_reason():
    story = Story(init("i"), "a")
    story.tell(Begin())
    assert story.last("a")["state"] == "waiting"
    assert story.last("a")["reason"] == "PodInitializing"


def test_a_container_that_runs_is_recorded_with_its_start():
    story = Story("a")
    story.tell(Begin())
    story.tell(Started("a"), at=7.0)
    expected = {"state": "running", "startedAt": 7.0, "restart": 0, "init": False}
    assert expected.items() <= story.last("a").items()
    assert story.events() == ["Started"]


@pytest.mark.parametrize(
    ("exit", "expected"),
    [
        (Exited("a", 0), {"reason": "Completed", "exitCode": 0}),
        (Exited("a", 3), {"reason": "Error", "exitCode": 3}),
        (Exited("a", 143, signal=15), {"reason": "Error", "exitCode": 143, "signal": 15}),
        (Exited("a", 137, signal=9, is_oom=True), {"reason": "OOMKilled", "exitCode": 137}),
        (Exited("a", 1, message="why"), {"reason": "Error", "message": "why"}),
    ],
    ids=["completed", "error", "signal", "oom", "message"],
)
def test_the_end_of_a_container_is_recorded_in_upstreams_words(exit, expected):
    story = Story("a", policy="Never")
    story.tell(Begin())
    story.tell(Started("a"), at=1.0)
    story.tell(exit, at=5.0)
    times = {"state": "terminated", "startedAt": 1.0, "finishedAt": 5.0}
    assert {**times, **expected}.items() <= story.last("a").items()


POLICY_TABLE = [
    # policy, exit code, restarted?, phase if not
    ("Always", 0, True, None),
    ("Always", 1, True, None),
    ("OnFailure", 0, False, "Succeeded"),
    ("OnFailure", 1, True, None),
    ("Never", 0, False, "Succeeded"),
    ("Never", 1, False, "Failed"),
]


@pytest.mark.parametrize(("policy", "code", "restarted", "phase"), POLICY_TABLE)
def test_the_restart_policy_decides_what_follows_an_end(policy, code, restarted, phase):
    story = Story("a", policy=policy)
    story.tell(Begin())
    wanted = story.runs("a", code)
    if restarted:
        assert wanted == [Start("a", 1)]
    else:
        assert wanted == [Finish(code)]
        assert story.end() == (phase, "")


@pytest.mark.parametrize(
    ("policy", "code", "wanted"),
    [
        ("Always", 0, [Start("a", 0)]),
        ("OnFailure", 0, [Start("a", 0)]),
        ("Never", 0, [Start("a", 0)]),
        ("Always", 4, [Start("i", 1)]),
        ("OnFailure", 4, [Start("i", 1)]),
        ("Never", 4, [Finish(4)]),
    ],
)
def test_an_init_container_restarts_only_after_failing(policy, code, wanted):
    story = Story(init("i"), "a", policy=policy)
    story.tell(Begin())
    assert story.runs("i", code) == wanted


def test_a_failed_init_container_ends_the_pod_before_its_containers_start():
    story = Story(init("i"), init("j"), "a", policy="Never")
    story.tell(Begin())
    story.runs("i", 9)
    assert story.end() == ("Failed", "")
    assert not [action for action in story.actions if action == Start("j", 0)]


def crash(story, lasting=1.0):
    """Run until the next end; the delay before the following start."""
    story.tell(Started("a"))
    wanted = story.tell(Exited("a", 1), at=story.now + lasting)
    if wanted:
        return 0.0
    delay = story.life.next_deadline() - story.now
    assert story.tell(Tick(), at=story.now + delay - 0.001) == []
    (start,) = story.tell(Tick(), at=story.now + 0.001)
    assert isinstance(start, Start)
    return round(delay, 6)


def test_back_off_doubles_from_ten_seconds_to_five_minutes():
    story = Story("a")
    story.tell(Begin())
    delays = [crash(story) for _ in range(9)]
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300, 300]


def test_back_off_starts_afresh_after_a_run_of_ten_minutes():
    story = Story("a")
    story.tell(Begin())
    assert [crash(story) for _ in range(4)] == [0, 10, 20, 40]
    assert [crash(story, lasting=601), crash(story), crash(story)] == [0, 10, 20]


def test_a_run_just_below_ten_minutes_does_not_reset_the_back_off():
    story = Story("a")
    story.tell(Begin())
    assert [crash(story) for _ in range(3)] == [0, 10, 20]
    assert crash(story, lasting=599) == 40


def test_a_container_in_back_off_waits_as_crash_loop_back_off():
    story = Story("a")
    story.tell(Begin())
    story.runs("a", 1)
    story.runs("a", 1)
    waiting = story.last("a")
    assert (waiting["state"], waiting["reason"]) == ("waiting", "CrashLoopBackOff")
    assert waiting["message"] == "back-off 10s restarting failed container=a pod=p_default(u)"
    assert waiting["restart"] == 2
    assert story.events()[-1] == "BackOff"


@pytest.mark.parametrize(("times", "words"), [(5, "1m20s"), (8, "5m0s")])
def test_long_back_offs_are_printed_as_go_prints_durations(times, words):
    story = Story("a")
    story.tell(Begin())
    for _ in range(times - 1):
        crash(story)
    story.runs("a", 1)
    assert f"back-off {words} " in story.last("a")["message"]


def test_containers_back_off_each_on_its_own():
    story = Story("a", "b")
    story.tell(Begin())
    story.tell(Started("b"))
    story.runs("a", 1)
    story.runs("a", 1)
    assert story.tell(Exited("b", 1)) == [Start("b", 1)]


def test_restarts_are_counted():
    story = Story("a")
    story.tell(Begin())
    for count in range(3):
        crash(story)
        assert story.life.members["a"].restart == count + 1


def test_what_the_runtime_refused_is_a_start_error_with_its_words():
    story = Story("a", policy="Never")
    story.tell(Begin())
    assert story.tell(NotStarted("a", "crun: no such file")) == [Finish(128)]
    expected = {"state": "terminated", "reason": "StartError", "exitCode": 128}
    assert {**expected, "message": "crun: no such file"}.items() <= story.last("a").items()
    (event,) = story.records("event")
    assert (event["kind"], event["reason"]) == ("Warning", "Failed")
    assert event["message"] == "Error: crun: no such file"


def test_what_the_runtime_refused_is_tried_again_by_policy():
    story = Story("a", policy="OnFailure")
    story.tell(Begin())
    assert story.tell(NotStarted("a", "no")) == [Start("a", 1)]
    assert story.tell(NotStarted("a", "no")) == []
    assert story.last("a")["reason"] == "CrashLoopBackOff"


def test_the_pod_ends_when_its_last_container_does():
    story = Story("a", "b", policy="Never")
    story.tell(Begin())
    assert story.runs("b", 0) == []
    assert story.runs("a", 0) == [Finish(0)]


@pytest.mark.parametrize(
    ("codes", "phase", "code"),
    [((0, 0), "Succeeded", 0), ((0, 5), "Failed", 5), ((6, 0), "Failed", 6), ((7, 8), "Failed", 7)],
)
def test_the_phase_and_exit_code_come_from_the_containers(codes, phase, code):
    story = Story("a", "b", policy="Never")
    story.tell(Begin())
    story.runs("a", codes[0])
    assert story.runs("b", codes[1]) == [Finish(code)]
    assert story.end()[0] == phase


def running(*names, **options):
    story = Story(*names, **options)
    story.tell(Begin())
    for name in story.life.members:
        story.tell(Started(name))
    return story


def test_termination_signals_every_container_and_kills_after_the_grace():
    story = running("a", Spec("b", stop_signal=QUIT))
    assert story.tell(Terminate("deleted", 20), at=100.0) == [Signal("a", TERM), Signal("b", QUIT)]
    assert story.life.next_deadline() == 120.0
    assert story.tell(Tick(), at=119.9) == []
    assert story.tell(Tick(), at=120.0) == [Signal("a", KILL), Signal("b", KILL)]


def test_termination_is_recorded_and_each_stop_is_an_event():
    story = running("a")
    story.tell(Terminate("deleted", 20))
    assert story.records("terminating") == [{"type": "terminating", "why": "deleted", "grace": 20}]
    assert story.events() == ["Started", "Killing"]


def test_a_container_that_ends_in_time_is_not_killed_nor_restarted():
    story = running("a", "b")
    story.tell(Terminate("deleted", 20), at=0.0)
    assert story.tell(Exited("a", 0), at=1.0) == []
    assert story.tell(Tick(), at=20.0) == [Signal("b", KILL)]
    assert story.tell(Exited("b", 137, signal=9)) == [Finish(137)]
    assert story.end() == ("Failed", "")


def test_deleted_containers_that_exit_well_make_a_success():
    story = running("a")
    story.tell(Terminate("deleted", 20))
    assert story.tell(Exited("a", 0)) == [Finish(0)]
    assert story.end() == ("Succeeded", "")


def test_no_grace_kills_at_once():
    story = running("a")
    assert story.tell(Terminate("deleted", 0)) == [Signal("a", KILL)]


def test_a_second_termination_may_only_shorten_the_grace():
    story = running("a")
    story.tell(Terminate("deleted", 30), at=0.0)
    assert story.tell(Terminate("deleted", 300), at=1.0) == []
    assert story.life.next_deadline() == 30.0
    assert story.tell(Terminate("signal", 5), at=2.0) == []
    assert story.life.next_deadline() == 7.0
    assert story.tell(Terminate("deleted", 0), at=3.0) == [Signal("a", KILL)]
    assert len(story.records("terminating")) == 1


def test_a_container_that_is_being_started_is_signalled_as_soon_as_it_runs():
    story = Story("a")
    story.tell(Begin())
    assert story.tell(Terminate("deleted", 20), at=0.0) == []
    assert story.tell(Started("a"), at=1.0) == [Signal("a", TERM)]
    assert story.tell(Tick(), at=20.0) == [Signal("a", KILL)]


def test_a_container_that_starts_although_it_was_killed_is_killed_at_once():
    story = Story("a")
    story.tell(Begin())
    assert story.tell(Terminate("signal", 0), at=1) == [Signal("a", KILL)]
    assert story.tell(Started("a"), at=1.1) == [Signal("a", KILL)]


def test_a_start_that_outlasts_the_grace_is_killed():
    story = Story("a")
    story.tell(Begin())
    story.tell(Terminate("deleted", 2), at=0.0)
    assert story.tell(Tick(), at=2.0) == [Signal("a", KILL)]
    assert story.tell(NotStarted("a", "killed")) == [Finish(128)]


def test_a_kill_is_repeated_for_a_container_that_was_just_starting():
    story = running("a")
    story.tell(Terminate("deleted", 0), at=0.0)
    assert story.tell(Tick(), at=story.life.next_deadline()) == [Signal("a", KILL)]


def test_a_container_in_back_off_is_not_started_again_while_terminating():
    story = Story("a")
    story.tell(Begin())
    story.runs("a", 1)
    story.runs("a", 3)
    assert story.tell(Terminate("deleted", 20)) == [Finish(3)]


def test_a_pod_terminated_during_its_init_containers_has_failed():
    story = Story(init("i"), "a")
    story.tell(Begin())
    story.tell(Started("i"))
    story.tell(Terminate("deleted", 20))
    assert story.tell(Exited("i", 0)) == [Finish(1)]
    assert story.end()[0] == "Failed"


def test_what_the_engine_ended_has_failed_even_with_good_exit_codes():
    story = running("a", policy="Never")
    story.tell(Terminate("signal", 20))
    story.tell(Exited("a", 0))
    assert story.end() == ("Failed", "Terminated")


def test_the_active_deadline_ends_the_pod():
    story = running("a", deadline=60.0, grace=10.0)
    assert story.life.next_deadline() == 60.0
    assert story.tell(Tick(), at=60.0) == [Signal("a", TERM)]
    assert story.records("terminating")[0]["why"] == "deadline"
    assert "DeadlineExceeded" in [event["reason"] for event in story.records("event")]
    story.tell(Exited("a", 0), at=61.0)
    assert story.end() == ("Failed", "DeadlineExceeded")


def test_the_active_deadline_does_not_start_a_termination_anew():
    story = running("a", deadline=60.0)
    story.tell(Terminate("deleted", 100), at=0.0)
    assert story.tell(Tick(), at=60.0) == []
    assert story.life.next_deadline() == 100.0


def test_nothing_is_wanted_after_the_end():
    story = Story("a", policy="Never")
    story.tell(Begin())
    story.runs("a", 0)
    assert story.tell(Terminate("deleted", 1)) == []
    assert story.tell(Tick()) == []
    assert story.life.next_deadline() is None


def container(name, restart, state, **fields):
    head = {"type": "container", "name": name, "init": False, "restart": restart, "state": state}
    return {**head, **fields}


STARTED = {"type": "started", "job": "7", "restart": 0}


def ended(name, restart, code):
    return container(name, restart, "terminated", exitCode=code)


def test_a_requeued_pod_counts_on_and_says_what_was_lost():
    past = [STARTED, container("a", 2, "running", startedAt=5.0)]
    story = Story("a", past=past)
    assert story.tell(Begin()) == [Start("a", 3)]
    lost = story.records("container")[0]
    expected = {"restart": 2, "reason": "ContainerStatusUnknown", "exitCode": 137}
    assert {**expected, "state": "terminated", "startedAt": 5.0}.items() <= lost.items()


@pytest.mark.parametrize(
    ("policy", "record", "wanted"),
    [
        ("Never", container("a", 0, "running", startedAt=1.0), [Start("a", 1)]),
        ("OnFailure", ended("a", 0, 0), [Finish(0)]),
        ("OnFailure", ended("a", 0, 1), [Start("a", 1)]),
        ("Always", ended("a", 4, 0), [Start("a", 5)]),
        ("Never", ended("a", 0, 3), [Finish(3)]),
        ("Always", container("a", 3, "waiting", reason="CrashLoopBackOff"), [Start("a", 3)]),
    ],
    ids=["lost", "done", "failed", "always", "failed for good", "in back-off"],
)
def test_a_requeued_container_goes_on_where_its_policy_says(policy, record, wanted):
    assert Story("a", policy=policy, past=[STARTED, record]).tell(Begin()) == wanted


def test_what_ended_because_its_job_was_ended_runs_again_after_the_requeue():
    terminating = {"type": "terminating", "why": "signal", "grace": 30}
    past = [STARTED, terminating, ended("a", 0, 143), {"type": "finished", "phase": "Failed"}]
    assert Story("a", policy="Never", past=past).tell(Begin()) == [Start("a", 1)]


NEAR = {"type": "condition", "condition": "orlop.dev/TimeLimit", "status": "True"}
REQUEUED = {**NEAR, "status": "False"}


@pytest.mark.parametrize(
    ("past", "wanted"),
    [
        ([NEAR, ended("a", 0, 9)], [Start("a", 1)]),
        ([NEAR, ended("a", 0, 0)], [Finish(0)]),
        ([ended("a", 0, 9), NEAR], [Finish(9)]),
        ([NEAR, ended("a", 0, 9), STARTED, REQUEUED, ended("a", 1, 9)], [Finish(9)]),
    ],
    ids=["saved and failed", "done", "failed before", "failed in the run after"],
)
def test_what_failed_once_it_was_warned_runs_again_after_the_requeue(past, wanted):
    assert Story("a", policy="Never", past=[STARTED, *past]).tell(Begin()) == wanted


def test_what_ended_before_its_job_was_ended_stays_ended():
    terminating = {"type": "terminating", "why": "signal", "grace": 30}
    past = [STARTED, ended("a", 0, 0), terminating, ended("b", 0, 143)]
    assert Story("a", "b", policy="OnFailure", past=past).tell(Begin()) == [Start("b", 1)]


def test_init_containers_run_again_on_the_new_machine():
    past = [STARTED, ended("i", 0, 0) | {"init": True}, container("a", 0, "running", startedAt=1.0)]
    story = Story(init("i"), "a", past=past)
    assert story.tell(Begin()) == [Start("i", 1)]
    assert story.runs("i") == [Start("a", 1)]


def test_a_second_requeue_counts_on_from_the_first():
    past = [
        STARTED,
        container("a", 0, "running", startedAt=1.0),
        STARTED,
        ended("a", 0, 137),
        container("a", 1, "running", startedAt=2.0),
    ]
    assert Story("a", past=past).tell(Begin()) == [Start("a", 2)]


POSSIBLE = {
    "starting": [Started("a"), NotStarted("a", "no")],
    "running": [Exited("a", 0), Exited("a", 1)],
}
ALWAYS = [Tick(), Terminate("deleted", 5.0), Terminate("signal", 0.0)]


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_no_order_of_events_leads_astray(policy):
    """Every sequence of six possible events keeps what must always hold."""
    for choice in itertools.product(range(5), repeat=6):
        story = Story("a", policy=policy, deadline=40.0)
        story.tell(Begin())
        for step, number in enumerate(choice):
            events = POSSIBLE.get(story.life.members["a"].state, []) + ALWAYS
            story.tell(events[number % len(events)], at=story.now + 7.0 * (step + 1))
            _check_invariants(story)


def _check_invariants(story):
    life, member = story.life, story.life.members["a"]
    finishes = [action for action in story.actions if isinstance(action, Finish)]
    assert len(finishes) == (1 if life.is_finished else 0)
    starts = [action.restart for action in story.actions if isinstance(action, Start)]
    assert starts == sorted(set(starts)), "no run has the number of another"
    if not life.is_finished:
        can_go_on = member.is_alive or life.next_deadline() is not None
        assert can_go_on, "a pod that is not over has something to wait for"
    if life.terminating and not life.is_finished:
        assert member.kill_at is not None, "what is terminating will be killed in the end"


# The warning ahead of the time limit


def warned(*specs, **more):
    story = Story(*specs, warning=10, **more)
    story.tell(Begin())
    for name in specs:
        story.tell(Started(name), 1.0)
    return story, story.tell(Warn(), 100.0)


def test_a_warning_reaches_every_container_that_runs_and_ends_none():
    story, actions = warned("a", "b")
    assert actions == [Signal("a", 10), Signal("b", 10)]
    (told,) = story.records("condition")
    assert (told["condition"], told["status"]) == ("orlop.dev/TimeLimit", "True")
    assert "TimeLimitNear" in story.events()
    assert not story.life.is_ending
    assert story.life.next_deadline() is None


def test_what_ended_before_is_not_signalled():
    story = Story("a", "b", policy="Never", warning=10)
    story.tell(Begin())
    story.runs("a")
    story.tell(Started("b"))
    assert story.tell(Warn()) == [Signal("b", 10)]


def test_after_a_warning_the_pod_ends_in_time_for_its_grace():
    story, _ = warned("a", grace=60.0, term_after=30.0)
    assert story.life.next_deadline() == 130.0
    assert story.tell(Tick(), 130.0) == [Signal("a", TERM)]
    (ending,) = story.records("terminating")
    assert (ending["why"], ending["grace"]) == ("signal", 60.0)


def test_a_pod_that_ends_already_is_not_warned():
    story = Story("a", warning=10)
    story.tell(Begin())
    story.tell(Started("a"))
    story.tell(Terminate("deleted", 30.0))
    assert story.tell(Warn()) == []
