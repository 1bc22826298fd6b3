"""Objects of an S3 server, read and written with its credentials: what BridgeJobs need of it.

Used by `bridge`, in a thread: it blocks. The standard library only: a request and its signature
(version 4) are a page, an SDK is many megabytes. Buckets are named in the path, as every S3 server
understands it. What the server refuses is a ConfigError, its silence is Unavailable.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, urlsplit

from ..errors import ConfigError, Unavailable

REGION = "us-east-1"  # what servers without regions expect; others say which it should be
TIMEOUT = 60.0  # seconds for each step of a request
LARGEST = 5 << 30  # bytes of an object that comes in one request, as S3 has it
_ALGORITHM = "AWS4-HMAC-SHA256"
_NOTHING = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def words(self) -> str:
        """What the server says, out of its XML."""
        found = re.search(rb"<Message>(.*?)</Message>", self.body, re.DOTALL)
        return found.group(1).decode(errors="replace") if found else f"HTTP {self.status}"


@dataclass(frozen=True, slots=True)
class Server:
    """One S3 server as one user."""

    endpoint: str  # `host`, `host:port`, or a URL
    access_key: str
    secret_key: str
    is_secure: bool = True
    region: str = REGION
    now: Callable[[], float] = time.time

    def read(self, bucket: str, key: str, most: int) -> bytes:
        answer = self._ask("GET", _path(bucket, key))
        if answer.status != 200:
            raise ConfigError(f"S3 object {bucket}:{key} cannot be read: {answer.words}")
        if len(answer.body) > most:
            raise ConfigError(f"S3 object {bucket}:{key} is larger than {most} bytes")
        return answer.body

    def write(self, bucket: str, key: str, source: Path | bytes) -> None:
        """The bucket is made where there is none."""
        answer = self._put(_path(bucket, key), source)
        if answer.status == 404 and self._ask("PUT", _path(bucket)).status == 200:
            answer = self._put(_path(bucket, key), source)
        if answer.status != 200:
            raise ConfigError(f"S3 object {bucket}:{key} cannot be written: {answer.words}")

    def _put(self, path: str, source: Path | bytes) -> Answer:
        if isinstance(source, bytes):
            return self._ask("PUT", path, source, hashlib.sha256(source).hexdigest(), len(source))
        try:
            with source.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size = file.tell()
                if size > LARGEST:
                    raise ConfigError(f"{source} has {size} bytes; S3 takes {LARGEST} at once")
                return self._ask("PUT", path, file, digest, size)
        except OSError as error:
            raise ConfigError(f"{source} cannot be read: {error.strerror}") from error

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None = None,
        digest: str = _NOTHING,
        size: int = 0,
    ) -> Answer:
        """Once more where the server names the region that it is in."""
        answer = self._send(method, path, body, digest, size)
        named = answer.headers.get("x-amz-bucket-region", "")
        if answer.status in (301, 400) and named not in ("", self.region):
            return replace(self, region=named)._send(method, path, body, digest, size)
        return answer

    def _send(
        self, method: str, path: str, body: bytes | BinaryIO | None, digest: str, size: int
    ) -> Answer:
        if body is not None and not isinstance(body, bytes):
            body.seek(0)
        place = urlsplit(self.endpoint if "://" in self.endpoint else f"//{self.endpoint}")
        secure = place.scheme == "https" if place.scheme else self.is_secure
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.now()))
        headers = {"host": place.netloc, "x-amz-content-sha256": digest, "x-amz-date": stamp}
        headers["authorization"] = self.authorization(method, path, headers)
        if method == "PUT":
            headers["content-length"] = str(size)
        connection = _connection(place.hostname or "", place.port, secure)
        try:
            connection.request(method, path, body, headers)
            said = connection.getresponse()
            fields = {name.lower(): value for name, value in said.getheaders()}
            answer = Answer(said.status, fields, said.read())
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"the S3 server {self.endpoint} does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status >= 500:
            raise Unavailable(f"the S3 server {self.endpoint} cannot: {answer.words}")
        return answer

    def authorization(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        """Signature version 4 of a request without a query; `headers` in small letters."""
        stamp = headers["x-amz-date"]
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name].strip()}\n" for name in sorted(headers))
        request = "\n".join([method, path, "", lines, names, headers["x-amz-content-sha256"]])
        scope = f"{stamp[:8]}/{self.region}/s3/aws4_request"
        hashed = hashlib.sha256(request.encode()).hexdigest()
        text = "\n".join([_ALGORITHM, stamp, scope, hashed])
        key = f"AWS4{self.secret_key}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        credential = f"Credential={self.access_key}/{scope}"
        return f"{_ALGORITHM} {credential},SignedHeaders={names},Signature={signature}"


def _path(bucket: str, key: str = "") -> str:
    """Encoded as it is signed: all but letters, digits and `-._~/`."""
    return quote(f"/{bucket}/{key}" if key else f"/{bucket}", safe="/~")


def _connection(host: str, port: int | None, is_secure: bool) -> http.client.HTTPConnection:
    if not is_secure:
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=context)
