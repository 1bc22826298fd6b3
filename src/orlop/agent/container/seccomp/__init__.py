"""Makes the seccomp profiles of containers: which system calls the kernel refuses them.

`of_container` is asked by `container_setup` where a container has a profile. The result is both
what an OCI runtime takes and the same as the kernel takes it, for whoever becomes a container's
process without such a runtime. The filter of the pod's network is another, and both hold: the
kernel does what the stricter of them says.
"""

from __future__ import annotations

import os

from ...linux.fast_imports import value
from ..capabilities import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...plan import Container

RUNTIME_DEFAULT = "RuntimeDefault"


@value
class Profile:
    rules: dict[str, Any]  # `linux.seccomp` of an OCI runtime's config.json
    filter: bytes  # the same, compiled


def of_container(container: Container) -> Profile | None:
    """Return the container's profile on this machine; None: it is not confined."""
    asked = container.seccomp
    if not asked:
        return None
    from .compiler import compiled
    from .default import default
    from .profile import resolved

    machine, held = os.uname().machine, named(container.capabilities)
    if asked.get("type") == RUNTIME_DEFAULT:
        rules = default(machine, held)
    else:
        rules = resolved(asked["profile"], machine, held, os.uname().release)
    return Profile(rules, compiled(rules, machine))
