"""Reads the Kubernetes API for commands that answer and exit.

Used by `orlop status` and the kubectl plugin: it uses just the standard library, because a full
HTTP client takes longer to import than the question to answer. All it can write is a new object: it
can change that, and take it back.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..errors import ConfigError, Unavailable, from_status
from .home.kubeconfig_file import Document, loaded

Obj = dict[str, Any]

_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class KubeApi:
    """One cluster as one user, in the namespace that the context names."""

    url: str
    tls: ssl.SSLContext
    headers: dict[str, str]
    namespace: str = "default"

    @classmethod
    def of(cls, config: Document, context: str = "") -> KubeApi:
        """Return the cluster of a context; of the current one by default."""
        name = context or config.get("current-context") or ""
        chosen = _entry(config, "context", name)
        cluster = _entry(config, "cluster", chosen.get("cluster", ""))
        user = _entry(config, "user", chosen.get("user", ""))
        headers = {"Accept": "application/json"}
        if token := user.get("token"):
            headers["Authorization"] = f"Bearer {token}"
        tls = _context(cluster, user)
        return cls(cluster["server"], tls, headers, chosen.get("namespace") or "default")

    @classmethod
    def at(cls, path: Path) -> KubeApi:
        return cls.of(loaded(path))

    def get(self, path: str, timeout: float = 10.0) -> Obj:
        """Get the JSON at a path; raise the API's own error, or Unavailable where it is silent."""
        return self._ask("GET", path, None, timeout)

    def create(self, path: str, obj: Obj, timeout: float = 30.0) -> Obj:
        """Create an object at the path of its kind; return it as it is now."""
        return self._ask("POST", path, json.dumps(obj), timeout)

    def patch(self, path: str, change: Obj, timeout: float = 30.0) -> Obj:
        """Merge into the object at a path; return it."""
        kind = "application/merge-patch+json"
        return self._ask("PATCH", path, json.dumps(change), timeout, kind)

    def delete(self, path: str, timeout: float = 30.0) -> None:
        self._ask("DELETE", path, None, timeout)

    def stream(self, path: str) -> Iterator[bytes]:
        """Yield what comes from a path, piece by piece, until the server ends it."""
        with self._answer("GET", path, None, None) as answer:
            if answer.status >= 400:
                _checked(answer.status, answer.read())
            while piece := answer.read1(_PIECE):
                yield piece

    def _ask(
        self,
        method: str,
        path: str,
        body: str | None,
        timeout: float,
        kind: str = "application/json",
    ) -> Obj:
        with self._answer(method, path, body, timeout, kind) as answer:
            return _checked(answer.status, answer.read())

    @contextmanager
    def _answer(
        self, method: str, path: str, body: str | None, timeout: float | None, kind: str = ""
    ) -> Iterator[http.client.HTTPResponse]:
        parts = urlsplit(self.url)
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port or 443, timeout=timeout, context=self.tls
        )
        try:
            headers = self.headers | ({"Content-Type": kind} if body else {})
            connection.request(method, parts.path.rstrip("/") + path, body, headers)
            yield connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(
                f"{self.url} does not answer: {error}; `orlop up` starts it"
            ) from None
        finally:
            connection.close()

    def items(self, path: str) -> list[Obj]:
        items: list[Obj] = self.get(path).get("items") or []
        return items


def _checked(status: int, said: bytes) -> Obj:
    data: Obj = json.loads(said) if said[:1] == b"{" else {"message": said.decode()}
    if status >= 400:
        raise from_status({"code": status, **data})
    return data


def default_config() -> Document:
    """Return what kubectl would read: the files of $KUBECONFIG together, else ~/.kube/config."""
    listed = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    files = [Path(part) for part in listed] or [Path.home() / ".kube" / "config"]
    result: Document = {}
    for config in map(loaded, files):
        for section in ("clusters", "users", "contexts"):
            known = {entry["name"] for entry in result.get(section, [])}
            new = [entry for entry in config.get(section) or [] if entry["name"] not in known]
            result[section] = result.get(section, []) + new
        if not result.get("current-context"):
            result["current-context"] = config.get("current-context", "")
    return result


def _entry(config: Document, noun: str, name: str) -> Obj:
    """Return `config.contexts[name].context` and the like."""
    for entry in config.get(f"{noun}s") or []:
        if entry.get("name") == name:
            found: Obj = entry.get(noun) or {}
            return found
    known = ", ".join(entry["name"] for entry in config.get(f"{noun}s") or []) or "none"
    remedy = "set KUBECONFIG=$(orlop kubeconfig)"
    raise ConfigError(f"the kubeconfig has no {noun} {name!r} (it has: {known}); {remedy}")


def _context(cluster: Obj, user: Obj) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cafile=cluster.get("certificate-authority"),
        cadata=_data(cluster, "certificate-authority-data").decode() or None,
    )
    certificate = _data(user, "client-certificate-data")
    if certificate:
        # Python loads a certificate from files only; this one is in memory.
        with _memory(certificate) as crt, _memory(_data(user, "client-key-data")) as key:
            context.load_cert_chain(crt.path, key.path)
    elif user.get("client-certificate"):
        context.load_cert_chain(user["client-certificate"], user.get("client-key"))
    return context


def _data(section: Obj, name: str) -> bytes:
    return base64.b64decode(section.get(name) or "")


class _memory:
    """Puts bytes under a path that lives as long as the `with` block, and not on a disk."""

    def __init__(self, data: bytes) -> None:
        self._descriptor = os.memfd_create("orlop")
        os.write(self._descriptor, data)
        self.path = f"/proc/self/fd/{self._descriptor}"

    def __enter__(self) -> _memory:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
