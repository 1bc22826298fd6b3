"""A server in its own process, and the kubectls of this machine: a recent one and Debian's old one.

`ORLOP_KUBECTLS` names more of them: paths with colons between them, the last part of each path
being the test's id.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orlop import pki
from tools.devroot import PROJECT, dev_root

HERE = Path(__file__).parent
_numbers = itertools.count(1)


def kubectls() -> list[str]:
    found = [path for path in os.environ.get("ORLOP_KUBECTLS", "").split(":") if path]
    in_path = shutil.which("kubectl")
    return [*([in_path] if in_path else []), str(dev_root().old_kubectl), *found]


@dataclass
class Cluster:
    """A running API server, and where to find it."""

    home: Path
    url: str
    process: subprocess.Popen[str]

    @property
    def kubeconfig(self) -> Path:
        return self.home / "kubeconfig"


@dataclass
class Result:
    code: int
    out: str
    err: str


@dataclass
class Kubectl:
    """One kubectl, in a namespace of its own."""

    program: str
    cluster: Cluster
    namespace: str
    home: Path
    user: str = ""
    files: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, stdin: str = "", timeout: float = 30) -> Result:
        return self.run(list(arguments), stdin=stdin, timeout=timeout)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "KUBE_EDITOR": str(HERE / "editor"),
        }

    def command(self, arguments: list[str]) -> list[str]:
        return [self.program, f"--namespace={self.namespace}", *arguments]

    def run(self, arguments: list[str], *, stdin: str = "", timeout: float = 30) -> Result:
        done = subprocess.run(
            self.command(arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=self.environment,
            cwd=self.home,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("cluster")
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.apiserver", str(home)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    )
    assert process.stdout is not None
    port = process.stdout.readline().strip()
    assert port, "the server did not start"
    cluster = Cluster(home, f"https://127.0.0.1:{port}", process)
    cluster.kubeconfig.write_text(kubeconfig(cluster.url, pki.Pki(home / "pki")))
    yield cluster
    process.terminate()
    assert process.wait(10) == 0
    process.stdout.close()


def kubeconfig(url: str, authority: pki.Pki) -> str:
    """As kubectl reads it; JSON is YAML."""

    def data(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    user = {
        "client-certificate-data": data(authority.admin.crt),
        "client-key-data": data(authority.admin.key),
    }
    server = {"server": url, "certificate-authority-data": data(authority.ca)}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": server}],
            "users": [{"name": "admin", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "admin"}}],
            "current-context": "x",
        }
    )


@pytest.fixture(params=kubectls(), ids=lambda path: Path(path).name)
def kubectl(
    cluster: Cluster, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Kubectl:
    """One kubectl after the other; each keeps its cache of discovery for the whole session."""
    return kubectl_at(Path(request.param), cluster, tmp_path_factory)


@pytest.fixture
def recent_kubectl(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """The one in PATH, for what old ones have no words for."""
    return kubectl_at(Path(kubectls()[0]), cluster, tmp_path_factory)


def kubectl_at(
    program: Path, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Kubectl:
    home = tmp_path_factory.getbasetemp() / f"home-{program.name}"
    home.mkdir(exist_ok=True)
    made = Kubectl(str(program), cluster, f"ns{next(_numbers)}", home)
    text = json.dumps(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.namespace}}
    )
    created = made("create", "-f", "-", stdin=text)
    assert created.code == 0, created.err
    return made
