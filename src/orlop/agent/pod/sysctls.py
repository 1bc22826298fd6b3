"""Sets the kernel parameters that a pod may set: those of its own ipc namespace.

Asked by `main` before the containers start, in the pod's sandbox; the kubelet asks which ones there
are. Parameters of the network are not among them: the data path is the node's own.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIXES = ("kernel.shm", "kernel.msg", "fs.mqueue.")
NAMES = ("kernel.sem",)


def can_be_set(name: str) -> bool:
    """Return whether a parameter, in either notation, is one of an ipc namespace."""
    plain = name.replace("/", ".")
    return plain in NAMES or plain.startswith(PREFIXES)


def set_all(wanted: Sequence[dict[str, str]], has_own_ipc: bool, root: str = "/proc/sys") -> None:
    """Set the parameters; raise OSError in upstream's words."""
    for one in wanted:
        name = one["name"]
        if not has_own_ipc:
            raise OSError(f'forbidden sysctl: "{name}" not allowed with host ipc enabled')
        if not can_be_set(name):
            raise OSError(f'forbidden sysctl: "{name}" not allowlisted')
        try:
            with open(os.path.join(root, name.replace(".", "/")), "w") as file:
                file.write(one["value"])
        except OSError as error:
            words = f"the kernel does not let an ordinary user set it ({error.strerror})"
            raise OSError(f'forbidden sysctl: "{name}": {words}') from error
