"""What an evaluation carries along: variables, and the steps it still may take.

Made for each run of a program, or shared by the rules of one object so that together they stay
within one budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import CostExceeded

PER_CALL = 1_000_000  # as upstream's PerCallLimit
PER_OBJECT = 10_000_000  # as upstream's RuntimeCELCostBudget


class Frame:
    __slots__ = ("limit", "steps", "variables")

    def __init__(self, variables: dict[str, Any], limit: int = PER_CALL) -> None:
        self.variables = variables
        self.steps = 0
        self.limit = limit

    def spend(self, cost: int = 1) -> None:
        self.steps += cost
        if self.steps > self.limit:
            raise CostExceeded("operation cancelled: actual cost limit exceeded")


Eval = Callable[[Frame], Any]
