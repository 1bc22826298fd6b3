"""Probes and hooks over the network: HTTP, TCP and gRPC, to a port of the pod or to another host.

Run by `handlers` in threads of their own, with blocking sockets that have a time-out each; modules
that are slow to import come when the first of their kind is needed. The words of failures are those
of Go's net package, which users of Kubernetes know.
"""

from __future__ import annotations

import socket
import time
from errno import ECONNREFUSED

from ..exec.port_forward import NOBODY, come_from_pod, is_of_pod, own_host, reach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_BODY = 10 * 1024
MAX_REDIRECTS = 10
HEARD = 2.0  # seconds for a program to take a connection
REDIRECTS = (301, 302, 303, 307, 308)
USER_AGENT = "kube-probe/1.32"
PRINTABLE = "/?:@!$&'()*+,;=-._~%#[]"

SUCCESS, WARNING, FAILURE, ERROR = "success", "warning", "failure", "error"
TOO_LATE = socket.timeout  # in Python 3.9 it is no TimeoutError


class _Failed(Exception):
    """Raised when the other side said no, or nothing."""


class Reach:
    """One attempt of a probe or hook."""

    def __init__(self, action: dict[str, Any], timeout: float) -> None:
        self._kind = next(kind for kind in ("httpGet", "tcpSocket", "grpc") if kind in action)
        self._action: dict[str, Any] = action[self._kind]
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._sockets: list[socket.socket] = []
        self.is_hook = bool(action.get("hook"))  # any answer is one

    def attempt(self) -> tuple[str, str]:
        """Try; return the result, and words for people. Never raises."""
        port = self._action.get("port")
        if not isinstance(port, int) or not 0 < port < 65536:
            return ERROR, f"invalid port number: {port}"
        try:
            if self._kind == "httpGet":
                return self._http(port)
            if self._kind == "grpc":
                return self._grpc(port)
            with self._connect(str(self._action.get("host") or ""), port) as connection:
                if self.is_hook:
                    self._be_heard(connection)
        except _Failed as failure:
            return FAILURE, str(failure)
        except Exception as error:  # a garbled answer, for instance
            return FAILURE, f"{self._name()}{type(error).__name__}: {error}"
        finally:
            self.abandon()
        return SUCCESS, ""

    def late(self) -> str:
        """Return what is said when the whole took too long."""
        if self._kind == "grpc":
            return f"timeout: health rpc did not complete within {self._timeout:g}s"
        if self._kind == "httpGet":
            words = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            return self._name() + words
        return f"dial tcp {_address(self._action)}: i/o timeout"

    def abandon(self) -> None:
        """End it from whatever thread: its sockets are of no use any more."""
        for each in self._sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # never connected, or closed

    def _name(self) -> str:
        return f'Get "{self._url()}": ' if self._kind == "httpGet" else ""

    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.001)

    def _connect(self, host: str, port: int) -> socket.socket:
        """Connect to the pod's own port, wherever that listens, or to the host that is named."""
        where = f"{host or own_host()}:{port}"
        error: OSError | None = None
        places = reach(port) if not host else _lookup(host, port)
        if not places:
            raise _Failed(f"{self._name()}dial tcp {where}: connect: {NOBODY}")
        for family, address in places:
            connection = socket.socket(family, socket.SOCK_STREAM)
            connection.settimeout(self._left())
            self._sockets.append(connection)
            try:
                if not host:
                    come_from_pod(connection)
                connection.connect(address)
                if not host and not is_of_pod(connection):
                    raise ConnectionRefusedError(ECONNREFUSED, NOBODY)
                return connection
            except OSError as failed:
                # What the first address said is what is told: most programs listen there.
                error = error or failed
                connection.close()
        if isinstance(error, TOO_LATE) or error is None:
            raise _Failed(f"{self._name()}dial tcp {where}: i/o timeout")
        why = (error.strerror or str(error)).lower()
        raise _Failed(f"{self._name()}dial tcp {where}: connect: {why}")

    def _be_heard(self, connection: socket.socket) -> None:
        """Wait until the other side has accepted: a pod is not told of a client that has left."""
        connection.settimeout(min(self._left(), HEARD))
        try:
            connection.recv(1)
        except OSError:
            pass  # it waits for words, and has none from a hook

    # HTTP

    def _url(self) -> str:
        action = self._action
        scheme = (action.get("scheme") or "HTTP").lower()
        return f"{scheme}://{_address(action)}{_path(action.get('path') or '/')}"

    def _http(self, port: int) -> tuple[str, str]:
        from urllib.parse import urljoin, urlsplit

        url, named = self._url(), str(self._action.get("host") or "")
        first = urlsplit(url).hostname
        for _ in range(MAX_REDIRECTS):
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            status, location, body = self._get(parts.scheme, named, port, target or "/")
            following = urljoin(url, location) if status in REDIRECTS and location else ""
            if not following or urlsplit(following).hostname != first or self.is_hook:
                break
            url = following
        else:
            raise _Failed(f"{self._name()}stopped after {MAX_REDIRECTS} redirects")
        if self.is_hook or 200 <= status < 300:
            return SUCCESS, body
        if 300 <= status < 400:
            return WARNING, f"Probe terminated redirects, Response body: {body}"
        return FAILURE, f"HTTP probe failed with statuscode: {status}"

    def _get(self, scheme: str, host: str, port: int, target: str) -> tuple[int, str, str]:
        """Return the status, the target of a redirect, and the beginning of the body."""
        import http.client

        connection = self._connect(host, port)
        if scheme == "https":
            connection = self._encrypted(connection)
        request = http.client.HTTPConnection(host or own_host(), port)
        request.sock = connection
        try:
            request.putrequest("GET", target, skip_host=True, skip_accept_encoding=True)
            for name, text in _headers(self._action, f"{host or own_host()}:{port}"):
                request.putheader(name, text)
            request.endheaders()
            connection.settimeout(self._left())
            response = request.getresponse()
            body = response.read(MAX_BODY).decode(errors="replace")
            return response.status, response.getheader("Location") or "", body
        except TOO_LATE:
            raise _Failed(self.late()) from None
        except (http.client.HTTPException, OSError) as error:
            raise _Failed(f"{self._name()}{str(error) or 'EOF'}") from None
        finally:
            connection.close()

    def _encrypted(self, connection: socket.socket, speaks: str = "") -> socket.socket:
        """Begin TLS without asking who it is: the pod is reached by its own port."""
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if speaks:
            context.set_alpn_protocols([speaks])
        connection.settimeout(self._left())
        try:
            wrapped = context.wrap_socket(connection)
        except TOO_LATE:
            raise _Failed(self._name() + "net/http: TLS handshake timeout") from None
        except OSError as error:
            is_plain = "WRONG_VERSION_NUMBER" in str(error) or "HTTP_REQUEST" in str(error)
            words = "http: server gave HTTP response to HTTPS client" if is_plain else f"{error}"
            raise _Failed(self._name() + words) from None
        self._sockets.append(wrapped)
        return wrapped

    # gRPC

    def _grpc(self, port: int) -> tuple[str, str]:
        from .grpc_health import NotHealth, check

        try:
            connection = self._connect("", port)
        except _Failed as failure:
            raise _Failed(f"error: failed to connect service at {failure}") from None
        if self._action.get("mode") == "TLS":
            connection = self._encrypted(connection, "h2")
        with connection:
            connection.settimeout(self._left())
            try:
                status = check(connection, str(self._action.get("service") or ""), f"pod:{port}")
            except TOO_LATE:
                raise _Failed(self.late()) from None
            except (NotHealth, OSError) as error:
                raise _Failed(f"error: health rpc probe failed: {error}") from None
        if status == "SERVING":
            return SUCCESS, ""
        return FAILURE, f'service unhealthy (responded with "{status}")'


def _address(action: dict[str, Any]) -> str:
    return f"{action.get('host') or own_host()}:{action.get('port')}"


def _path(path: str) -> str:
    from urllib.parse import quote

    return quote(path if path.startswith("/") else f"/{path}", safe=PRINTABLE)


def _headers(action: dict[str, Any], host: str) -> list[tuple[str, str]]:
    """Return those asked for, and those that a probe sends of its own unless asked for others."""
    given = [(h["name"], h.get("value") or "") for h in action.get("httpHeaders") or []]
    names = {name.lower() for name, _ in given}
    own = (("Host", host), ("User-Agent", USER_AGENT), ("Accept", "*/*"), ("Connection", "close"))
    found = [(name, text) for name, text in own if name.lower() not in names]
    # A header with an empty value is not sent, as upstream has it.
    return found + [(name, text) for name, text in given if text]


def _lookup(host: str, port: int) -> list[tuple[int, Any]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise _Failed(f"dial tcp: lookup {host}: {error.strerror or error}") from None
    return [(int(each[0]), each[4]) for each in found]
