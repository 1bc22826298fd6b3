"""Makes the agent's single file: a zip that Python runs, with source and this Python's bytecode.

Called by the control plane when it starts; one file, so that a thousand pods starting on a
parallel file system open one file each. The same sources and interpreter give the same bytes. It
is not part of the file it makes.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import zipfile
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MAIN = """\
import sys
from orlop.agent.main import main

sys.exit(main(sys.argv))
"""


def sources() -> dict[str, str]:
    """Path in the zip -> text, for every module the agent needs on a compute node."""
    found = {"__main__.py": _MAIN, "orlop/__init__.py": ""}
    found["orlop/wellknown.py"] = (_PACKAGE.parent / "wellknown.py").read_text()
    for path in sorted(_PACKAGE.rglob("*.py")):
        if path.name not in ("build.py", "__main__.py"):
            found[f"orlop/agent/{path.relative_to(_PACKAGE)}"] = path.read_text()
    return found


def build(target: Path) -> Path:
    """Write the agent to `target`, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    # Stored, not deflated: a compute node's Python then need not import zlib.
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, text in sources().items():
            _add(archive, name + "c", bytecode(name, text))
            _add(archive, name, text.encode())
    temporary.chmod(0o755)
    temporary.replace(target)
    return target


def bytecode(name: str, text: str) -> bytes:
    """A .pyc that is never checked against its source; another Python skips it by its magic."""
    code = compile(text, name, "exec", dont_inherit=True, optimize=0)
    unchecked_hash = (0b01).to_bytes(4, "little") + importlib.util.source_hash(text.encode())
    # Version 2 has no references, which depend on what else the interpreter holds.
    return importlib.util.MAGIC_NUMBER + unchecked_hash + marshal.dumps(code, 2)


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.external_attr = 0o644 << 16
    archive.writestr(info, data)
