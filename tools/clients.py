"""Kubernetes' clients that others wrote, for the conformance tests: each as it comes.

Called by set-up, not for the demo. Debian's old kubectl and etcd, Python's client libraries and
Node's go into folders of the dev root, apart from our own environment, as what they depend on is
not what we do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools import packages
from tools.devroot import DevRoot
from tools.environment import PYTHON, uv
from tools.private_apt import PrivateApt
from tools.steps import Lacking, Step

OLD_RELEASE = "bookworm"
PYTHON_CLIENTS = (
    "kubernetes",
    "kubernetes_asyncio",
    "kr8s",
    "lightkube",
    "kopf",
    "schemathesis",
    "grpcio",  # for a pair that speaks over the pod network
)
NODE_CLIENT = "@kubernetes/client-node@1"


def steps(dev: DevRoot) -> list[Step]:
    return [
        Step("old kubectl", dev.old_kubectl.exists, lambda: fetch_old_kubectl(dev)),
        Step("etcd", dev.etcd.exists, lambda: fetch_etcd(dev)),
        Step("clients", lambda: has_clients(dev), lambda: install_clients(dev)),
        Step("node client", lambda: has_node_client(dev), lambda: install_node_client(dev)),
    ]


def fetch_old_kubectl(dev: DevRoot) -> str:
    """1.20: from before server-side apply, aggregated discovery and OpenAPI v3."""
    with PrivateApt(OLD_RELEASE) as apt, tempfile.TemporaryDirectory(dir=dev.path) as folder:
        apt.extract(["kubernetes-client"], Path(folder))
        dev.old_kubectl.parent.mkdir(exist_ok=True)
        (Path(folder) / "usr" / "bin" / "kubectl").rename(dev.old_kubectl)
    return f"1.20 in {dev.old_kubectl}"


def fetch_etcd(dev: DevRoot) -> str:
    """Debian's, for the original control plane; kube-apiserver is in no registry we may use."""
    with PrivateApt(OLD_RELEASE) as apt, tempfile.TemporaryDirectory(dir=dev.path) as folder:
        apt.extract(["etcd-server"], Path(folder))
        dev.etcd.parent.mkdir(exist_ok=True)
        (Path(folder) / "usr" / "bin" / "etcd").rename(dev.etcd)
    return f"in {dev.etcd}"


def has_clients(dev: DevRoot) -> bool:
    installed = dev.clients / "installed"
    return installed.exists() and installed.read_text() == " ".join(PYTHON_CLIENTS)


def install_clients(dev: DevRoot) -> str:
    shutil.rmtree(dev.clients, ignore_errors=True)
    uv("venv", "--python", PYTHON, dev.clients)
    uv("pip", "install", "--python", dev.clients / "bin" / "python", *PYTHON_CLIENTS)
    (dev.clients / "installed").write_text(" ".join(PYTHON_CLIENTS))
    return f"{len(PYTHON_CLIENTS)} Python libraries in {dev.clients}"


def has_node_client(dev: DevRoot) -> bool:
    return (dev.node_client / "node_modules" / "@kubernetes" / "client-node").exists()


def install_node_client(dev: DevRoot) -> str:
    if shutil.which("npm") is None:
        _install_node()
    dev.node_client.mkdir(exist_ok=True)
    command = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix"]
    subprocess.run(
        [*command, str(dev.node_client), NODE_CLIENT], check=True, capture_output=True, text=True
    )
    return f"{NODE_CLIENT} in {dev.node_client}"


def _install_node() -> None:
    if os.geteuid() != 0:
        raise Lacking("root must install nodejs npm: run tools/setup as root or with sudo")
    packages.apt_install("nodejs", "npm")
