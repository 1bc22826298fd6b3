"""Writing a file all or nothing, and for its owner alone.

Used wherever a secret is written, or a file that another process may read at any moment. It
never leaves a half-written file under the name that others read.
"""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, data: bytes | str, *, mode: int = 0o600) -> None:
    """Replace `path` by `data`, durably; not for a moment readable by others than `mode` says."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
