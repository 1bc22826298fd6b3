"""Shows what a SlurmJob prints, while it prints it: on a terminal, by the API server.

Used by `kubectl slurm sbatch --follow` and `kubectl slurm logs`. Each container of the pod that
shows the job is read as soon as it has started, in a thread; of an array each line has the name of
its task. That the job ends is for its callers to notice.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from typing import BinaryIO
from urllib.parse import quote, urlencode

from ...api.objects import Obj
from ...errors import Error, NotFound
from ..kubeapi import KubeApi

POLL = 0.2
ERRORS = "errors"  # the container that shows what was printed to standard error, or its prefix


class Output:
    """The containers of one job's pod."""

    def __init__(self, api: KubeApi, namespace: str, pod: str, *, follow: bool) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}"
        self._follow = follow
        self._threads: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()
        self.is_cut_off = False  # nobody reads what is printed, as after `| head`

    def containers(self) -> list[Obj]:
        """Return their statuses; none where there is no pod."""
        try:
            status = self._api.get(self._path).get("status") or {}
        except NotFound:
            return []
        found: list[Obj] = status.get("containerStatuses") or []
        return found

    def show(self, statuses: Iterable[Obj], *, labelled: bool) -> None:
        """Begin to show those that have started and are not shown yet."""
        for status in statuses:
            name = status["name"]
            if name in self._threads or "waiting" in (status.get("state") or {}):
                continue
            # A daemon, so that Ctrl-C ends at once what only waits for more to print.
            thread = threading.Thread(target=self._print, args=(name, labelled), daemon=True)
            self._threads[name] = thread
            thread.start()

    def finish(self) -> bool:
        """Wait until all is printed; return whether it was, and was not cut off."""
        for thread in self._threads.values():
            while thread.is_alive() and not self.is_cut_off:
                thread.join(POLL)
        return not self.is_cut_off

    def _print(self, container: str, labelled: bool) -> None:
        query = {"container": container, "follow": str(self._follow).lower()}
        target = sys.stderr.buffer if container.partition("-")[0] == ERRORS else sys.stdout.buffer
        label = f"[{container}] ".encode() if labelled else b""
        try:
            pieces = self._api.stream(f"{self._path}/log?{urlencode(query)}")
            for piece in _lines(pieces) if labelled else pieces:
                self._write(target, label + piece)
        except Error as error:
            self._write(sys.stderr.buffer, f"{container}: {error}\n".encode())
        except BrokenPipeError:
            with open(os.devnull, "wb") as nowhere:  # else Python complains of it at its end
                os.dup2(nowhere.fileno(), target.fileno())
            self.is_cut_off = True

    def _write(self, target: BinaryIO, data: bytes) -> None:
        with self._lock:
            target.write(data)  # as it is: nobody says that a job prints UTF-8
            target.flush()


def _lines(pieces: Iterable[bytes]) -> Iterable[bytes]:
    """Yield whole lines; the last one is ended where the job did not."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest + b"\n"
