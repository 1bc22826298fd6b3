"""Reads and writes objects of an S3 server with its credentials, as far as BridgeJobs need it.

Used by the BridgeJob controller, in a thread: it blocks. It needs just the standard library: a
request and its signature (version 4) are a page, an SDK is many megabytes. Buckets are named in the
path, as every S3 server understands it. What the server refuses is a ConfigError, its silence is
Unavailable.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import re
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import SplitResult, quote, urlsplit

from ...destinations import ANYWHERE, Destinations, Refused
from ...errors import ConfigError, Unavailable
from ...files import open_regular

REGION = "us-east-1"  # what servers without regions expect; others say which it should be
TIMEOUT = 60.0  # seconds for each step of a request
LARGEST = 5 << 30  # bytes of an object that comes in one request, as S3 has it
_ALGORITHM = "AWS4-HMAC-SHA256"
_NOTHING = hashlib.sha256(b"").hexdigest()
_WORDS = 64 << 10  # bytes of an answer that is no object


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def words(self) -> str:
        """Return the server's message, out of its XML."""
        return self._element("Message") or f"HTTP {self.status}"

    @property
    def region(self) -> str:
        """Return the region of the bucket, if elsewhere: in a header, or in the server's words."""
        if self.status not in (301, 400):
            return ""
        return self.headers.get("x-amz-bucket-region") or self._element("Region")

    def _element(self, name: str) -> str:
        found = re.search(rf"<{name}>(.*?)</{name}>".encode(), self.body, re.DOTALL)
        return found.group(1).decode(errors="replace") if found else ""


class _Request(NamedTuple):
    method: str
    path: str
    body: bytes | BinaryIO | None = None
    digest: str = _NOTHING
    size: int = 0
    most: int = _WORDS  # bytes that are read of the answer


@dataclass(frozen=True, slots=True)
class Server:
    """One S3 server as one user."""

    endpoint: str  # `host`, `host:port`, or a URL
    access_key: str
    secret_key: str = field(repr=False)
    is_secure: bool = True
    region: str = REGION
    now: Callable[[], float] = time.time
    destinations: Destinations = ANYWHERE

    def read(self, bucket: str, key: str, most: int) -> bytes:
        answer = self._ask(_Request("GET", _path(bucket, key), most=max(most + 1, _WORDS)))
        if answer.status != 200:
            raise ConfigError(f"S3 object {bucket}:{key} cannot be read: {answer.words}")
        if len(answer.body) > most:
            raise ConfigError(f"S3 object {bucket}:{key} is larger than {most} bytes")
        return answer.body

    def write(self, bucket: str, key: str, source: Path | bytes) -> None:
        """Write an object; the bucket is made where there is none."""
        answer = self._put(_path(bucket, key), source)
        if answer.status == 404 and self._ask(_Request("PUT", _path(bucket))).status == 200:
            answer = self._put(_path(bucket, key), source)
        if answer.status != 200:
            raise ConfigError(f"S3 object {bucket}:{key} cannot be written: {answer.words}")

    def _put(self, path: str, source: Path | bytes) -> Answer:
        if isinstance(source, bytes):
            digest = hashlib.sha256(source).hexdigest()
            return self._ask(_Request("PUT", path, source, digest, len(source)))
        try:
            with open_regular(source) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size = file.tell()
                if size > LARGEST:
                    raise ConfigError(f"{source} has {size} bytes; S3 takes {LARGEST} at once")
                return self._ask(_Request("PUT", path, file, digest, size))
        except OSError as error:
            raise ConfigError(f"{source} cannot be read: {error.strerror}") from error

    def _ask(self, request: _Request) -> Answer:
        """Ask once more where the server names the region that it is in."""
        answer = self._send(request)
        if answer.region not in ("", self.region):
            return replace(self, region=answer.region)._send(request)
        return answer

    def _send(self, request: _Request) -> Answer:
        method, path, body, digest, size, most = request
        if body is not None and not isinstance(body, bytes):
            body.seek(0)
        place = self._place()
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.now()))
        headers = {"host": place.netloc, "x-amz-content-sha256": digest, "x-amz-date": stamp}
        headers["authorization"] = self.authorization(method, path, headers)
        if method == "PUT":
            headers["content-length"] = str(size)
        try:
            with closing(_connection(place, self.destinations)) as connection:
                connection.request(method, path, body, headers)
                said = connection.getresponse()
                fields = {name.lower(): value for name, value in said.getheaders()}
                answer = Answer(said.status, fields, _body(said, most))
        except Refused as error:
            raise ConfigError(f"the S3 server {self.endpoint} is not asked: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"the S3 server {self.endpoint} does not answer: {error}") from error
        except ValueError:  # its words would show the keys
            expected = "expected a host, and keys of one line of ASCII"
            words = f"the S3 server {self.endpoint} cannot be asked: {expected}"
            raise ConfigError(words) from None
        if answer.status >= 500:
            raise Unavailable(f"the S3 server {self.endpoint} cannot: {answer.words}")
        return answer

    def _place(self) -> SplitResult:
        """Return where the server is, as a URL."""
        scheme = "https" if self.is_secure else "http"
        url = self.endpoint if "://" in self.endpoint else f"{scheme}://{self.endpoint}"
        try:
            place = urlsplit(url)
            if place.hostname and place.port != 0:
                return place
        except ValueError:  # brackets without an end, a port that is no number
            pass
        expected = "expected host, host:port or a URL"
        raise ConfigError(f"S3 endpoint: {expected}, found {self.endpoint!r}")

    def authorization(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        """Sign a request without a query by signature version 4; `headers` in small letters."""
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
    """Encode a path as it is signed: all but letters, digits and `-._~/`."""
    return quote(f"/{bucket}/{key}" if key else f"/{bucket}", safe="/~")


def _body(said: http.client.HTTPResponse, most: int) -> bytes:
    found = said.read(most)
    if said.length and len(found) < most:
        raise http.client.IncompleteRead(found, said.length)
    return found


def _connection(place: SplitResult, destinations: Destinations) -> http.client.HTTPConnection:
    """Prepare a connection, not yet open, which cannot reach what is reserved to us."""
    host = place.hostname or ""
    made: http.client.HTTPConnection
    if place.scheme == "https":
        context = ssl.create_default_context()
        made = http.client.HTTPSConnection(
            host, place.port or 443, timeout=TIMEOUT, context=context
        )
    else:
        made = http.client.HTTPConnection(host, place.port or 80, timeout=TIMEOUT)
    # As urllib3 does: the class has no other way to say how to connect.
    vars(made)["_create_connection"] = destinations.dial_now
    return made
