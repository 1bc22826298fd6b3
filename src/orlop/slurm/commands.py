"""Starts Slurm's commands, except the sbatch of pods, which `submit/sbatch.py` starts.

Used by everything here that asks Slurm something. Each command belongs to the coroutine that awaits
it: at its timeout, or when that coroutine is cancelled, it is killed and reaped. It runs without
the variables by which users change what the commands print.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import EngineError, EngineUnavailable
from . import failures

# Users set formats and filters in their shell's start-up file; parsers then break.
_SCRUBBED = (
    "SLURM",
    "SBATCH_",
    "SQUEUE_",
    "SACCT_",
    "SACCTMGR_",
    "SCANCEL_",
    "SINFO_",
    "SCONTROL_",
)
# What is left of SLURM*: how to find Slurm, and how to be known to it.
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_SACK_SOCKET", "SLURM_SACK_KEY")
# Defaults that users keep in their environment; sbatch prefers these to what a script says.
_DEFAULTS = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_QOS": "qos",
    "SBATCH_RESERVATION": "reservation",
    "SBATCH_WCKEY": "wckey",
    "SBATCH_TIMELIMIT": "time",
    "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_EXCLUSIVE": "exclusive",
}


class CommandFailed(EngineError):
    """A command of Slurm's that answered with a refusal."""

    def __init__(self, program: str, status: int, text: str) -> None:
        super().__init__(f"{program} ended with {status}: {failures.last_words(text)}")
        self.program = program
        self.status = status
        self.text = text


@dataclass(frozen=True, slots=True)
class Commands:
    """Slurm's commands as this user has them; `environ` is that of `orlop up`."""

    environ: Mapping[str, str]
    timeout: float = 30.0
    through: tuple[str, ...] = ()  # starts each command, where Slurm is not on this host itself

    @classmethod
    def of_process(cls, timeout: float = 30.0) -> Commands:
        return cls(dict(os.environ), timeout)

    def argv(self, program: str, *arguments: str) -> tuple[str, ...]:
        return (*self.through, program, *arguments)

    def environment(self) -> dict[str, str]:
        """Return the variables that every command gets; times come as Unix seconds, words in
        English.
        """
        return {**self.user_environment(), "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "%s"}

    def user_environment(self, shell: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return what sbatch would hand on to a job that the user submits by hand, here or in a
        `shell`.

        Slurm is found, and the user known to it, as here.
        """
        found = {name: self.environ[name] for name in _KEPT if name in self.environ}
        given = self.environ if shell is None else shell
        return found | {
            name: value for name, value in given.items() if not name.startswith(_SCRUBBED)
        }

    def sbatch_defaults(self) -> dict[str, str]:
        """Return the options that the user keeps in SBATCH_* variables: weaker than any other
        source.
        """
        return {
            option: value
            for name, option in _DEFAULTS.items()
            if (value := self.environ.get(name, ""))
        }

    async def run(self, program: str, *arguments: str, timeout: float | None = None) -> str:
        """Return what the command printed; raise CommandFailed or EngineUnavailable if it
        failed.
        """
        status, output, errors = await self._finish(program, arguments, timeout or self.timeout)
        if status == 0:
            return output
        raise failures.unavailable(program, errors) or CommandFailed(program, status, errors)

    async def _finish(
        self, program: str, arguments: tuple[str, ...], timeout: float
    ) -> tuple[int, str, str]:
        child = await self._start(program, arguments)
        try:
            async with asyncio.timeout(timeout):
                output, errors = await child.communicate()
        except TimeoutError:
            message = f"{program} did not answer within {timeout:g} s"
            raise EngineUnavailable(f"{message}; slurmctld may be busy or unreachable") from None
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        assert child.returncode is not None, "communicate() waits for the end"
        return child.returncode, _text(output), _text(errors)

    async def _start(self, program: str, arguments: tuple[str, ...]) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self.argv(program, *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self.environment(),
            )
        except OSError as error:
            raise not_startable(program, error) from error


def not_startable(program: str, error: OSError) -> EngineUnavailable:
    """Return the error, with the remedy, for a command that could not even be started."""
    if isinstance(error, FileNotFoundError):
        remedy = "load the site's slurm module before `orlop up`, or put it into PATH"
        return EngineUnavailable(f"{program} is not in PATH; {remedy}")
    return EngineUnavailable(f"{program} could not be started: {error.strerror}")


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
