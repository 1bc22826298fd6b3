from __future__ import annotations

import importlib
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from orlop import __version__
from orlop.cli.main import COMMANDS, orlop

HEAVY = ("aiohttp", "cryptography", "yaml", "msgspec", "asyncio", "lightkube")


def loaded_by(*argv: str) -> set[str]:
    """Modules that Python has loaded after `orlop …`."""
    script = (
        "import sys\nfrom orlop.cli.main import orlop\n"
        "try:\n    orlop(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print('loaded', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *argv], capture_output=True, text=True, check=True
    )
    return set(done.stdout.rpartition("loaded ")[2].split())


@pytest.mark.parametrize("argv", [("--help",), ("--version",), ("nonsense",)])
def test_help_loads_nothing_heavy(argv):
    assert loaded_by(*argv).isdisjoint(HEAVY)


def test_status_loads_no_http_framework():
    assert "aiohttp" not in loaded_by("status", "--help")


@pytest.mark.parametrize("name", COMMANDS)
def test_what_help_says_of_a_command_is_what_it_says_of_itself(name):
    command: click.Command = importlib.import_module(f"orlop.cli.{COMMANDS[name].module}").command
    assert command.name == name
    assert command.hidden == (not COMMANDS[name].help)
    if COMMANDS[name].help:
        assert (command.help or "").splitlines()[0] == COMMANDS[name].help


def test_help_lists_the_commands_but_not_the_hidden_ones():
    said = CliRunner().invoke(orlop, ["--help"]).output
    listed = [line.split()[0] for line in said.partition("Commands:")[2].splitlines() if line]
    assert listed == [name for name, entry in COMMANDS.items() if entry.help]


def test_the_version_is_said():
    assert __version__ in CliRunner().invoke(orlop, ["--version"]).output


def test_an_unknown_command_is_a_usage_error():
    assert CliRunner().invoke(orlop, ["nonsense"]).exit_code == 2


def test_an_error_of_ours_is_a_line_and_not_a_traceback(empty_home):
    empty_home.home.mkdir()
    empty_home.config.write_text("prot: 1")
    said = CliRunner().invoke(orlop, ["status"])
    assert said.exit_code == 1
    assert said.output.startswith("Error: ")
    assert "prot" in said.output
    assert "Traceback" not in said.output
