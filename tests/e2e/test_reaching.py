"""Probes and hooks over the network of pods that have their own, and ports forwarded into them."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.e2e.site import Obj, Site, eventually, pod
from tests.e2e.test_streams import forwarded

# Says what it was asked; over TLS it wants to be asked with a certain header. The health service
# of gRPC answers any question with SERVING, in frames that were written down once.
SERVER = r"""
import http.server, signal, socket, ssl, threading

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        right = self.headers["X-Probe"] == "of mine" or not self.server.is_strict
        self.send_response(200 if right else 403)
        self.end_headers()
        self.wfile.write(b"served\n")
        if not self.server.is_strict:
            print("asked", self.path, flush=True)
    def log_message(self, *args): pass

def web(port, is_strict):
    server = http.server.ThreadingHTTPServer(("", port), Handler)
    server.is_strict = is_strict
    if is_strict:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()

def frame(kind, flags, stream, payload):
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload

def health(connection):
    heard = b""
    while b"grpc.health" not in heard:
        more = connection.recv(4096)
        if not more: return
        heard += more
    ok = frame(1, 4, 1, b"\x88\x10\x0ccontent-type\x10application/grpc")
    connection.sendall(frame(4, 0, 0, b"") + ok + frame(0, 0, 1, b"\0\0\0\0\2\x08\1"))
    connection.sendall(frame(1, 5, 1, b"\x10\x0bgrpc-status\x010"))

def knock(connection):
    print("knocked", flush=True)

def listen(port, answer):
    server = socket.create_server(("", port))
    def serve():
        while True:
            try:
                with server.accept()[0] as connection:
                    answer(connection)
            except OSError: pass  # who asked has gone
    threading.Thread(target=serve, daemon=True).start()

signal.signal(signal.SIGTERM, lambda *_: exit(0))
web(8080, False); web(8443, True); listen(9090, knock); listen(50051, health)
signal.pause()
"""


def certificate() -> dict[str, str]:
    """Of nobody in particular: probes do not ask whose it is."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nobody")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private = key.private_bytes(pem, form, serialization.NoEncryption())
    signed = made.sign(key, hashes.SHA256()).public_bytes(pem)
    return {"tls.crt": signed.decode(), "tls.key": private.decode()}


def manifest(runtime: str) -> Obj:
    """A server that stays to the end, and a container that greets it and says goodbye to it."""
    header = {"name": "X-Probe", "value": "of mine"}
    # A busy node may keep a probe waiting: three that are late would restart the server.
    patient = {"periodSeconds": 1, "timeoutSeconds": 10}
    secure = {"port": "secure", "scheme": "HTTPS", "path": "/ready", "httpHeaders": [header]}
    server = {
        "name": "server",
        "image": "python",
        "command": ["python3", "-c", SERVER],
        "restartPolicy": "Always",
        "ports": [{"name": "secure", "containerPort": 8443}],
        "startupProbe": {"grpc": {"port": 50051}, **patient, "failureThreshold": 90},
        "readinessProbe": {"httpGet": secure, **patient},
        "livenessProbe": {"grpc": {"port": 50051, "service": "shop"}, **patient},
        "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
    }
    # Without the header it is not let in, and never ready.
    stranger = {**secure, "httpHeaders": [{"name": "X-Probe", "value": "another's"}], "port": 8443}
    hooks = {
        "postStart": {"httpGet": {"port": 8080, "path": "/hello"}},
        "preStop": {"tcpSocket": {"port": 9090}},
    }
    waits = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
    main = {"lifecycle": hooks, "readinessProbe": {"httpGet": stranger, **patient}}
    made = pod("reached", "busybox", waits, container=main, initContainers=[server])
    made["metadata"]["annotations"] = {"orlop.dev/runtime": runtime}
    made["spec"]["volumes"] = [{"name": "tls", "secret": {"secretName": "tls"}}]
    return made


@pytest.mark.parametrize("runtime", ["crun", "apptainer"])
def test_a_pod_is_probed_hooked_and_forwarded_to(site: Site, runtime: str) -> None:
    tls = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
    secret = {**tls, "metadata": {"name": "tls"}, "stringData": certificate()}
    site.apply({"apiVersion": "v1", "kind": "List", "items": [secret, manifest(runtime)]})
    site.wait_phase("reached", "Running")
    eventually(lambda: is_ready(site, "server"), "it is served by TLS and with its header")
    words = "Readiness probe failed: HTTP probe failed with statuscode: 403"
    eventually(lambda: ("Unhealthy", words) in site.events("reached"), words)
    assert not is_ready(site, "main")
    with forwarded(site, "kubectl", "reached", 8080) as address:
        assert site.run("curl", "-sf", f"http://{address}/by-forward").stdout == "served\n"
    argv = ["kubectl", "-n", site.namespace, "logs", "-f", "reached", "-c", "server"]
    with site.popen(*argv, stdout=subprocess.PIPE, text=True) as follow:
        said = [follow.stdout.readline()]  # it follows by now
        site.kubectl("delete", "pod", "reached", "--timeout=60s", timeout=90)
        said += follow.stdout.readlines()
    assert said == ["asked /hello\n", "asked /by-forward\n", "knocked\n"]


def is_ready(site: Site, name: str) -> bool:
    status = site.pod("reached")["status"]
    both = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    found = [each for each in both if each["name"] == name]
    assert not any(each["restartCount"] for each in both), site.story("reached")
    return bool(found and found[0]["ready"])
