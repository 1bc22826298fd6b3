"""A real registry, Debian's docker-registry, that serves the test images.

Started on the head of a cluster, or on this machine's loopback for tests without one. Each has a
copy of the storage that was filled once on the machine: what one test pushes no other sees.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from . import oci
from .cluster import SlurmCluster
from .process import wait_until
from .push import Connect, push, request
from .spec import HEAD

PORT = 5000
Popen = Callable[..., "subprocess.Popen[Any]"]


class Registry:
    """`address` is what stands before the first slash of an image's name."""

    def __init__(
        self, folder: Path, address: str, connect: Connect, popen: Popen, login: str = ""
    ) -> None:
        """`login`: a line of htpasswd; only who knows it is served."""
        self.folder = folder
        self._login = login
        self.address = address
        self._connect = connect
        self._popen = popen
        self._process: subprocess.Popen[Any] | None = None

    @classmethod
    def on_head(cls, cluster: SlurmCluster, port: int = PORT, login: str = "") -> Registry:
        connect = partial(cluster.connect, HEAD, port)
        popen = partial(cluster.popen, HEAD)
        folder, address = cluster.root / f"registry-{port}", f"{cluster.head_address}:{port}"
        return cls(folder, address, connect, popen, login)

    @classmethod
    def on_loopback(cls, folder: Path) -> Registry:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port: int = server.getsockname()[1]
        connect = partial(socket.create_connection, ("127.0.0.1", port), 10)
        return cls(folder, f"127.0.0.1:{port}", connect, subprocess.Popen)

    def start(self, storage: Path | None = None) -> None:
        """Serves a copy of `storage`, or nothing yet."""
        self.folder.mkdir(parents=True)
        if storage is not None:
            copy_storage(storage, self.folder / "storage")
        configuration = self.folder / "config.yml"
        configuration.write_text(
            "version: 0.1\n"
            "log: {level: warn}\n"
            f"storage: {{filesystem: {{rootdirectory: {self.folder}/storage}}}}\n"
            f"http: {{addr: {self.address}}}\n" + self._authentication()
        )
        with (self.folder / "log").open("ab") as log:
            self._process = self._popen(
                ["docker-registry", "serve", str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._answers, f"the registry on {self.address} answers")

    def _authentication(self) -> str:
        if not self._login:
            return ""
        logins = self.folder / "htpasswd"
        logins.write_text(f"{self._login}\n")
        return f"auth: {{htpasswd: {{realm: test, path: {logins}}}}}\n"

    def _answers(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"the registry has ended: {(self.folder / 'log').read_text()}")
        try:
            return request(self.address, self._connect, "GET", "/v2/")[0] in (200, 401)
        except ConnectionError:
            return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None

    def name(self, image: str) -> str:
        """The full name of one of its images, as a manifest would have it."""
        return f"{self.address}/{image}"

    def push(self, name: str, image: oci.Image | oci.Index) -> str:
        """Adds an image under `repository:tag`; returns its digest."""
        return push(self.address, self._connect, name, image)

    def digest(self, image: str) -> str:
        repository, _, tag = image.partition(":")
        kinds = f"{oci.OCI}.index.v1+json, {oci.OCI}.manifest.v1+json, "
        kinds += f"{oci.DOCKER}.distribution.manifest.v2+json"
        path = f"/v2/{repository}/manifests/{tag or 'latest'}"
        status, headers, _ = request(
            self.address, self._connect, "HEAD", path, headers={"Accept": kinds}
        )
        if status != 200:
            raise LookupError(f"the registry has no {image}")
        return headers["docker-content-digest"]


def copy_storage(source: Path, target: Path) -> None:
    """Blobs are named by what they hold and never written again: a second link will do."""

    def copy(path: str, to: str) -> None:
        if path.endswith("/data"):
            try:
                os.link(path, to)
                return
            except OSError:
                pass
        shutil.copyfile(path, to)

    shutil.copytree(source, target, copy_function=copy)
