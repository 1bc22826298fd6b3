"""The command line: `orlop` and `kubectl slurm`, one file for each command.

`main` is the console script. Nothing is imported before the command that needs it, so that `orlop
--help` answers at once even from a slow file system.
"""

from __future__ import annotations


def main() -> None:
    from .main import orlop

    orlop()
