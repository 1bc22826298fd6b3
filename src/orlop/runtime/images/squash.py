"""Writes an unpacked image once more as one file, for compute nodes where lookups are dear.

Called by `cache` after an image is unpacked, where the settings ask for it. On a parallel file
system each file that a program opens is a question to one server for all; a squashfs is opened
once, and its directories are read like data. The folder stays, for nodes that cannot mount it.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path

from ...log import logger
from ...wellknown import SQUASHED_IMAGE

log = logger(__name__)

# Read often, written once: zstd unpacks faster than most file systems deliver.
_COMPRESSION = ("-comp", "zstd", "-Xcompression-level", "3")
# Everything is root's: in a pod's user namespace that is the user.
_OPTIONS = ("-noappend", "-no-progress", "-quiet", "-no-xattrs", "-all-root", "-processors", "2")


async def squash(folder: Path) -> bool:
    """Write the file beside `folder`/rootfs; return False and log a word where that fails."""
    program = shutil.which("mksquashfs")
    if program is None:
        log.warning("images stay folders alone: no mksquashfs here", remedy="squashfs-tools")
        return False
    target = folder / SQUASHED_IMAGE
    words = [program, str(folder / "rootfs"), str(target), *_OPTIONS, *_COMPRESSION]
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        target.unlink(missing_ok=True)
        said = errors.decode(errors="replace").strip()
        log.warning("image not made one file", folder=folder, error=said)
        return False
    return True
