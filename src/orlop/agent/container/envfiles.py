"""Reads variables that a container gets from files which the pod itself has written: fileKeyRef.

Asked by `container_setup` before each run of a container. As pkg/kubelet/util/env: `NAME='value'` a
line, the value to the closing quote, or, without quotes, to the end of the line; a file is read
through descriptors that cannot leave its volume.
"""

from __future__ import annotations

import os
import stat

from ..pod.volumes import VolumeError, Volumes, open_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_FILE = 64 << 10  # as upstream's


def values_in(text: str) -> dict[str, str]:
    """Return the variables of a file; raise ValueError with the first line that is not one.

    Parsed by hand: patterns look again from every space of a line, and the file is the container's.
    """
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        at = _past(text, at)
        end = _end_of_line(text, at)
        if at < end and text[at] != "#":
            name, value, end = _variable(text, at, end)
            found[name] = value
        at = end + 1
    return found


def _variable(text: str, at: int, end: int) -> tuple[str, str, int]:
    """Return name, value, and the end of the line that the value ends in."""
    name, equals, plain = text[at:end].partition("=")
    if not (name and equals) or "'" in name:
        raise _no_variable(text, at)
    start = _past(text, at + len(name) + 1)
    if text[start : start + 1] != "'":
        if "'" in plain:
            raise _no_variable(text, at)
        return name.rstrip(" \t"), plain.strip(" \t").rstrip(), end
    closing = text.find("'", start + 1)
    end = _end_of_line(text, closing)
    if closing < 0 or text[closing + 1 : end].strip(" \t"):
        raise _no_variable(text, at)
    return name.rstrip(" \t"), text[start + 1 : closing], end


def _past(text: str, at: int) -> int:
    """Return the position of the next character that is not a space."""
    while text[at : at + 1] in (" ", "\t"):
        at += 1
    return at


def _end_of_line(text: str, at: int) -> int:
    found = text.find("\n", max(at, 0))
    return found if found >= 0 else len(text)


def _no_variable(text: str, at: int) -> ValueError:
    line = text.count("\n", 0, at) + 1
    return ValueError(f"line {line}: expected NAME='value'")


def variables(wanted: list[dict[str, Any]], volumes: Volumes) -> dict[str, str]:
    """Return what the files say now; raise VolumeError where a required key is missing."""
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
