"""The group `orlop`: lists the commands, each imported when it is called.

Run by the console script and `python -m orlop.cli`. It turns our errors into a line for people and
an exit code.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import click

from .. import __version__
from ..errors import Error
from ..printable import lines


@dataclass(frozen=True, slots=True)
class Entry:
    """Says where a command is, with the one line that `--help` says of it."""

    module: str
    help: str = ""  # empty: hidden


COMMANDS = {
    "up": Entry("commands.up", "Start the control plane, unless it runs already."),
    "status": Entry("commands.status", "Show the control plane, the engine, nodes and pods."),
    "kubeconfig": Entry(
        "commands.kubeconfig", "Print the path of the kubeconfig, or the file itself."
    ),
    "doctor": Entry("commands.doctor", "Say what this site lacks, each finding with its remedy."),
    "backup": Entry("commands.backup", "Write the cluster's state and keys into a file."),
    "restore": Entry("commands.restore", "Bring back what a backup holds."),
    "down": Entry("commands.down", "Stop the control plane; pods run on."),
    "serve": Entry("control_plane.serve"),
}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        entry = COMMANDS.get(name)
        if entry is None:
            return None
        module = importlib.import_module(f"orlop.cli.{entry.module}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, entry.help) for name, entry in COMMANDS.items() if entry.help]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Error as error:
            raise click.ClickException(lines(str(error))) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="orlop")
def orlop() -> None:
    """A Kubernetes of your own on any Slurm cluster: each pod is a Slurm job.

    All its files are in one folder: $ORLOP_HOME, or ~/.orlop.
    """
