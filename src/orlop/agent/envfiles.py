"""Variables that a container gets from files which the pod itself has written: fileKeyRef.

Asked by the workshop before each run of a container. As pkg/kubelet/util/env: `NAME='value'` a
line, the value to the closing quote, or, without quotes, to the end of the line; a file is read
through descriptors that cannot leave its volume.
"""

from __future__ import annotations

import os
import re
import stat

from .volumes import VolumeError, Volumes, open_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_FILE = 64 << 10  # as upstream's
_LINE = re.compile(r"\s*([^=\s#'][^=\n']*?)[ \t]*=[ \t]*(?:'([^']*)'[ \t]*|([^'\n]*))(?:\n|$)")
_NOTHING = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|$)")


def values_in(text: str) -> dict[str, str]:
    """The variables of a file; raises ValueError with the line that is none."""
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _NOTHING.match(text, at)
        if match is None:
            match = _LINE.match(text, at)
            if match is None:
                line = text.count("\n", 0, at) + 1
                raise ValueError(f"line {line}: expected NAME='value'")
            quoted, plain = match.group(2), match.group(3)
            found[match.group(1)] = quoted if quoted is not None else plain.rstrip()
        at = match.end()
    return found


def variables(wanted: list[dict[str, Any]], volumes: Volumes) -> dict[str, str]:
    """What the files say now; VolumeError where a key that is not optional is missing."""
    found = {}
    for one in wanted:
        try:
            value = values_in(_text(volumes.path(one["volume"]), one["path"])).get(one["key"])
        except FileNotFoundError:
            value = None
        except (OSError, ValueError) as error:
            raise VolumeError(f"environment file {one['path']}: {error}") from error
        if value is not None:
            found[one["name"]] = value
        elif not one.get("optional"):
            words = f"environment variable key {one['key']!r} not found in file {one['path']!r}"
            raise VolumeError(words)
    return found


def _text(root: str, path: str) -> str:
    fd = open_below(root, path, may_make=False)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):  # a pipe would have us wait for ever
            raise ValueError("not a regular file")
        with open(f"/proc/self/fd/{fd}", "rb") as file:
            data = file.read(MAX_FILE + 1)
    finally:
        os.close(fd)
    if len(data) > MAX_FILE:
        raise ValueError(f"larger than {MAX_FILE} bytes")
    return data.decode(errors="surrogateescape")
