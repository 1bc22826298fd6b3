"""Pulls from registries: the pull half of the OCI distribution specification.

Used by `cache`, one client per image pulled. Tries mirrors before the registry itself, https before
the plain http that registries named in the settings may speak, each login before none. Loopback is
no exception: it is shared with all users of the host. Every failure is an ImageError that says
which registry, what it answered, and what to do.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import os
import re
import ssl
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from ...errors import ImageError
from ...settings import ImageSettings
from . import answers
from .answers import Destinations, Overstepped
from .credentials import Credential
from .manifest import ACCEPT, Blob, check, digest_of
from .reference import Reference

_HUB = "registry-1.docker.io"
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)
_TRIES = 3
_pause = asyncio.sleep
_CHALLENGE = re.compile(r'\b(\w+)="([^"]*)"')
# Pythons that are built elsewhere look where their builder's distribution has them.
_AUTHORITIES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
)
_LOGIN = "Authorization"
_TRANSIENT = (429, 500, 502, 503, 504)

Progress = Callable[[int], None]


class _Unreachable(Exception):
    """This endpoint does not answer; another may."""


class _Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}".strip())
        self.status = status


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a registry or its mirror is spoken to."""

    url: str  # scheme://host[:port][/prefix]
    is_verified: bool = True  # False: by https, whatever certificate it shows
    is_mirror: bool = False


def endpoints(registry: str, settings: ImageSettings) -> list[Endpoint]:
    """Return the mirrors of a registry, in their order, then itself."""
    found: list[Endpoint] = []
    for mirror in settings.mirrors.get(registry, []):
        of_mirror = [Endpoint(mirror.rstrip("/"))] if "://" in mirror else _of(mirror, settings)
        found += [replace(endpoint, is_mirror=True) for endpoint in of_mirror]
    return found + _of(registry, settings)


def _of(host: str, settings: ImageSettings) -> list[Endpoint]:
    """Return the endpoints of a host; plain http is for those who do not speak https at all."""
    if host == "docker.io":
        return [Endpoint(f"https://{_HUB}")]
    is_insecure = host in settings.insecure_registries
    plain = [Endpoint(f"http://{host}")] if is_insecure else []
    return [Endpoint(f"https://{host}", is_verified=not is_insecure), *plain]


def is_loopback(host: str) -> bool:
    name = re.sub(r":\d+$", "", host).strip("[]")
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _has_proxy(url: URL) -> bool:
    """Return whether the environment has a proxy for an address, which then dials it."""
    host = url.host or ""
    return url.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host)


class Client:
    """Pulls of one repository; `close` it after use."""

    def __init__(
        self, reference: Reference, settings: ImageSettings, credentials: Sequence[Credential]
    ) -> None:
        self._reference = reference
        self._endpoints = endpoints(reference.registry, settings)
        self._credentials: list[Credential | None] = [*credentials, None]
        self._authorization: dict[str, str] = {}  # endpoint -> header that worked
        # Proxies of the environment are for the world outside, not for this host.
        self._trusts_proxies = not is_loopback(reference.registry)
        mirrors = [one for some in settings.mirrors.values() for one in some]
        self._destinations = Destinations(settings.insecure_registries, mirrors)
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()

    def _session(self, url: URL) -> aiohttp.ClientSession:
        """Return the session for an address: one for what anybody names, which knows no loopback.

        The other is for hosts that the settings name, and for proxies of the environment.
        """
        is_ours = self._destinations.is_named(url) or (self._trusts_proxies and _has_proxy(url))
        if is_ours not in self._sessions:
            sockets = None if is_ours else answers.checked_socket
            self._sessions[is_ours] = aiohttp.ClientSession(
                timeout=_TIMEOUT,
                trust_env=self._trusts_proxies,
                connector=aiohttp.TCPConnector(ssl=_trusting(), socket_factory=sockets),
                cookie_jar=aiohttp.DummyCookieJar(),
                # What is compressed on the way may be of any size, and would not have its digest.
                auto_decompress=False,
                headers={"Accept-Encoding": "identity"},
            )
        return self._sessions[is_ours]

    async def manifest(self, wanted: str) -> tuple[str, bytes]:
        """Return digest and bytes of a manifest by tag or digest, checked against the digest."""
        data, header = await self._anywhere(lambda endpoint: self._manifest(endpoint, wanted))
        if ":" in wanted:
            check(data, wanted, f"manifest of {self._reference}")
            return wanted, data
        digest = digest_of(data)
        if header.startswith("sha256:") and header != digest:
            check(data, header, f"manifest of {self._reference}")
        return digest, data

    async def blob(self, blob: Blob) -> bytes:
        """Return a small blob: an image's configuration."""
        data: bytes = await self._anywhere(lambda endpoint: self._blob_bytes(endpoint, blob))
        check(data, blob.digest, f"configuration of {self._reference}")
        return data

    async def download(self, blob: Blob, target: Path, progress: Progress) -> None:
        """Write a layer into a file, its digest checked on the way."""
        await self._anywhere(lambda endpoint: self._blob_file(endpoint, blob, target, progress))

    # One endpoint

    async def _manifest(self, endpoint: Endpoint, wanted: str) -> tuple[bytes, str]:
        headers = {"Accept": ACCEPT}
        async with self._get(endpoint, f"manifests/{wanted}", headers) as response:
            data = await answers.document(response, answers.DOCUMENT, "manifest")
            return data, response.headers.get("Docker-Content-Digest", "")

    async def _blob_bytes(self, endpoint: Endpoint, blob: Blob) -> bytes:
        async with self._get(endpoint, f"blobs/{blob.digest}", {}) as response:
            return await answers.document(response, answers.DOCUMENT, "configuration")

    async def _blob_file(
        self, endpoint: Endpoint, blob: Blob, target: Path, progress: Progress
    ) -> None:
        algorithm = blob.digest.partition(":")[0]
        found = hashlib.new(algorithm)
        done = 0
        try:
            async with self._get(endpoint, f"blobs/{blob.digest}", {}) as response:
                with target.open("wb") as file:
                    async for chunk in answers.layer(response, blob.size):
                        found.update(chunk)
                        file.write(chunk)
                        done += len(chunk)
                        progress(len(chunk))
        except BaseException:
            progress(-done)
            raise
        if f"{algorithm}:{found.hexdigest()}" != blob.digest:
            progress(-done)
            raise _Unreachable(f"sent other bytes than {blob.digest}")

    # Trying

    async def _anywhere(self, ask: Callable[[Endpoint], Any]) -> Any:
        """Return the first endpoint's answer; else the last one's failure, told to the user."""
        failure: Exception = _Unreachable("has no address")
        for endpoint in self._endpoints:
            for attempt in range(_TRIES):
                try:
                    return await ask(endpoint)
                except _Refused as error:
                    failure = error
                    if error.status not in _TRANSIENT:
                        if not endpoint.is_mirror:
                            raise self._told(error) from None
                        break
                except Overstepped as error:
                    failure = error
                    break
                except aiohttp.ClientConnectorCertificateError as error:
                    raise self._untrusted(error) from error
                except (aiohttp.ClientError, TimeoutError, _Unreachable) as error:
                    failure = error
                    if isinstance(error, aiohttp.ClientConnectorError):
                        break
                if attempt + 1 < _TRIES:
                    await _pause(0.5 * 2**attempt)
        raise self._told(failure)

    @asynccontextmanager
    async def _get(
        self, endpoint: Endpoint, path: str, headers: dict[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Return a 200 answer, logging in as the registry asks for it."""
        url = URL(f"{endpoint.url}/v2/{self._reference.repository}/{path}")
        known = self._authorization.get(endpoint.url)
        response = await self._ask(endpoint, url, _with(headers, known))
        if response.status == 401:
            async with response:
                challenge = response.headers.get("WWW-Authenticate", "")
                refusal = _Refused(401, await answers.words(response))
            response = await self._logged_in(endpoint, url, headers, challenge, refusal)
        async with response:
            if response.status != 200:
                raise _Refused(response.status, await answers.words(response))
            yield response

    async def _ask(
        self, endpoint: Endpoint, url: URL, headers: dict[str, str]
    ) -> aiohttp.ClientResponse:
        """Return the answer, wherever it comes from; a login goes to who asked for it."""
        for _ in range(answers.REDIRECTS):
            # True means the session's own trust, which knows the host's authorities.
            check = endpoint.is_verified and not self._destinations.is_insecure(url)
            async with asyncio.timeout(answers.ANSWER_TIME):
                response = await self._session(url).get(
                    url, headers=headers, ssl=check, allow_redirects=False
                )
            if not answers.is_redirect(response):
                return response
            async with response:
                place = response.headers.get("Location", "")
            target = self._destinations.after(url, place, "redirects to")
            if target.origin() != url.origin():
                headers = {name: text for name, text in headers.items() if name != _LOGIN}
                endpoint = replace(endpoint, is_verified=True)
            url = target
        raise Overstepped(f"redirects more than {answers.REDIRECTS} times")

    async def _logged_in(
        self,
        endpoint: Endpoint,
        url: URL,
        headers: dict[str, str],
        challenge: str,
        refusal: _Refused,
    ) -> aiohttp.ClientResponse:
        """Return the answer to the first login that is let in."""
        for credential in self._credentials_for(url):
            authorization = await self._login(url, challenge, credential)
            if authorization is None:
                continue
            response = await self._ask(endpoint, url, _with(headers, authorization))
            if response.status not in (401, 403):
                self._authorization[endpoint.url] = authorization
                return response
            async with response:
                refusal = _Refused(response.status, await answers.words(response))
        raise refusal

    def _credentials_for(self, url: URL) -> list[Credential | None]:
        """Return logins that may be told there; a mirror's `http://` gets images, no logins."""
        is_open = url.scheme == "http" and not self._destinations.is_insecure(url)
        return [None] if is_open else self._credentials

    async def _login(self, url: URL, challenge: str, credential: Credential | None) -> str | None:
        """Return the Authorization header that a 401 asks for; None if this login has none."""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic":
            return credential.basic() if credential else None
        fields = dict(_CHALLENGE.findall(rest))
        if scheme.lower() != "bearer" or "realm" not in fields:
            return None
        realm = self._destinations.after(url, fields["realm"], "has tokens given out by")
        if credential not in self._credentials_for(realm):
            return None
        token = await self._token(realm, fields, credential)
        return f"Bearer {token}" if token else None

    async def _token(
        self, realm: URL, fields: dict[str, str], credential: Credential | None
    ) -> str:
        scope = f"repository:{self._reference.repository}:pull"
        query = {"scope": fields.get("scope") or scope}
        if service := fields.get("service"):
            query["service"] = service
        async with asyncio.timeout(answers.ANSWER_TIME):
            async with await self._ask_realm(realm, query, credential) as response:
                if response.status != 200:
                    return ""
                data = await answers.document(response, answers.TOKEN, "token")
        try:
            answer = answers.loads(data)
            token = str(answer.get("token") or answer.get("access_token") or "")
        except (ValueError, AttributeError):
            return ""
        return token if token.isascii() and token.isprintable() else ""

    async def _ask_realm(
        self, realm: URL, query: dict[str, str], credential: Credential | None
    ) -> aiohttp.ClientResponse:
        check = not self._destinations.is_insecure(realm)
        if credential is not None and credential.identity_token:
            form = {**query, "grant_type": "refresh_token", "client_id": "orlop"}
            form["refresh_token"] = credential.identity_token
            session = self._session(realm)
            return await session.post(realm, data=form, ssl=check, allow_redirects=False)
        headers = {_LOGIN: credential.basic()} if credential else {}
        return await self._ask(Endpoint(str(realm), check), realm.update_query(query), headers)

    def _untrusted(self, error: aiohttp.ClientConnectorCertificateError) -> ImageError:
        registry = self._reference.registry
        message = f"{registry} shows a certificate that is not trusted: {error.certificate_error}"
        remedy = "name its authority's file in SSL_CERT_FILE before `orlop up`, or the registry in"
        return ImageError("ErrImagePull", f"{message}; {remedy} images.insecure_registries")

    def _told(self, failure: Exception) -> ImageError:
        """Turn a failure into an ImageError for the author of a pod."""
        image, registry = str(self._reference), self._reference.registry
        if isinstance(failure, _Refused) and failure.status == 404:
            remedy = "check its name and tag"
            return ImageError("ErrImagePull", f"{registry} has no image {image}; {remedy}")
        if isinstance(failure, _Refused) and failure.status in (401, 403):
            remedy = "name an imagePullSecret in the pod, or log in with `docker login` or"
            message = f"{registry} refuses access to {image} ({failure}), or has no such image"
            return ImageError("ErrImagePull", f"{message}; {remedy} `apptainer registry login`")
        if isinstance(failure, _Refused) and failure.status == 429:
            message = f"{registry} answers too many requests from here for {image}"
            return ImageError("ErrImagePull", f"{message}; log in, or set images.mirrors")
        if isinstance(failure, _Refused):
            return ImageError(
                "ErrImagePull", f"{registry} failed for {image}: {failure}; try later"
            )
        if isinstance(failure, Overstepped):
            message = f"registry {registry} {failure}; {image} is not pulled from it"
            return ImageError("ErrImagePull", message)
        if isinstance(failure, aiohttp.ClientConnectorSSLError):
            return ImageError("ErrImagePull", self._without_tls(failure))
        why = answers.shown(str(failure) or type(failure).__name__)
        remedy = "check the name; set images.mirrors, images.insecure_registries or a proxy"
        message = f"registry {registry} cannot be reached from this host for {image}: {why}"
        return ImageError("ErrImagePull", f"{message}; {remedy} (HTTPS_PROXY) if it needs one")

    def _without_tls(self, failure: aiohttp.ClientConnectorSSLError) -> str:
        registry, why = self._reference.registry, answers.shown(str(failure.os_error))
        message = f"registry {registry} does not speak https ({why}), so {self._reference} is not"
        remedy = f"name it in {answers.PLAIN_HTTP_SETTING} of config.yaml to have it spoken to by"
        return f"{message} pulled from it; {remedy} plain http, which others may read and change"


def _trusting() -> ssl.SSLContext:
    """Make a TLS context with the host's authorities, also where this Python does not find them."""
    context = ssl.create_default_context()
    places = ssl.get_default_verify_paths()
    if places.cafile is None and places.capath is None:
        found = next((path for path in _AUTHORITIES if os.path.exists(path)), None)
        if found is not None:
            context.load_verify_locations(found)
    return context


def _with(headers: dict[str, str], authorization: str | None) -> dict[str, str]:
    return {**headers, _LOGIN: authorization} if authorization else headers
