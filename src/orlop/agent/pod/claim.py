"""Claims a pod for one job, so that a second job for the same pod ends at once.

Taken once by `main`, before anything is started. The file appears whole and once, on NFS too; a job
that the engine requeued finds its own claim and renews it.
"""

from __future__ import annotations

import os

from ..linux.fast_imports import dumps, loads


class Claimed(Exception):
    """Raised when another job runs this pod."""


def take(path: str, job: str, restart: int, node: str, step: str = "") -> None:
    """Claim the pod for `job`; raise Claimed when it belongs to another."""
    draft = f"{path}.{node}.{os.getpid()}"
    with open(draft, "w") as file:
        found = {"job": job, "restart": restart, "node": node}
        file.write(dumps({**found, "step": step} if step else found))
    try:
        os.link(draft, path)
    except FileExistsError:
        _check_ours(path, job)
        os.replace(draft, path)
    finally:
        if os.path.lexists(draft):
            os.unlink(draft)


def _check_ours(path: str, job: str) -> None:
    with open(path, "rb") as file:
        owner = loads(file.read())
    if owner["job"] != job:
        where = f"job {owner['job']} on {owner['node']}"
        raise Claimed(f"this pod is run by {where} already; job {job} ends here")
