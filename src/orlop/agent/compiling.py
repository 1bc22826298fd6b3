"""Compiles what is faster in C, where there is a compiler: netd/native and ranks/native.

The first is a part of the pod network, the second what srun starts for every rank. Called by the
control plane when it starts, beside everything else; agents use a file if it is there and fits
their node, and do without it otherwise. It is named by its sources, so that it is made once for a
home and a machine; what C shares with Python is translated only then. Not part of the agent.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_AGENT = Path(__file__).resolve().parent
COMPILERS = ("gcc", "cc", "clang")
PATIENCE = 120.0  # seconds, on the slowest of file systems


@dataclass(frozen=True)
class Part:
    """One file that is made, and its sources."""

    name: str
    suffix: str
    sources: Path
    flags: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    # The header that is made of Python, and what it is made of.
    header: Callable[[], str] | None = None
    header_sources: tuple[Path, ...] = ()

    def inputs(self) -> list[Path]:
        """Return all that the result depends on."""
        return [*sorted(self.sources.iterdir()), *self.header_sources]


def _netd_header() -> str:
    from .c_header import netd_header  # it reads Python, which takes a while to import

    return netd_header()


HEADER = "from_python.h"
NETWORK = Part(
    "netd",
    ".so",
    _AGENT / "netd" / "native",
    ("-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread",
     "-ffp-contract=off"),  # times are added up as Python adds them
    ("-lm",),
    _netd_header,
    tuple(_AGENT / name for name in ("c_header.py", "netd/layout.py", "netd/tcp/decisions.py")),
)  # fmt: skip
# Without a C library, which a node may have in another version, or as a static one not at all.
STARTER = Part(
    "rank",
    "",
    _AGENT / "ranks" / "native",
    ("-std=gnu11", "-O2", "-static", "-nostdlib", "-ffreestanding", "-fno-pic", "-no-pie",
     "-fno-stack-protector", "-fno-tree-loop-distribute-patterns"),
)  # fmt: skip


def helper_file(folder: Path, part: Part = NETWORK) -> Path:
    """Return the path of a part, once it is made."""
    digest = hashlib.sha256(" ".join(part.flags).encode())
    for path in part.inputs():
        digest.update(path.read_bytes())
    return folder / f"{part.name}-{digest.hexdigest()[:12]}-{os.uname().machine}{part.suffix}"


async def compile_helper(
    target: Path, compilers: tuple[str, ...] = COMPILERS, part: Part = NETWORK
) -> str:
    """Make it, whole or not at all, unless it is there; return what was in the way, or nothing."""
    if target.exists():
        return ""
    found = [path for path in map(shutil.which, compilers) if path]
    if not found:
        return f"there is no C compiler here ({', '.join(compilers)})"
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    names = sorted(str(path) for path in part.sources.glob("*.c"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="orlop-") as folder:
            header = await asyncio.to_thread(write_header, Path(folder), part)
            flags = [*part.flags, *header, "-o", str(temporary)]
            said = await _run([found[0], *flags, *names, *part.libraries])
        if said is not None:
            return f"{found[0]} failed: {said}"
        temporary.replace(target)
    except (OSError, TimeoutError) as error:
        return f"{found[0]}: {error or 'it took too long'}"
    finally:
        temporary.unlink(missing_ok=True)
    return ""


def write_header(folder: Path, part: Part = NETWORK) -> list[str]:
    """Write the header that is made of Python; return the options by which it is found."""
    if part.header is None:
        return []
    (folder / HEADER).write_text(part.header())
    return [f"-I{folder}"]


async def _run(command: list[str]) -> str | None:
    """Run a command that does not outlive its caller; return the end of its output if it failed."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
    )
    try:
        _, said = await asyncio.wait_for(process.communicate(), PATIENCE)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return said.decode(errors="replace").strip()[-500:] if process.returncode else None
