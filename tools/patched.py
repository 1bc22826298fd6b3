"""Lets a program of a newer Debian run on this one, by that release's own C library.

Called for programs unpacked into a private prefix. The program's interpreter and library path are
rewritten to the prefix; nothing of the machine's own libraries changes.
"""

from __future__ import annotations

import subprocess
from pathlib import Path


def library_folder(prefix: Path) -> Path:
    """Where Debian keeps an architecture's libraries, such as usr/lib/x86_64-linux-gnu."""
    for pattern in ("usr/lib/*-linux-gnu*/libc.so.6", "lib/*-linux-gnu*/libc.so.6"):
        for library in prefix.glob(pattern):
            return library.parent
    raise FileNotFoundError(f"no C library in {prefix}: expected the files of Debian's libc6")


def use_private_libc(program: Path, prefix: Path) -> None:
    libraries = library_folder(prefix)
    loader = next(libraries.glob("ld-linux-*.so.*"))
    _patchelf(program, f"--set-interpreter={loader}", "--force-rpath", f"--set-rpath={libraries}")


def use_private_libraries(library: Path, prefix: Path) -> None:
    """The same for a shared library, which has no interpreter."""
    _patchelf(library, "--force-rpath", f"--set-rpath={library_folder(prefix)}")


def _patchelf(path: Path, *options: str) -> None:
    words = [word for option in options for word in option.split("=", 1)]
    subprocess.run(["patchelf", *words, str(path)], check=True, capture_output=True)
