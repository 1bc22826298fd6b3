"""Applies what the kubelet brings to a pod that runs already: new files in volumes, new variables.

Fed by the kubelet connection with messages, in pieces; the last piece has all of it done at once,
in the supervisor's thread. Files change under running containers; variables are for their next run.
"""

from __future__ import annotations

from ...wellknown import END_TIME_MARK, HOST_IP_MARK, HOST_IPS_MARK
from ..linux.addresses import own_addresses
from ..plan import Plan
from .volumes import Volumes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

KINDS = ("volume-files", "environment", "plan-revision")


class Updates:
    """Collects updates; `call` has something done in the supervisor's thread."""

    def __init__(
        self, plan: Plan, volumes: Volumes, call: Callable[[Callable[[], None]], None]
    ) -> None:
        self.revision = plan.revision  # of what the pod has
        self._plan, self._volumes, self._call = plan, volumes, call
        self._files: dict[str, list[dict[str, Any]]] = {}
        self._runs: list[dict[str, Any]] = []

    def forget(self) -> None:
        """Drop what came by half as the connection broke: it comes again, whole."""
        self._files, self._runs = {}, []

    def on_message(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "volume-files":
            files = self._files.setdefault(message["volume"], [])
            for file in message["files"]:
                if file.pop("append", False):
                    files[-1]["data"] += file["data"]
                else:
                    files.append(file)
        elif kind == "environment":
            self._runs.append(message)
        else:
            self.revision = int(message["revision"])
            files_of, runs = self._files, self._runs
            self.forget()
            self._call(lambda: self._apply(files_of, runs))

    def _apply(self, files_of: dict[str, list[dict[str, Any]]], runs: list[dict[str, Any]]) -> None:
        for name, files in files_of.items():
            try:
                self._volumes.update(name, files)
            except OSError:
                pass  # no room: the old files stay, whole
        found = {container.name: container for container in self._plan.containers}
        for run in runs:
            container = found.get(run["container"])
            if container is not None:
                container.argv = [self._here(word) for word in run["argv"]]
                container.env = [(name, self._here(value)) for name, value in run["env"]]

    def _here(self, text: str) -> str:
        """Return the text with this node's addresses, and the job's end, for their marks."""
        if END_TIME_MARK in text:
            from .walltime import end_time

            text = text.replace(END_TIME_MARK, end_time())
        if HOST_IP_MARK not in text and HOST_IPS_MARK not in text:
            return text
        found = own_addresses(self._plan.kubelet.get("endpointFile", ""))
        return text.replace(HOST_IPS_MARK, ",".join(found)).replace(HOST_IP_MARK, found[0])
