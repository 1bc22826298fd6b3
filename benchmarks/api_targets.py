"""The API servers that are measured: ours, and where it is on PATH the original with its etcd.

Each is started in processes of its own over a folder, with the same certificates, and tells what
those processes have used. Ours gets one core; the original may have them all.
"""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError

from benchmarks.api_client import Address
from orlop import pki
from orlop.cli.control_plane.upstream import free_port
from orlop.cli.control_plane.upstream_commands import Plan, apiserver_command, etcd_command
from tools.devroot import PROJECT

_TICK = os.sysconf("SC_CLK_TCK")
_START = 60.0


@dataclass(slots=True)
class Usage:
    """Of all processes of a server."""

    cpu: float  # seconds
    memory: float  # MB


@dataclass
class Target:
    """A server over a folder that can be started again and again."""

    home: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    port: int = 0
    name = ""

    @property
    def authority(self) -> pki.Pki:
        return pki.ensure(self.home / "pki", ["localhost", "127.0.0.1"])

    def start(self) -> float:
        """Returns when it is ready: the seconds that took."""
        self.authority  # noqa: B018 - keys are made once, and not by those who are measured
        began = time.perf_counter()
        self._launch()
        self._wait_until_ready()
        return time.perf_counter() - began

    def _launch(self) -> None:
        raise NotImplementedError

    def _wait_until_ready(self) -> None:
        tls = self.authority.client_context(self.authority.admin)
        deadline = time.monotonic() + _START
        while time.monotonic() < deadline:
            try:
                url = f"https://127.0.0.1:{self.port}/readyz"
                with urllib.request.urlopen(url, context=tls, timeout=5) as answer:
                    if answer.status == 200:
                        return
            except (URLError, OSError):
                time.sleep(0.01)
        raise TimeoutError(f"{self.name} was not ready within {_START:.0f} s")

    def address(self, user: str = pki.ADMIN_USER, groups: tuple[str, ...] = ()) -> Address:
        """As whom we speak: the administrator, or a user of these groups alone."""
        if user == pki.ADMIN_USER:
            return Address(
                "127.0.0.1", self.port, self.authority.client_context(self.authority.admin)
            )
        crt, key = self.home / "pki" / f"{user}.crt", self.home / "pki" / f"{user}.key"
        if not crt.exists():
            certificate, secret = self.authority.issue(user, groups)
            crt.write_bytes(certificate)
            key.write_bytes(secret)
        context: ssl.SSLContext = self.authority.client_context(pki.Pair(crt, key))
        return Address("127.0.0.1", self.port, context)

    def usage(self) -> Usage:
        pids = [process.pid for process in self.processes]
        return Usage(sum(map(_cpu, pids)), sum(map(_memory, pids)))

    def stop(self, number: int = signal.SIGTERM) -> None:
        for process in reversed(self.processes):
            process.send_signal(number)
            process.wait(30)
            if process.stdout is not None:
                process.stdout.close()
        self.processes = []


class Ours(Target):
    name = "Orlop"

    def _launch(self) -> None:
        command = [sys.executable, "-m", "tools.apiserver", str(self.home)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
            preexec_fn=lambda: os.sched_setaffinity(0, {0}),  # the client takes the last one
        )
        self.processes = [process]
        assert process.stdout is not None
        self.port = int(process.stdout.readline())


class Upstream(Target):
    """kube-apiserver and etcd, as they come, with the same checks on."""

    name = "kube-apiserver"

    @staticmethod
    def is_there() -> bool:
        return all(shutil.which(program) for program in ("kube-apiserver", "etcd"))

    def _launch(self) -> None:
        self.port = free_port("127.0.0.1")
        ports = (self.port, free_port("127.0.0.1"), free_port("127.0.0.1"))
        folder = self.home / "etcd"
        own = pki.ensure(folder / "pki", ["127.0.0.1"])
        plan = Plan(folder, self.authority, own, "127.0.0.1", *ports)
        with (self.home / "log").open("a") as log:
            for command in (etcd_command(plan), apiserver_command(plan)):
                process = subprocess.Popen(
                    command, stderr=log, stdout=log, text=True, preexec_fn=_use_every_core
                )
                self.processes.append(process)


def _use_every_core() -> None:
    os.sched_setaffinity(0, range(os.cpu_count() or 1))


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def _memory(pid: int) -> float:
    """Resident, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)
