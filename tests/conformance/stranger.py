"""A stranger on the same machine: another user without credentials, who looks around or floods.

Run by test_stranger with the machine's own Python as that user: `look PORT HOME PID` prints what
could be learnt as JSON, `flood WAY PORT SECONDS` does its worst and prints how often.
"""

import contextlib
import json
import os
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

PATHS = (
    "/",
    "/api",
    "/apis",
    "/api/v1/pods",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/nosuchthing",
    "/metrics",
    "/openapi/v2",
    "/version",
    "/debug/pprof",
    "/logs",
)
ANYBODY = ssl.create_default_context()
ANYBODY.check_hostname = False
ANYBODY.verify_mode = ssl.CERT_NONE


def look(port, home, pid):
    told = {"answers": {}, "files": [], "process": []}
    for path in PATHS:
        for token in ("", "nonsense", "ey.ey.ey"):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers)
            try:
                with urllib.request.urlopen(request, context=ANYBODY, timeout=20) as answer:
                    told["answers"][path] = [answer.status, answer.read().decode(), {}]
            except urllib.error.HTTPError as error:
                text, named = error.read().decode(), dict(error.headers)
                told["answers"][path] = [error.code, text, named]
    for path in (home, *(f"{home}/{name}" for name in ("pki", "state.db", "state.db-wal"))):
        with contextlib.suppress(OSError):
            Path(path).read_bytes() if Path(path).is_file() else os.listdir(path)
            told["files"].append(path)
    for name in ("environ", "fd", "maps", "mem", "io", "cwd", "root"):
        with contextlib.suppress(OSError):
            where = f"/proc/{pid}/{name}"
            if name in ("cwd", "root"):
                os.readlink(where)
            elif name == "fd":
                os.listdir(where)
            else:
                with open(where, "rb") as file:
                    file.read(10)
            told["process"].append(name)
    told["cmdline"] = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    print(json.dumps(told))


def handshakes(port):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plain:
        ANYBODY.wrap_socket(plain).close()


class Holding:
    """Ways that keep connections open, many of them."""

    def __init__(self):
        self.held = []

    def silent(self, port):
        self.held.append(socket.create_connection(("127.0.0.1", port), timeout=20))
        self._let_go()

    def loris(self, port):
        connection = ANYBODY.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=20))
        connection.sendall(b"GET /api HTTP/1.1\r\nHost: a\r\nX-A: ")
        self.held.append(connection)
        with contextlib.suppress(OSError):
            self.held[len(self.held) // 2].sendall(b"a")
        self._let_go()

    def _let_go(self):
        if len(self.held) > 400:
            self.held.pop(0).close()


def requests(port):
    with contextlib.suppress(urllib.error.HTTPError):
        url = f"https://127.0.0.1:{port}/api/v1/pods"
        urllib.request.urlopen(url, context=ANYBODY, timeout=20)


def flood(way, port, seconds):
    holding = Holding()
    ways = {
        "handshakes": handshakes,
        "silent": holding.silent,
        "loris": holding.loris,
        "requests": requests,
    }
    print("begun", flush=True)
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            ways[way](port)
        count += 1
    print(count)


if sys.argv[1] == "look":
    look(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
else:
    flood(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
