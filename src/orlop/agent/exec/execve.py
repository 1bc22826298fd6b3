"""Takes the last step of a process that has entered a container: it becomes the command.

Used by whoever enters (nsenter.py, agent/ranks/starter.py), in the container, where nothing can be
imported any more; it imports next to nothing itself.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Failure(Exception):
    """Raised with the reason why there is no such process, as OCI runtimes put it."""


def go_to(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise Failure(f'chdir to cwd ("{folder}"): {error.strerror}') from error


def execute(argv: list[str], env: Mapping[str, str]) -> None:
    """Become the command, as execvpe without its imports; tell the error that says most."""
    name = argv[0]
    folders = [""] if "/" in name else env.get("PATH", os.defpath).split(":")
    why = "executable file not found in $PATH" if "/" not in name else "no such file or directory"
    for folder in folders:
        try:
            os.execve(os.path.join(folder, name), argv, env)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            why = (error.strerror or str(error)).lower()
    raise Failure(f'exec: "{name}": {why}')
