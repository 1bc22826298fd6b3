"""Asks webhooks, by URL or by service, and tells in upstream's words why one could not be asked.

Used by admission and by conversion. Connections are kept and used again; the bundle of a webhook's
configuration decides whom we believe, the system's authorities where there is none. What an answer
means is its caller's business. As apiserver/pkg/util/webhook/client.go.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import aiohttp
import msgspec

from ...api.objects import Key, Obj
from ...errors import ApiError, Error
from .cluster_dialer import ClusterDialer, Connector
from .foreign_answers import decoded, whole
from .sessions import Sessions

_LONGEST = 10_000  # characters of a message
_KEPT = 64  # webhooks whose connections are kept open
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, */*"}
_UNTRUSTED = (18, 19, 20, 21)  # of X509_V_ERR: no chain to an authority that we believe


class CallFailed(Error):
    """A webhook that gave no answer which can be used; the message says why."""


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """A webhook's place: exactly one of `url` and `service`, as clientConfig has it."""

    url: str
    service: Key | None = None
    port: int = 443
    bundle: str = ""

    @property
    def server_name(self) -> str:
        return f"{self.service.name}.{self.service.namespace}.svc" if self.service else ""


def target_of(config: Obj) -> WebhookTarget:
    """Return the target that a clientConfig names."""
    bundle = config.get("caBundle") or ""
    if config.get("url"):
        return WebhookTarget(config["url"], bundle=bundle)
    service = config.get("service") or {}
    key, port = Key(service.get("namespace", ""), service.get("name", "")), service.get("port", 443)
    path = (service.get("path") or "/").removeprefix("/")
    return WebhookTarget(f"https://{key.name}.{key.namespace}.svc:{port}/{path}", key, port, bundle)


class WebhookClient:
    def __init__(self, dialer: ClusterDialer) -> None:
        self._dialer = dialer
        self._sessions: Sessions[WebhookTarget] = Sessions(_KEPT)

    async def ask(self, target: WebhookTarget, body: Obj, *, timeout: float) -> Obj:
        """Ask the webhook by POST for a JSON object; CallFailed where the answer is none."""
        url = f"{target.url}{'&' if '?' in target.url else '?'}timeout={timeout:g}s"
        try:
            async with asyncio.timeout(timeout):
                answer = await self._post(target, url, msgspec.json.encode(body))
        except CallFailed:
            raise
        except TimeoutError:
            raise CallFailed(f'Post "{url}": context deadline exceeded') from None
        except (aiohttp.ClientError, OSError, ApiError, ValueError) as error:
            raise CallFailed(f'Post "{url}": {self._why(target, error)}') from error
        if not isinstance(answer, dict):
            raise CallFailed("the answer is no object")
        return answer

    async def _post(self, target: WebhookTarget, url: str, body: bytes) -> Any:
        async with (
            self._sessions.use(target, lambda: self._open(target)) as session,
            session.post(url, data=body, headers=_HEADERS, allow_redirects=False) as reply,
        ):
            data = await whole(reply)
            if not 200 <= reply.status < 300:
                raise CallFailed(_refusal(reply.status, data))
        try:
            return decoded(data)
        except ValueError as error:
            raise CallFailed(f"couldn't get version/kind; json parse error: {error}") from error

    def _open(self, target: WebhookTarget) -> aiohttp.ClientSession:
        connector = self._connector(target)
        return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

    def _connector(self, target: WebhookTarget) -> aiohttp.BaseConnector:
        tls = trusting(target.bundle)
        if target.service is None:
            return aiohttp.TCPConnector(ssl=tls, limit=0)
        service, port = target.service, target.port
        return Connector(lambda: self._dialer.service(service, port), tls, target.server_name)

    def _why(self, target: WebhookTarget, error: BaseException) -> str:
        session = self._sessions.get(target)
        connector = session.connector if session is not None else None
        if isinstance(connector, Connector) and connector.words:
            return "; ".join(connector.words)
        return reason(error)

    async def close(self) -> None:
        await self._sessions.close()


def reason(error: BaseException) -> str:
    """Return why a connection failed, in the words of Go's net and tls packages that we know."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        if cause.verify_code in _UNTRUSTED:
            what = "x509: certificate signed by unknown authority"
        else:
            what = f"x509: {cause.verify_message}"
        return f"tls: failed to verify certificate: {what}"
    if isinstance(cause, ConnectionRefusedError):
        named = error if isinstance(error, aiohttp.ClientConnectorError) else None
        where = f" {named.host}:{named.port}" if named is not None else ""
        return f"dial tcp{where}: connect: connection refused"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


def _refusal(code: int, data: bytes) -> str:
    try:
        message = decoded(data).get("message")
    except (ValueError, AttributeError):
        message = None
    if message:
        return str(message)[:_LONGEST]
    text = data[:200].decode(errors="replace").strip()
    known = {404: "the server could not find the requested resource"}
    words = known.get(code, f"an error on the server ({text!r}) has prevented the request").replace(
        "'", '"'
    )
    return f"{words} (status {code})" if code not in known else words


@lru_cache(maxsize=128)
def trusting(bundle: str) -> ssl.SSLContext:
    """Do as `believing`, with one context for all who ask; it must not be changed."""
    return believing(bundle)


def believing(bundle: str) -> ssl.SSLContext:
    """Make a context that believes a bundle's authorities; the system's where it is empty."""
    if not bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode("ascii"))
    except (binascii.Error, ValueError, ssl.SSLError) as error:
        raise CallFailed(f"its caBundle holds no certificate: {error}") from error
