"""Containers that depend on each other: sidecars, probes, hooks, ephemeral ones; no I/O."""

from __future__ import annotations

import itertools

import pytest

from orlop.agent.container.container_state import Rule, Spec
from orlop.agent.pod.lifecycle_events import (
    Add,
    Begin,
    Exited,
    Finish,
    Hooked,
    Probed,
    RunHook,
    Signal,
    Start,
    Started,
    Terminate,
    Tick,
    Watch,
)

from .pod.test_pod_lifecycle import KILL, TERM, Story, init


def side(name, **more):
    return Spec(name, init=True, policy="Always", **more)


def probed(name="a", *probes, **graces):
    return Spec(name, probes={**dict.fromkeys(probes, -1.0), **graces})


def hooked(name, *hooks, **more):
    return Spec(name, hooks=hooks, **more)


def begun(*specs, **options):
    story = Story(*specs, **options)
    story.tell(Begin())
    return story


def health(story, name="a"):
    """What is known of a container: started and ready."""
    found = [r for r in story.records("container") + story.records("health") if r["name"] == name]
    order = [a.fields for a in story.actions if getattr(a, "fields", None) in found]
    return order[-1].get("started"), order[-1].get("ready")


# Sidecars


def test_a_sidecar_lets_the_next_begin_as_soon_as_it_runs():
    story = Story(side("s"), init("i"), side("t"), "a")
    assert story.tell(Begin()) == [Start("s", 0)]
    assert story.tell(Started("s")) == [Start("i", 0)]
    assert story.runs("i") == [Start("t", 0)]
    assert story.tell(Started("t")) == [Start("a", 0)]


def test_a_sidecar_with_a_startup_probe_lets_the_next_begin_when_that_succeeds():
    story = begun(side("s", probes={"startup": -1.0}), "a")
    assert story.tell(Started("s")) == [Watch("s", 0, 0.0)]
    assert story.tell(Probed("s", 0, "startup", True)) == [Start("a", 0)]


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize("code", [0, 1])
def test_a_sidecar_restarts_whatever_the_pods_policy_and_its_exit_code(policy, code):
    story = begun(side("s"), "a", policy=policy)
    story.tell(Started("s"))
    story.tell(Started("a"))
    assert story.tell(Exited("s", code)) == [Start("s", 1)]
    assert not story.life.is_finished


def test_a_sidecar_that_ends_during_initialisation_starts_anew_beside_the_init_container():
    story = begun(side("s"), init("i"), "a")
    story.tell(Started("s"))
    story.tell(Started("i"))
    assert story.tell(Exited("s", 1)) == [Start("s", 1)]
    story.tell(Started("s"))
    assert story.tell(Exited("i", 0)) == [Start("a", 0)]


def test_a_sidecar_that_never_started_holds_up_the_rest():
    story = begun(side("s", probes={"startup": -1.0}), "a")
    story.tell(Started("s"))
    assert story.tell(Exited("s", 1)) == [Start("s", 1)]
    story.tell(Started("s"))
    assert story.tell(Exited("s", 1)) == []
    assert story.last("s")["reason"] == "CrashLoopBackOff"


def test_sidecars_end_after_the_containers_the_last_of_them_first():
    story = begun(side("s"), side("t"), "a", "b")
    for name in ("s", "t", "a", "b"):
        story.tell(Started(name))
    assert story.tell(Terminate("deleted", 30)) == [Signal("a", TERM), Signal("b", TERM)]
    assert story.tell(Exited("a", 0)) == []
    assert story.tell(Exited("b", 0)) == [Signal("t", TERM)]
    assert story.tell(Exited("t", 0)) == [Signal("s", TERM)]
    assert story.tell(Exited("s", 0)) == [Finish(0)]


def test_sidecars_do_not_keep_a_pod_from_completing():
    story = begun(side("s"), "a", policy="Never")
    story.tell(Started("s"))
    assert story.runs("a", 0) == [Signal("s", TERM)]
    assert story.tell(Exited("s", 143)) == [Finish(0)]
    assert story.end() == ("Succeeded", "")
    assert story.records("terminating") == []


def test_a_sidecar_in_back_off_does_not_either():
    story = begun(side("s"), "a", policy="OnFailure")
    story.runs("s", 1)
    story.runs("s", 1)
    assert story.runs("a", 0) == [Finish(0)]


def test_a_failed_init_container_takes_the_sidecars_with_it():
    story = begun(side("s"), init("i"), "a", policy="Never")
    story.tell(Started("s"))
    assert story.runs("i", 5) == [Signal("s", TERM)]
    assert story.tell(Exited("s", 0)) == [Finish(5)]
    assert story.end()[0] == "Failed"


def test_a_sidecar_gets_a_last_moment_where_the_containers_took_all_of_the_grace():
    story = begun(side("s"), "a")
    story.tell(Started("s"))
    story.tell(Started("a"))
    story.tell(Terminate("deleted", 10), at=0.0)
    assert story.tell(Tick(), at=10.0) == [Signal("s", TERM), Signal("a", KILL)]
    assert story.tell(Exited("a", 137)) == []
    assert story.life.next_deadline() == 12.0
    assert story.tell(Tick(), at=12.0) == [Signal("s", KILL)]


def test_no_grace_kills_sidecars_at_once_too():
    story = begun(side("s"), "a")
    story.tell(Started("s"))
    story.tell(Started("a"))
    assert story.tell(Terminate("deleted", 0)) == [Signal("s", KILL), Signal("a", KILL)]


def test_what_comes_while_sidecars_end_only_shortens_their_grace():
    story = begun(side("s"), "a", policy="Never", deadline=5.0)
    story.tell(Started("s"))
    story.runs("a", 0)
    assert story.tell(Terminate("signal", 2), at=1.0) == []
    assert story.life.next_deadline() == 3.0
    assert story.tell(Tick(), at=6.0) == [Signal("s", KILL)]
    assert story.tell(Exited("s", 137)) == [Finish(0)]
    assert story.end() == ("Succeeded", "")


# Restart policies of single containers


@pytest.mark.parametrize(
    ("pod", "own", "code", "restarted"),
    [
        ("Never", "OnFailure", 1, True),
        ("Never", "OnFailure", 0, False),
        ("Never", "Always", 0, True),
        ("Always", "Never", 1, False),
        ("Always", "OnFailure", 0, False),
    ],
)
def test_a_containers_own_policy_counts_before_the_pods(pod, own, code, restarted):
    story = begun(Spec("a", policy=own), policy=pod)
    assert story.runs("a", code) == ([Start("a", 1)] if restarted else [Finish(code)])


@pytest.mark.parametrize(
    ("rule", "code", "restarted"),
    [
        (Rule("In", [42, 43]), 42, True),
        (Rule("In", [42]), 1, False),
        (Rule("NotIn", [1]), 2, True),
        (Rule("NotIn", [1]), 1, False),
    ],
)
def test_a_rule_for_an_exit_code_counts_before_the_policy(rule, code, restarted):
    story = begun(Spec("a", policy="Never", rules=[rule]))
    assert story.runs("a", code) == ([Start("a", 1)] if restarted else [Finish(code)])


def test_an_init_container_that_may_not_restart_fails_the_pod():
    story = begun(Spec("i", init=True, policy="Never"), "a", policy="Always")
    assert story.runs("i", 3) == [Finish(3)]


# Probes


def test_a_container_without_probes_is_ready_when_it_runs_and_says_nothing_of_it():
    story = begun("a")
    assert story.tell(Started("a")) == []
    assert "ready" not in story.last("a")


def test_a_container_with_probes_is_watched_from_its_start_on():
    story = begun(probed("a", "readiness"))
    assert story.tell(Started("a"), at=3.0) == [Watch("a", 0, 3.0)]
    assert health(story) == (True, False)


@pytest.mark.parametrize(
    ("probes", "verdicts", "expected"),
    [
        (["readiness"], [("readiness", True)], (True, True)),
        (["readiness"], [("readiness", True), ("readiness", False)], (True, False)),
        (["startup"], [], (False, False)),
        (["startup"], [("startup", True)], (True, True)),
        (["startup", "readiness"], [("startup", True)], (True, False)),
        (["startup", "readiness"], [("startup", True), ("readiness", True)], (True, True)),
    ],
)
def test_what_is_started_and_ready_follows_from_the_probes(probes, verdicts, expected):
    story = begun(probed("a", *probes))
    story.tell(Started("a"))
    for probe, is_good in verdicts:
        assert story.tell(Probed("a", 0, probe, is_good)) == []
    assert health(story) == expected


@pytest.mark.parametrize("probe", ["liveness", "startup"])
def test_a_failed_probe_stops_the_container_and_the_policy_starts_it_anew(probe):
    story = begun(probed("a", probe), grace=20.0)
    story.tell(Started("a"))
    assert story.tell(Probed("a", 0, probe, False), at=5.0) == [Signal("a", TERM)]
    assert story.life.next_deadline() == 25.0
    killing = story.records("event")[-1]
    assert (killing["reason"], killing["kind"]) == ("Killing", "Normal")
    assert killing["message"] == f"Container a failed {probe} probe, will be restarted"
    assert story.tell(Exited("a", 143)) == [Start("a", 1)]


@pytest.mark.parametrize(("policy", "restarted"), [("OnFailure", True), ("Never", False)])
def test_after_a_failed_probe_the_exit_code_does_not_matter(policy, restarted):
    story = begun(probed("a", "liveness"), policy=policy)
    story.tell(Started("a"))
    story.tell(Probed("a", 0, "liveness", False))
    assert story.tell(Exited("a", 0)) == ([Start("a", 1)] if restarted else [Finish(0)])
    assert ("will be restarted" in story.records("event")[1]["message"]) == restarted


def test_a_probes_own_grace_counts_before_the_pods():
    story = begun(probed("a", liveness=3.0), grace=60.0)
    story.tell(Started("a"))
    story.tell(Probed("a", 0, "liveness", False), at=1.0)
    assert story.tell(Tick(), at=4.0) == [Signal("a", KILL)]


def test_a_sidecars_failed_probe_is_told_of_an_init_container():
    story = begun(side("s", probes={"liveness": -1.0}), "a")
    story.tell(Started("s"))
    assert story.tell(Probed("s", 0, "liveness", False))[0] == Signal("s", TERM)
    assert story.records("event")[-1]["message"] == "Init container s failed liveness probe"


@pytest.mark.parametrize("probe", ["startup", "liveness", "readiness"])
def test_the_verdict_on_an_earlier_run_is_passed_over(probe):
    story = begun(probed("a", probe))
    story.runs("a", 1)
    story.tell(Started("a"))
    before = len(story.actions)
    assert story.tell(Probed("a", 0, probe, False)) == []
    assert len(story.actions) == before


def test_a_container_that_is_being_stopped_is_not_stopped_again():
    story = begun(probed("a", "liveness"))
    story.tell(Started("a"))
    story.tell(Terminate("deleted", 30))
    assert story.tell(Probed("a", 0, "liveness", False)) == []


def test_a_new_run_is_not_ready_before_it_was_asked():
    story = begun(probed("a", "readiness"))
    story.tell(Started("a"))
    story.tell(Probed("a", 0, "readiness", True))
    story.tell(Exited("a", 1))
    story.tell(Started("a"))
    assert health(story) == (True, False)


# Hooks


def test_a_container_runs_when_its_hook_after_the_start_is_done():
    story = begun(hooked("a", "postStart"))
    assert story.tell(Started("a"), at=1.0) == [RunHook("a", 0, "postStart")]
    assert not story.records("container")
    assert story.tell(Hooked("a", 0, "postStart"), at=5.0) == []
    assert story.last("a")["state"] == "running"
    assert story.last("a")["startedAt"] == 1.0


def test_a_failed_hook_after_the_start_ends_the_container():
    story = begun(hooked("a", "postStart"))
    story.tell(Started("a"))
    assert story.tell(Hooked("a", 0, "postStart", "exit code 3")) == [Signal("a", TERM)]
    failed, killing = story.records("event")[-2:]
    assert (failed["kind"], failed["reason"]) == ("Warning", "FailedPostStartHook")
    assert failed["message"] == "PostStartHook failed: exit code 3"
    assert (killing["reason"], killing["message"]) == ("Killing", "FailedPostStartHook")
    assert story.tell(Exited("a", 143)) == [Start("a", 1)]


def test_a_container_that_ends_during_its_hook_has_ended():
    story = begun(hooked("a", "postStart"), policy="Never")
    story.tell(Started("a"))
    assert story.tell(Exited("a", 0)) == [Finish(0)]


def test_the_hook_before_the_stop_comes_before_the_signal():
    story = begun(hooked("a", "preStop"))
    story.tell(Started("a"))
    assert story.tell(Terminate("deleted", 30)) == [RunHook("a", 0, "preStop")]
    assert story.tell(Hooked("a", 0, "preStop")) == [Signal("a", TERM)]


def test_a_failed_hook_before_the_stop_is_told_and_the_signal_follows():
    story = begun(hooked("a", "preStop"))
    story.tell(Started("a"))
    story.tell(Terminate("deleted", 30))
    assert story.tell(Hooked("a", 0, "preStop", "no")) == [Signal("a", TERM)]
    assert story.records("event")[-1]["reason"] == "FailedPreStopHook"


def test_a_hook_that_takes_all_of_the_grace_leaves_a_last_moment():
    story = begun(hooked("a", "preStop"))
    story.tell(Started("a"))
    story.tell(Terminate("deleted", 10), at=0.0)
    assert story.tell(Tick(), at=10.0) == [Signal("a", TERM)]
    assert story.tell(Tick(), at=12.0) == [Signal("a", KILL)]


def test_without_grace_there_is_no_time_for_a_hook():
    story = begun(hooked("a", "preStop"))
    story.tell(Started("a"))
    assert story.tell(Terminate("deleted", 0)) == [Signal("a", KILL)]


def test_the_hook_before_the_stop_runs_for_a_failed_probe_too():
    story = begun(hooked("a", "preStop", probes={"liveness": -1.0}))
    story.tell(Started("a"))
    assert story.tell(Probed("a", 0, "liveness", False)) == [RunHook("a", 0, "preStop")]


def test_a_sidecars_hook_runs_at_once_and_its_signal_waits_for_its_turn():
    story = begun(side("s", hooks=("preStop",)), "a")
    story.tell(Started("s"))
    story.tell(Started("a"))
    wanted = [RunHook("s", 0, "preStop"), Signal("a", TERM)]
    assert story.tell(Terminate("deleted", 30)) == wanted
    assert story.tell(Hooked("s", 0, "preStop")) == []
    assert story.tell(Exited("a", 0)) == [Signal("s", TERM)]


# Ephemeral containers


def test_an_ephemeral_container_starts_at_once_and_never_again():
    story = begun(init("i"), "a")
    assert story.tell(Add(Spec("e", ephemeral=True))) == [Start("e", 0)]
    assert story.runs("e", 1) == []
    assert story.tell(Tick(), at=1000.0) == []


def test_an_ephemeral_container_is_added_once():
    story = begun("a")
    story.tell(Add(Spec("e", ephemeral=True)))
    assert story.tell(Add(Spec("e", ephemeral=True))) == []


def test_an_ephemeral_container_neither_keeps_the_pod_nor_fails_it():
    story = begun("a", policy="Never")
    story.tell(Started("a"))
    story.tell(Add(Spec("e", ephemeral=True)))
    story.tell(Started("e"))
    assert story.tell(Exited("a", 0)) == [Signal("e", TERM)]
    assert story.tell(Exited("e", 143)) == [Finish(0)]


def test_a_pod_that_ends_takes_no_ephemeral_container_in():
    story = begun("a")
    story.tell(Started("a"))
    story.tell(Terminate("deleted", 30))
    assert story.tell(Add(Spec("e", ephemeral=True))) == []


# All orders


POSSIBLE = {
    "starting": [Started],
    "hooking": [lambda name: Hooked(name, -1, "postStart"), lambda name: Exited(name, 1)],
    "running": [
        lambda name: Exited(name, 0),
        lambda name: Probed(name, -1, "liveness", False),
        lambda name: Hooked(name, -1, "preStop"),
    ],
}


@pytest.mark.parametrize("policy", ["Always", "Never"])
def test_no_order_of_events_leads_two_containers_astray(policy):
    """A sidecar and a container, with hooks and probes, through every sequence of five events."""
    for choice in itertools.product(range(6), repeat=5):
        story = begun(
            side("s", hooks=("preStop",), probes={"liveness": -1.0}),
            Spec("a", hooks=("postStart",), probes={"liveness": 5.0}),
            policy=policy,
        )
        for step, number in enumerate(choice):
            events = [*_events(story), Tick(), Terminate("deleted", 5.0)]
            story.tell(events[number % len(events)], at=story.now + 4.0 * (step + 1))
            _check(story)


def _events(story):
    found = []
    for name, member in story.life.members.items():
        for make in POSSIBLE.get(member.state, []):
            event = make(name)
            if getattr(event, "restart", None) == -1:
                event.restart = member.restart
            found.append(event)
    return found


def _check(story):
    life = story.life
    assert sum(isinstance(a, Finish) for a in story.actions) == (1 if life.is_finished else 0)
    for name, member in life.members.items():
        starts = [a.restart for a in story.actions if isinstance(a, Start) and a.container == name]
        assert starts == sorted(set(starts)), "no run has the number of another"
        if life.is_ending and member.is_alive:
            assert member.kill_at is not None, "what is being stopped will be killed in the end"
    if not life.is_finished:
        is_alive = any(member.is_alive for member in life.members.values())
        assert is_alive or life.next_deadline() is not None, "there is something to wait for"
