"""Schemathesis over our own OpenAPI: whatever a client may send, no answer is an error of ours.

It reads a group's document as any program would and makes requests of it, right and wrong ones. The
server is one of its own, since nothing in it is left as it was; that it neither grows nor keeps
connections is looked at in the end.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orlop import pki
from tools.devroot import PROJECT, dev_root

PROGRAM = dev_root().clients / "bin" / "schemathesis"
# The groups that most programs use; the soak takes all of them, and longer.
DOCUMENTS = ["api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1"]
SECONDS = 6
CONNECTS = ("exec", "attach", "portforward", "proxy", "log")


@dataclass
class Server:
    home: Path
    url: str
    process: subprocess.Popen[str]

    @property
    def authority(self) -> pki.Pki:
        return pki.Pki(self.home / "pki")

    def get(self, path: str) -> Any:
        tls: ssl.SSLContext = self.authority.client_context(self.authority.admin)
        with urllib.request.urlopen(f"{self.url}{path}", context=tls, timeout=60) as answer:
            return json.loads(answer.read())

    def memory(self) -> int:
        """MB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from serving(tmp_path_factory.mktemp("schemathesis"))


def serving(home: Path) -> Iterator[Server]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.apiserver", str(home)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    )
    assert process.stdout is not None
    yield Server(home, f"https://127.0.0.1:{process.stdout.readline().strip()}", process)
    process.terminate()
    assert process.wait(20) == 0
    process.stdout.close()


def bounded(document: Any) -> Any:
    """Without what answers for as long as one listens, or needs a pod that runs."""
    kept = {}
    for path, item in document["paths"].items():
        if path.rstrip("/").endswith(CONNECTS) or "/proxy/" in path:
            continue
        for operation in item.values():
            parameters = operation.get("parameters", ()) if isinstance(operation, dict) else item
            if isinstance(operation, dict) and parameters:
                operation["parameters"] = [p for p in parameters if p.get("name") != "watch"]
        kept[path] = item
    return {**document, "paths": kept}


def fuzz(server: Server, document: str, seconds: int, folder: Path) -> None:
    text = json.dumps(bounded(server.get(f"/openapi/v3/{document}")))
    (folder / "openapi.json").write_text(text)
    authority = server.authority
    done = subprocess.run(
        [
            str(PROGRAM), "run", str(folder / "openapi.json"), f"--url={server.url}",
            "--checks=not_a_server_error", "--phases=fuzzing", f"--max-time={seconds}",
            "--max-examples=20", "--continue-on-failure", "--no-color", "--warnings=off",
            "--suppress-health-check=all", "--request-timeout=60", "--no-shrink",
            f"--tls-verify={authority.ca}", f"--request-cert={authority.admin.crt}",
            f"--request-cert-key={authority.admin.key}", "--generation-database=none",
        ],
        capture_output=True,
        text=True,
        timeout=seconds * 4 + 120,
        cwd=folder,
        check=False,
    )  # fmt: skip
    assert "Test cases:" in done.stdout or "test cases" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout[-6000:]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_request_of_our_openapi_is_an_error_of_ours(
    server: Server, tmp_path: Path, document: str
) -> None:
    fuzz(server, document, SECONDS, tmp_path)


def test_all_of_it_left_no_memory_and_no_connection_behind(server: Server) -> None:
    assert server.get("/api/v1/namespaces")["items"]
    assert server.memory() < 250
    open_files = list(Path(f"/proc/{server.process.pid}/fd").iterdir())
    assert len(open_files) < 60
