"""The warning that a pod wants ahead of its time limit: `slurm.orlop.dev/signal: USR1@120`.

Used by `job`; pure. Slurm sends it to the agent, which passes it on to the containers; Slurm may be
up to a minute early, but not late.
"""

from __future__ import annotations

import re
import signal
from typing import NamedTuple

from ...errors import ConfigError
from ..numbers import DIGITS

DEFAULT_LEAD = 60  # as sbatch(1) --signal
_SYNTAX = re.compile(rf"(?:[RB]+:)?(\w+)(?:@({DIGITS}))?", re.IGNORECASE)
_UNHEARD = (signal.SIGKILL, signal.SIGSTOP)


class EarlySignal(NamedTuple):
    number: int
    lead: int  # seconds before the time limit

    @property
    def name(self) -> str:
        return signal.Signals(self.number).name.removeprefix("SIG")

    @property
    def is_term(self) -> bool:
        """Return whether the signal is TERM, which is no mere warning: the pod is asked to end,
        with its grace period.
        """
        return self.number == signal.SIGTERM

    @property
    def option(self) -> str:
        """Return the value for sbatch's --signal; B: the agent is the batch script, and knows its
        containers.
        """
        return f"B:{self.name}@{self.lead}"


def parse(text: str) -> EarlySignal:
    """Parse what --signal takes; raise ConfigError where it cannot be."""
    match = _SYNTAX.fullmatch(text.strip())
    number = _number(match.group(1)) if match else None
    if match is None or number is None:
        message = f"--signal: expected a signal and seconds as USR1@120, found {text!r}"
        raise ConfigError(f"{message}; the signals are those of `kill -l`")
    if number in _UNHEARD:
        raise ConfigError(f"--signal: {text!r} cannot be handled by any program; use USR1 or TERM")
    return EarlySignal(number, int(match.group(2) or DEFAULT_LEAD))


def _number(word: str) -> int | None:
    try:
        if word.isdecimal():
            return int(signal.Signals(int(word)))
        return int(signal.Signals[f"SIG{word.upper().removeprefix('SIG')}"])
    except (ValueError, KeyError):
        return None
