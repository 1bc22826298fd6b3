"""Makes the error for what sbatch refuses: Slurm's own words, the reason behind them, the remedy.

Asked wherever an sbatch was refused. What the user may choose from, and the limit that was met, are
looked up; where that fails, Slurm's words are all there is.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...engine import Machine
from ...errors import EngineError, SubmitRejected
from .. import failures
from ..query import detect
from ..site import SlurmSite
from ..translate.job import JobSpec
from . import limit_checks
from .limit_checks import Verdicts


@dataclass(frozen=True, slots=True)
class Refusals:
    site: SlurmSite
    verdicts: Verdicts

    async def error_of(self, said: str, spec: JobSpec | None = None) -> EngineError:
        """Return the error for a refusal; where Slurm speaks of a policy, look for the limit: it
        may never pass.
        """
        error, help_with = failures.submit_error(said)
        limit = ""
        if spec is not None and failures.is_policy(said):
            limit = await self.verdicts.of_refused(spec)
        if limit:
            last = failures.last_words(said)
            error = SubmitRejected(f"sbatch: {last}: {limit}; {limit_checks.REMEDY}")
        return type(error)(f"{error}{await self._choices(help_with)}") if help_with else error

    async def _choices(self, of: str) -> str:
        """Return what the user may choose from, as a sentence; as a mere help it raises no error of
        its own.
        """
        try:
            if of == "partitions":
                names = ", ".join(_described(machine) for machine in await self.site.machines())
                return f" (partitions: {names})" if names else ""
            associations = await detect.associations(self.site.commands)
        except EngineError:
            return ""
        accounts = sorted({association.account for association in associations})
        qos = sorted({name for association in associations for name in association.qos})
        parts = [f"your accounts: {', '.join(accounts)}"] if accounts else []
        parts += [f"your QOS: {', '.join(qos)}"] if qos else []
        return f" ({'; '.join(parts)})" if parts else ""


def _described(machine: Machine) -> str:
    return machine.name if machine.is_schedulable else f"{machine.name} (closed)"
