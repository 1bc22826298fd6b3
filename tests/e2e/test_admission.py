"""A webhook that runs as a pod of the cluster, and proxies into it, on a real Slurm.

The API server is on the login node, the pod on a compute node: everything goes over the connection
that the pod's agent has opened.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orlop import pki
from tests.e2e.site import Site, eventually

Obj = dict[str, Any]
PROGRAM = """
import base64, http.server, json, ssl, threading

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(f"you asked for {self.path}".encode())

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        labels = request["object"]["metadata"].get("labels") or {}
        response = {"uid": request["uid"], "allowed": labels.get("wanted") != "no"}
        if not response["allowed"]:
            response["status"] = {"message": "pods must be wanted", "code": 403}
        elif self.path.startswith("/mutate"):
            patch = [{"op": "add", "path": "/metadata/annotations", "value": {"seen": "by-a-pod"}}]
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
        self.answer(json.dumps({**review, "response": response}).encode())

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        print(*args, flush=True)

plain = http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Handler)
threading.Thread(target=plain.serve_forever, daemon=True).start()
secure = http.server.ThreadingHTTPServer(("0.0.0.0", 8443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
secure.socket = context.wrap_socket(secure.socket, server_side=True)
print("ready", flush=True)
secure.serve_forever()
"""


def server(site: Site, authority: pki.Pki) -> list[Obj]:
    """The secret, the pod and the service of a webhook that also speaks plain HTTP."""
    files = {
        "tls.crt": authority.apiserver.crt.read_text(),
        "tls.key": authority.apiserver.key.read_text(),
        "server.py": PROGRAM,
    }
    container = {
        "name": "main",
        "image": "python",
        "command": ["python", "/tls/server.py"],
        "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": "tls", "secret": {"secretName": "policy"}}],
        "terminationGracePeriodSeconds": 1,
    }
    ports = [
        {"name": "https", "port": 443, "targetPort": 8443},
        {"name": "http", "port": 80, "targetPort": 8080},
    ]
    named = {"name": "policy", "namespace": site.namespace}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": named, "stringData": files},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**named, "labels": {"app": "policy"}},
         "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": named,
         "spec": {"selector": {"app": "policy"}, "ports": ports}},
    ]  # fmt: skip


@pytest.fixture
def policy(site: Site, tmp_path: Path) -> Iterator[Site]:
    """The webhook runs and is configured for all pods of this namespace but its own."""
    authority = pki.ensure(tmp_path / "pki", [f"policy.{site.namespace}.svc"])
    for manifest in server(site, authority):
        site.apply(manifest)
    site.kubectl("wait", "--for=condition=Ready", "pod/policy", "--timeout=60s", timeout=90)
    eventually(lambda: site.get("endpointslices")["items"][0].get("endpoints"), "an endpoint")
    bundle = base64.b64encode(authority.ca.read_bytes()).decode()
    for kind, path in (("Mutating", "/mutate"), ("Validating", "/validate")):
        service = {"name": "policy", "namespace": site.namespace, "path": path}
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
        webhook = {
            "name": f"{kind.lower()}.policy.example.com",
            "clientConfig": {"service": service, "caBundle": bundle},
            "rules": [{**rule, "operations": ["CREATE"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}},
        }
        site.apply(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": f"{kind}WebhookConfiguration",
                "metadata": {"name": f"policy-{kind.lower()}"},
                "webhooks": [webhook],
            }
        )
    yield site
    for kind in ("mutating", "validating"):
        site.kubectl("delete", f"{kind}webhookconfiguration", f"policy-{kind}")


def test_a_webhook_in_a_pod_changes_and_refuses_pods_and_is_reached_by_proxy(policy: Site) -> None:
    site = policy
    site.kubectl("run", "good", "--image=busybox", "--restart=Never", "--command", "--", "true")
    assert site.pod("good")["metadata"]["annotations"]["seen"] == "by-a-pod"
    ran = site.run(
        "kubectl", "-n", site.namespace, "run", "bad", "--image=busybox", "--labels=wanted=no",
        check=False,
    )  # fmt: skip
    assert ran.returncode == 1
    assert 'admission webhook "mutating.policy.example.com" denied the request: pods must be' in (
        ran.stderr
    )
    raw = f"/api/v1/namespaces/{site.namespace}/services/policy:http/proxy/hello?a=b"
    assert site.kubectl("get", "--raw", raw) == "you asked for /hello?a=b"
    secure = raw.replace("policy:http", "https:policy:443")
    assert site.kubectl("get", "--raw", secure) == "you asked for /hello?a=b"
    pod = f"/api/v1/namespaces/{site.namespace}/pods/policy:8080/proxy/there"
    assert site.kubectl("get", "--raw", pod) == "you asked for /there"
    _kubectl_proxy(site, pod)
    site.kubectl("delete", "pod", "policy", "--wait=true")
    late = site.run("kubectl", "-n", site.namespace, "run", "late", "--image=busybox", check=False)
    assert "no endpoints available for service" in late.stderr, late.stderr


def _kubectl_proxy(site: Site, path: str) -> None:
    proxy = site.popen(
        "kubectl", "proxy", "--port=0", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert proxy.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+)", proxy.stdout.readline())
        assert found is not None
        url = f"http://127.0.0.1:{found[1]}"
        program = (
            "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
        )
        assert site.run("python3", "-c", program, url + path).stdout == "you asked for /there\n"
        pods = site.run("python3", "-c", program, f"{url}/api/v1/namespaces/{site.namespace}/pods")
        assert "policy" in [one["metadata"]["name"] for one in json.loads(pods.stdout)["items"]]
    finally:
        proxy.terminate()
        proxy.communicate(timeout=10)
