"""The C part of netd, compiled with the sanitizers of gcc, for targets that call into it.

Used by those targets and by `hunt`, since the sanitizers' library must be there before the
interpreter is. A read or write beyond what is allocated, or undefined behaviour, ends the process.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from orlop.agent.compiling import NETWORK, write_header
from tools.devroot import dev_root

DRIVER = Path(__file__).parent / "quick" / "driver.c"
FLAGS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
         "-fno-omit-frame-pointer")  # fmt: skip
# The interpreter leaves much behind at its end; memory given back is not kept to be looked at long.
# Of who allocated, two calls are remembered: of more there are ever new ones, which is growth.
_ASAN = (
    "detect_leaks=0:quarantine_size_mb=8:malloc_context_size=2:abort_on_error=1"
    ":allocator_may_return_null=1"
)


def is_possible() -> bool:
    return shutil.which("gcc") is not None


@functools.cache
def environment() -> dict[str, str]:
    """For a worker; what it loads is compiled now, so that it need not wait for that."""
    library(DRIVER)
    found = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
    )
    return {
        "LD_PRELOAD": str(Path(found.stdout.strip()).resolve()),
        "ASAN_OPTIONS": _ASAN,
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
    }


def library(*drivers: Path) -> Path:
    """The library with its drivers, made once for what it is made of."""
    sources = [*sorted(NETWORK.sources.glob("*.c")), *drivers]
    digest = hashlib.sha256(repr((FLAGS, NETWORK.flags)).encode())
    for path in [*NETWORK.inputs(), *drivers]:
        digest.update(path.read_bytes())
    made = dev_root().path / "fuzz" / f"netd-{digest.hexdigest()[:12]}.so"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        temporary = made.with_suffix(f".{digest.hexdigest()[:4]}.tmp")
        with tempfile.TemporaryDirectory() as folder:
            include = [f"-I{NETWORK.sources}", *write_header(Path(folder))]
            words = ["gcc", *NETWORK.flags, *FLAGS, *include, "-o", str(temporary)]
            subprocess.run([*words, *map(str, sources), *NETWORK.libraries], check=True, env=None)
        temporary.replace(made)
    return made
