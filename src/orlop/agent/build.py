"""Makes the agent's single file: a zip that Python runs, with all its modules in one member.

Called by the control plane when it starts. Everything is read with one open, because on a parallel
file system each costs a round trip and a thousand pods may start at once; it is there twice, as
bytecode for this Python and as source for any other. The same sources and interpreter give the same
bytes. This module is not part of the file it makes.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import zipfile
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_ELSEWHERE = ("build.py", "c_header.py", "compiling.py")  # used where the control plane is
_EPOCH = (1980, 1, 1, 0, 0, 0)
# Imports modules from a dictionary: name -> (is it a package, its source or marshalled code).
_MAIN = """\
import gc
import marshal
import os
import sys
from _frozen_importlib import ModuleSpec

MODULES = {modules!r}
gc.disable()  # until the containers run: all that is made before stays


class Bundle:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in MODULES:
            return ModuleSpec(name, Bundle, is_package=MODULES[name][0])

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        body = MODULES[module.__name__][1]
        is_source = isinstance(body, str)
        code = compile(body, module.__name__, "exec") if is_source else marshal.loads(body)
        exec(code, module.__dict__)


sys.meta_path.insert(0, Bundle)
if sys.argv[1:2] == ["rank"]:
    from orlop.agent.ranks.starter import main
elif sys.argv[1:2] == ["ranks"]:
    from orlop.agent.ranks.node_main import main
elif sys.argv[1:2] == ["attendant"]:
    from orlop.agent.ranks.rank_netd import main
else:
    from orlop.agent.main import main

code = main(sys.argv)
sys.stderr.flush()
os._exit(code)  # there is nothing to tidy up, and Python takes a while to
"""


def sources() -> dict[str, str]:
    """Map each module that the agent needs on a compute node to its text."""
    found = {"orlop": "", "orlop.wellknown": (_PACKAGE.parent / "wellknown.py").read_text()}
    for path in sorted(_PACKAGE.rglob("*.py")):
        if path.name not in _ELSEWHERE:
            parts = path.relative_to(_PACKAGE).with_suffix("").parts
            name = ".".join(("orlop", "agent", *(part for part in parts if part != "__init__")))
            found[name] = path.read_text()
    return found


def build(target: Path) -> Path:
    """Write the agent to `target`, whole or not at all."""
    modules = sources()
    packages = {name.rpartition(".")[0] for name in modules}
    plain = {name: (name in packages, text) for name, text in modules.items()}
    quick = {name: (name in packages, _marshalled(name, text)) for name, text in modules.items()}
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    # Stored, not deflated: a compute node's Python then need not import zlib.
    # And the bytecode first: AGENT_LAUNCH looks for it there.
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "__main__.pyc", _bytecode(_MAIN.format(modules=quick)))
        _add(archive, "__main__.py", _MAIN.format(modules=plain).encode())
    temporary.chmod(0o755)
    temporary.replace(target)
    return target


def _marshalled(name: str, text: str) -> bytes:
    """Return bytecode without docstrings, the same for the same text."""
    code = compile(text, name, "exec", dont_inherit=True, optimize=2)
    # Version 2 has no references, which depend on what else the interpreter holds.
    return marshal.dumps(code, 2)


def _bytecode(text: str) -> bytes:
    """Return a .pyc that is not checked against its source; other Pythons skip it by its magic."""
    unchecked_hash = (0b01).to_bytes(4, "little") + importlib.util.source_hash(text.encode())
    return importlib.util.MAGIC_NUMBER + unchecked_hash + _marshalled("__main__.py", text)


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.external_attr = 0o644 << 16
    archive.writestr(info, data)
