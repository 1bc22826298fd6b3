"""Reads what a registry answers within bounds: how much, how slowly, and where it may send us.

Used by `registry` for every byte and every address that a registry sends. Who serves images may be
anybody, so nothing here grows with what they send, and nothing waits for as long as they like.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Collection
from errno import EPERM
from typing import Any

import aiohttp
from yarl import URL

from ... import destinations

PLAIN_HTTP_SETTING = "images.insecure_registries"
MIRRORS_SETTING = "images.mirrors"
_ANYBODYS = destinations.Destinations()
DOCUMENT = 4 << 20  # bytes of a manifest, an index or a configuration; as docker and containerd
TOKEN = 1 << 20
WORDS = 64 << 10  # of an error
SAID = 300  # characters of an error that a pod is shown
ANSWER_TIME = 60.0  # seconds for the head of an answer, and for a document
WINDOW, LEAST = 60.0, 256 << 10  # a layer that brings less in such a time is given up
REDIRECTS = 10
_REDIRECTS = (301, 302, 303, 307, 308)
_CHUNK = 1 << 18


class Overstepped(Exception):
    """An answer beyond its bounds; to ask the same once more would not help."""


async def document(response: aiohttp.ClientResponse, most: int, what: str) -> bytes:
    """Return the body of an answer of which we know that it is small."""
    if (response.content_length or 0) > most:
        raise _too_large(what, most)
    parts: list[bytes] = []
    size = 0
    async with asyncio.timeout(ANSWER_TIME):
        async for part in response.content.iter_any():
            size += len(part)
            if size > most:
                raise _too_large(what, most)
            parts.append(part)
    return b"".join(parts)


def _too_large(what: str, most: int) -> Overstepped:
    return Overstepped(f"sends a {what} of more than the {most >> 10} KiB that it may have")


async def layer(response: aiohttp.ClientResponse, size: int) -> AsyncIterator[bytes]:
    """Yield the body of an answer that was said to have `size` bytes, as it comes."""
    done, since, until = 0, 0, time.monotonic() + WINDOW
    async for part in response.content.iter_chunked(_CHUNK):
        done += len(part)
        if done > size:
            raise Overstepped(f"sends a layer of more than the {size} bytes of its manifest")
        if (now := time.monotonic()) > until:
            if done - since < LEAST:
                raise TimeoutError(f"sent {done - since} bytes of a layer in {WINDOW:.0f} s")
            since, until = done, now + WINDOW
        yield part


async def words(response: aiohttp.ClientResponse) -> str:
    """Return the registry's own message, from its JSON errors, fit to be shown."""
    try:
        answer = loads(await document(response, WORDS, "message"))
        errors = answer.get("errors") or []
        said = "; ".join(str(error.get("message") or error.get("code")) for error in errors)
    except (ValueError, AttributeError, TypeError, aiohttp.ClientError, TimeoutError, Overstepped):
        said = response.reason or ""
    return shown(said)


def shown(text: str) -> str:
    """Return a stranger's words in one line, without what a terminal would take for an order."""
    line = "".join(char if char.isprintable() else " " for char in text[: SAID + 1])
    return line if len(line) <= SAID else line[:SAID] + "…"


def loads(data: bytes) -> Any:
    """Read JSON of a stranger's; ValueError also where it is nested deeper than anybody needs."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def checked_socket(info: aiohttp.AddrInfoType) -> socket.socket:
    """Make a socket for an address that anybody may have named: not of this host or its link."""
    why = _ANYBODYS.problem(str(info[4][0]))
    if why:
        words = why.partition(";")[0]
        remedy = f"{MIRRORS_SETTING} or {PLAIN_HTTP_SETTING} of config.yaml has to name it"
        raise PermissionError(EPERM, f"{words}; if it is meant, {remedy}")
    return socket.socket(*info[:3])


class Destinations:
    """Where requests may go: by plain http to the hosts that the settings name."""

    def __init__(self, insecure: Collection[str], mirrors: Collection[str] = ()) -> None:
        self._insecure = frozenset(insecure)
        urls = [URL(one if "://" in one else f"https://{one}") for one in mirrors]
        self._mirrors = frozenset((url.host, url.port) for url in urls)

    def is_named(self, url: URL) -> bool:
        """Return whether the settings name the host: it may be this very one then."""
        return self.is_insecure(url) or (url.host, url.port) in self._mirrors

    def is_insecure(self, url: URL) -> bool:
        """Return whether the settings name it as one to be spoken to without a check."""
        names = {url.authority, f"{url.host}:{url.port}"}
        return bool(
            self._insecure & (names | ({url.host or ""} if url.is_default_port() else set()))
        )

    def after(self, url: URL, location: str, what: str) -> URL:
        """Return the address that an answer from `url` names; Overstepped if we do not go there."""
        try:
            found = url.join(URL(location))
        except ValueError:
            raise Overstepped(f"{what} what is no address: {shown(location)!r}") from None
        if not location or found.scheme not in ("http", "https") or not found.host:
            raise Overstepped(f"{what} what is no address: {shown(location)!r}")
        is_here = found.scheme == url.scheme and found.authority == url.authority
        if found.scheme == "http" and not is_here and not self.is_insecure(found):
            place = shown(found.authority)
            raise Overstepped(
                f"{what} plain http at {place}, which {PLAIN_HTTP_SETTING} would have to name"
            )
        return found


def is_redirect(response: aiohttp.ClientResponse) -> bool:
    return response.status in _REDIRECTS
