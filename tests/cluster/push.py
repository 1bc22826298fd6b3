"""Pushes an image to a registry over its HTTP API.

Called to fill the test registry, and by tests that bring an image of their own. Talks plain HTTP
over a connection it is given, so that the registry may live in any network namespace.
"""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable

from .oci import Image, Index, digest

Connect = Callable[[], socket.socket]


class _Connection(http.client.HTTPConnection):
    def __init__(self, address: str, connect: Connect) -> None:
        super().__init__(address)
        self._connect = connect

    def connect(self) -> None:
        self.sock = self._connect()


def request(
    address: str,
    connect: Connect,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """One request on a connection of its own: status, headers in lower case, body."""
    connection = _Connection(address, connect)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def push(address: str, connect: Connect, name: str, image: Image | Index) -> str:
    """Pushes `image` under `repository:tag` and returns its digest."""
    repository, _, tag = name.partition(":")
    if isinstance(image, Index):
        for one in image.images.values():
            push(address, connect, f"{repository}:{digest(one.manifest())}", one)
    else:
        for blob in image.blobs():
            _push_blob(address, connect, repository, blob)
    manifest = image.manifest()
    path = f"/v2/{repository}/manifests/{tag or 'latest'}"
    headers = {"Content-Type": image.media_type}
    _expect(201, request(address, connect, "PUT", path, manifest, headers))
    return digest(manifest)


def _push_blob(address: str, connect: Connect, repository: str, blob: bytes) -> None:
    of = digest(blob)
    if request(address, connect, "HEAD", f"/v2/{repository}/blobs/{of}")[0] == 200:
        return
    uploads = f"/v2/{repository}/blobs/uploads/"
    headers = _expect(202, request(address, connect, "POST", uploads, b""))
    place = "/" + headers["location"].split("/", 3)[3]
    joined = f"{place}{'&' if '?' in place else '?'}digest={of}"
    octets = {"Content-Type": "application/octet-stream"}
    _expect(201, request(address, connect, "PUT", joined, blob, octets))


def _expect(status: int, answer: tuple[int, dict[str, str], bytes]) -> dict[str, str]:
    if answer[0] != status:
        raise RuntimeError(f"registry: expected {status}, got {answer[0]}: {answer[2][:200]!r}")
    return answer[1]
