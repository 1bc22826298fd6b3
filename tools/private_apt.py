"""Fetches packages of any Debian release without installing them: private lists, private cache.

Called by set-up for programs that this Debian lacks or has too old, and by the image builder for
root file systems. Needs no root; apt's own lists, cache and database stay as they are.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class PrivateApt:
    def __init__(self, release: str) -> None:
        self.release = release
        self._temporary = tempfile.TemporaryDirectory(prefix="orlop-apt-")
        self._folder = Path(self._temporary.name)

    def __enter__(self) -> Self:
        for name in ("lists/partial", "cache/archives/partial", "debs"):
            (self._folder / name).mkdir(parents=True)
        (self._folder / "status").touch()
        line = f"deb [signed-by={KEYRING}] {mirror()} {self.release} main\n"
        (self._folder / "sources.list").write_text(line)
        self._apt("update")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._temporary.cleanup()

    def extract(self, packages: Sequence[str], folder: Path) -> None:
        """Unpacks just these packages into `folder`."""
        debs = self._folder / "debs"
        self._apt("download", *packages, cwd=debs)
        self._unpack(debs, folder)

    def extract_with_dependencies(self, packages: Sequence[str], folder: Path) -> None:
        self._apt("install", "--yes", "--download-only", "--no-install-recommends", *packages)
        self._unpack(self._folder / "cache" / "archives", folder)

    def _unpack(self, debs: Path, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for deb in sorted(debs.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", deb, folder], check=True)
            deb.unlink()

    def _apt(self, *words: str, cwd: Path | None = None) -> None:
        options = {
            "Dir::Etc::SourceList": self._folder / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": self._folder / "lists",
            "Dir::State::Status": self._folder / "status",
            "Dir::Cache": self._folder / "cache",
            "APT::Sandbox::User": "root",  # its usual user cannot write here
            # A machine's clock may be ahead of a mirror's last signature.
            "Acquire::Check-Valid-Until": "false",
            "Acquire::Languages": "none",
        }
        flags = [f"-o={key}={value}" for key, value in options.items()]
        result = subprocess.run(
            ["apt-get", "-q", *flags, *words], cwd=cwd, capture_output=True, text=True, check=False
        )
        if result.returncode:
            last = "\n".join((result.stdout + result.stderr).splitlines()[-5:])
            raise RuntimeError(f"apt-get {words[0]} of Debian {self.release} failed:\n{last}")


def mirror() -> str:
    """The Debian mirror this machine already uses."""
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)"],
        capture_output=True,
        text=True,
        check=True,
    )
    for uri in targets.stdout.split():
        if uri.rstrip("/").endswith("/debian"):
            return uri
    raise RuntimeError("apt knows no Debian mirror: expected a source that ends with /debian")
