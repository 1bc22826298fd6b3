"""Finds out by which PMI the ranks of a pod are started, where the pod does not say.

Asked by the preparation of a pod whose container runs once for every task. The image tells whose
MPI it has by the names of its libraries, and srun tells which kinds of PMI it offers. It does not
refuse: where nothing is found, the site's own default holds.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from ...errors import EngineError

# Where libraries are, in images and on hosts; more folders are not worth a walk through an image.
_FOLDERS = (
    "lib", "lib64", "usr/lib", "usr/lib64", "usr/local/lib", "usr/local/lib64", "lib/*-linux-gnu",
    "usr/lib/*-linux-gnu", "usr/lib64/*/lib", "usr/local/*/lib", "opt/*/lib", "opt/*/lib64",
    "opt/*/*/lib", "opt/intel/oneapi/mpi/*/lib", "opt/intel/oneapi/mpi/*/lib/release",
)  # fmt: skip
# A library's name -> kinds of PMI it speaks, the best first.
_SPEAK = {
    "libmpi.so.40": ("pmix",),  # Open MPI 3 to 5
    "libmpi.so.20": ("pmix", "pmi2"),  # Open MPI 2
    "libmpich.so.12": ("pmi2",),
    "libmpi.so.12": ("pmi2",),  # MPICH's ABI: Intel MPI, MVAPICH, MPICH of Fedora
    "libmpi_cray.so.12": ("cray_shasta", "pmi2"),
}


class Pmi:
    """The kinds of PMI of this site; `offered` is what `srun --mpi=list` prints."""

    def __init__(self, offered: Callable[[], Awaitable[str]]) -> None:
        self._offered = offered
        self._kinds: frozenset[str] | None = None

    async def of_image(self, rootfs: Path | None) -> str:
        """Return srun's --mpi for what an image (None: the node's own root) is linked with."""
        spoken = await asyncio.to_thread(spoken_in, rootfs or Path("/"))
        if not spoken:
            return ""
        kinds = await self._known()
        return next((kind for kind in spoken if not kinds or kind in kinds), "")

    async def _known(self) -> frozenset[str]:
        if self._kinds is None:
            try:
                self._kinds = kinds_in(await self._offered())
            except EngineError:
                return frozenset()  # asked again by the next one
        return self._kinds


def kinds_in(listing: str) -> frozenset[str]:
    """Parse `srun --mpi=list`, old and new: one a line, or after a colon."""
    return frozenset(re.findall(r"(?m)^\s*(?:srun:\s*)?([a-z]\w*)\s*$", listing))


def spoken_in(rootfs: Path) -> tuple[str, ...]:
    """Return the PMIs of the first library that is there; an image with several MPIs should say
    which.
    """
    for name, kinds in _SPEAK.items():
        for folder in _FOLDERS:
            if next(rootfs.glob(f"{folder}/{name}*"), None) is not None:
                return kinds
    return ()
