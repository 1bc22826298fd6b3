"""Signals ahead of the time limit, as `--signal` takes them."""

from __future__ import annotations

import signal

import pytest

from orlop.errors import ConfigError
from orlop.slurm.translate.signals import EarlySignal, parse

from ..pods import SLURM, container, pod, site, spec_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("USR1@120", EarlySignal(signal.SIGUSR1, 120)),
        ("SIGUSR2@5", EarlySignal(signal.SIGUSR2, 5)),
        ("B:usr1", EarlySignal(signal.SIGUSR1, 60)),
        ("R:10@30", EarlySignal(10, 30)),
        ("TERM@300", EarlySignal(signal.SIGTERM, 300)),
    ],
)
def test_a_signal_is_a_name_or_a_number_and_seconds(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text", ["", "SOON@1", "USR1@", "USR1@x", "KILL@5", "999@5", "@5", "USR1@" + "9" * 5000]
)
def test_what_is_none_is_told(text):
    with pytest.raises(ConfigError, match="--signal"):
        parse(text)


def found(text: str, grace: int = 30, **facts):
    asked = pod(container(), annotations={SLURM + "signal": text, SLURM + "time": "60"})
    asked["spec"]["terminationGracePeriodSeconds"] = grace
    spec = spec_of(asked, site(**facts))
    return spec.value("signal"), dict(spec.environment)


def test_the_agent_gets_the_signal_and_knows_that_it_is_a_warning():
    option, environment = found("USR1@120", kill_wait=30.0)
    assert option == "B:USR1@120"
    assert environment["ORLOP_WARNING_SIGNAL"] == str(int(signal.SIGUSR1))
    assert environment["ORLOP_KILL_WAIT"] == "30"
    assert "ORLOP_TERM_AFTER" not in environment


@pytest.mark.parametrize(
    ("text", "grace", "after"), [("USR1@120", 60, "58"), ("USR1@60", 60, None)]
)
def test_a_long_grace_is_kept_by_the_agent_itself(text, grace, after):
    _, environment = found(text, grace, kill_wait=30.0)
    assert environment.get("ORLOP_TERM_AFTER") == after


def test_a_term_ends_the_pod_with_its_whole_grace():
    option, environment = found("TERM@300", 200, kill_wait=30.0)
    assert option == "B:TERM@300"
    assert not {"ORLOP_WARNING_SIGNAL", "ORLOP_KILL_WAIT"} & environment.keys()


def test_raw_flags_say_it_too():
    asked = pod(container(), annotations={SLURM + "flags": "--signal=B:USR2@90"})
    assert spec_of(asked).value("signal") == "B:USR2@90"
