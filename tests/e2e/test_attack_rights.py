"""A small account of the cluster, and a pod held to `restricted`, try to get at its keys.

On a real cluster, with kubectl as people have it. What the same program finds where nothing holds
it back is looked at first, so that finding nothing means something.
"""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.cluster.spec import HEAD
from tests.e2e.site import Obj, Site, eventually, pod

LEVEL = "pod-security.kubernetes.io/enforce"
CONFINED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
# Prints what it can read of the cluster's owner: by the paths that are, by those of processes,
# and by whatever is mounted anywhere.
SEARCH = """
home=%(home)s
for way in "" /proc/1/root /proc/self/root/../../.. /proc/[0-9]*/root /host /mnt; do
  for file in pki/ca.key pki/admin.key kubeconfig pki/sa.key; do
    cat "$way$home/$file" 2>/dev/null | grep -q KEY && echo "FOUND $way$home/$file"
  done
  ls "$way$home" "$way$home/pods" 2>/dev/null | grep -q . && echo "FOUND $way$home"
done
find / -path /proc -prune -o -path /sys -prune -o -type f \\
  \\( -name "*.key" -o -name kubeconfig -o -name "id_*" -o -name token -o -name plan.json \\
     -o -name state.db \\) -print 2>/dev/null | while read file; do
  case "$file" in *serviceaccount*|/usr/*|/etc/ssl/*) ;; *) echo "FOUND $file" ;; esac
done
cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep ORLOP_HOME && echo FOUND environment
ls /proc/[0-9]*/fd -l 2>/dev/null | grep -q "$home" && echo FOUND descriptor
unshare -Um true 2>/dev/null && nsenter -t 1 -m true 2>/dev/null && echo FOUND namespace
echo searched
"""


# What a gang's job is to have room for, with a way out of its own.
ROOM = json.dumps([{
    "metadata": {"annotations": {"slurm-job.vk.io/pre-exec": "cp ~/.orlop/pki/ca.key /tmp"}},
    "spec": {"containers": [{}]},
}])  # fmt: skip


@pytest.fixture
def walled(site: Site) -> Site:
    """A namespace whose pods are held to `restricted`."""
    site.kubectl("label", "namespace", site.namespace, f"{LEVEL}=restricted")
    return site


def searching(site: Site, image: str = "busybox", **spec: object) -> Obj:
    made = pod("thief", image, SEARCH % {"home": site.home}, **spec)
    return made


def found(site: Site, name: str = "thief") -> list[str]:
    site.wait_phase(name, "Succeeded", "Failed")
    lines = site.kubectl("logs", name).splitlines()
    assert lines[-1] == "searched", lines
    return lines[:-1]


def test_where_nothing_holds_it_back_it_finds_the_keys(site: Site) -> None:
    site.apply(searching(site, "host"))
    assert f"FOUND {site.home}/pki/ca.key" in found(site)


@pytest.mark.parametrize(
    ("runtime", "level"), [("crun", "restricted"), ("crun", "baseline"), ("apptainer", "baseline")]
)
def test_a_confined_pod_finds_none_of_the_clusters_keys(
    walled: Site, runtime: str, level: str
) -> None:
    """At `baseline` as the root of its container."""
    walled.kubectl("label", "--overwrite", "namespace", walled.namespace, f"{LEVEL}={level}")
    context = CONFINED if level == "restricted" else {}
    made = searching(walled, container={"securityContext": context})
    made["metadata"]["annotations"] = {"orlop.dev/runtime": runtime}
    walled.apply(made)
    assert found(walled) == []


def test_nor_does_what_is_added_to_it_later(walled: Site) -> None:
    """Beside a container of apptainer's, by the agent's own hand: no runtime is in between."""
    walled.kubectl("label", "--overwrite", "namespace", walled.namespace, f"{LEVEL}=baseline")
    made = pod("host-of-it", "busybox", "sleep 300")
    made["metadata"]["annotations"] = {"orlop.dev/runtime": "apptainer"}
    walled.apply(made)
    walled.wait_phase("host-of-it", "Running")
    script = ["sh", "-c", SEARCH % {"home": walled.home}]
    added = {"name": "added", "image": "busybox", "command": script, "targetContainerName": "main"}
    patch = json.dumps({"spec": {"ephemeralContainers": [added]}})
    path = ("pod", "host-of-it", "--subresource=ephemeralcontainers", "-p", patch)
    walled.kubectl("patch", *path)

    def searched() -> list[str] | None:
        log = walled.run("kubectl", "logs", "host-of-it", "-c", "added", "-n", walled.namespace,
                         check=False).stdout.splitlines()  # fmt: skip
        return log if log and log[-1] == "searched" else None

    assert eventually(searched, "it has searched") == ["searched"]


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {"orlop.dev/runtime": "host"}}},
        {"metadata": {"annotations": {"slurm-job.vk.io/pre-exec": "cp ~/.orlop/pki/ca.key /tmp"}}},
        {"metadata": {"annotations": {"slurm.orlop.dev/flags": "--nodefile=/etc/passwd"}}},
        {"metadata": {"annotations": {"slurm.orlop.dev/outpu": ".orlop/kubeconfig"}}},
        {"metadata": {"annotations": {"slurm.orlop.dev/ntasks": "2"}}},
        {"metadata": {"annotations": {"slurm.orlop.dev/nodelist": "/etc/passwd"}}},
        {"metadata": {"annotations": {"slurm.orlop.dev/gang-room": ROOM}}},
        {"image": "host"},
        {"image": "/"},
    ],
    ids=lambda change: json.dumps(change)[:40],
)
def test_ways_out_are_closed_before_and_after(walled: Site, change: Obj) -> None:
    made = searching(walled, container={"securityContext": CONFINED, "command": ["sleep", "9"]})
    out = json.loads(json.dumps(made))
    out["metadata"] |= change.get("metadata", {})
    out["spec"]["containers"][0] |= {"image": change["image"]} if "image" in change else {}
    refused = walled.run("kubectl", "apply", "-n", walled.namespace, "-f", "-",
                         input=json.dumps(out), check=False)  # fmt: skip
    assert 'violates PodSecurity "restricted:latest"' in refused.stderr, refused
    made["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    walled.apply(made)
    late = {"spec": {"containers": [{"name": "main", **change}]}} if "image" in change else change
    again = walled.run("kubectl", "patch", "pod", "thief", "-n", walled.namespace, "-p",
                       json.dumps(late), check=False)  # fmt: skip
    assert 'violates PodSecurity "restricted:latest"' in again.stderr, again


def test_a_job_outside_of_containers_has_no_place_there(walled: Site) -> None:
    job = {"apiVersion": "slurm.orlop.dev/v1", "kind": "SlurmJob", "metadata": {"name": "j"},
           "spec": {"script": f"#!/bin/sh\ncat {walled.home}/pki/ca.key\n"}}  # fmt: skip
    refused = walled.run("kubectl", "apply", "-n", walled.namespace, "-f", "-",
                         input=json.dumps(job), check=False)  # fmt: skip
    assert "outside of any container" in refused.stderr


# Certificates


def request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes-admin")])
    signed = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(Encoding.PEM)).decode()


def test_nobody_signs_for_themselves(site: Site) -> None:
    csr = "certificatesigningrequests"
    name = f"mine-{site.namespace[:20]}"
    resources = f"{csr}.certificates.k8s.io,{csr}.certificates.k8s.io/status"
    verbs = "--verb=create,get,patch,update"
    site.kubectl("create", "clusterrole", name, verbs, f"--resource={resources}")
    site.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", "--user=eve")
    spec = {"request": request(), "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"]}  # fmt: skip
    approved = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "x"}]}}
    body = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": name}, "spec": spec, **approved}  # fmt: skip
    try:
        site.run("kubectl", "--as=eve", "create", "-f", "-", input=json.dumps(body))
        patch = ("kubectl", "--as=eve", "patch", "csr", name, "--type=merge", "-p",
                 json.dumps(approved))  # fmt: skip
        for more in (["--subresource=status"], []):
            site.run(*patch, *more, check=False)
        time.sleep(3)  # as long as the signer takes ten times
        status = json.loads(site.kubectl("get", "csr", name, "-o", "json")).get("status") or {}
        assert not status.get("conditions")
        assert not status.get("certificate")
        site.kubectl("certificate", "approve", name)
        eventually(
            lambda: site.kubectl("get", "csr", name, "-o", "jsonpath={.status.certificate}"),
            "who may approve has it signed",
        )
    finally:
        for kind in ("csr", "clusterrolebinding", "clusterrole"):
            site.kubectl("delete", kind, name, "--ignore-not-found")


# What listens on the control plane's own loopback


@contextmanager
def secret_on_loopback(site: Site) -> Iterator[int]:
    """A page at 127.0.0.1 of the control plane's host, for this host alone; its port."""
    script = (
        "import http.server as h, sys\n"
        "class P(h.BaseHTTPRequestHandler):\n"
        "  def do_GET(self):\n"
        "    self.send_response(200); self.end_headers(); self.wfile.write(b'secret of loopback')\n"
        "s = h.HTTPServer(('127.0.0.1', 0), P); print(s.server_port, flush=True); s.serve_forever()"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    server = site.popen("python3", "-c", script, **pipes)
    try:
        assert server.stdout is not None
        yield int(server.stdout.readline())
    finally:
        server.terminate()
        server.communicate(timeout=10)


def fetched(site: Site, url: str, *headers: str) -> str:
    words = [word for header in headers for word in ("-H", header)]
    return site.run("curl", "-s", "--max-time", "10", *words, url, check=False).stdout


def test_no_ingress_leads_to_the_control_planes_loopback(site: Site) -> None:
    with secret_on_loopback(site) as port:
        assert fetched(site, f"http://127.0.0.1:{port}/") == "secret of loopback"
        for number, name in enumerate(("localhost", "127.0.0.1", "127.1", "2130706433")):
            ports = [{"name": "http", "port": port}]
            spec = {"type": "ExternalName", "externalName": name, "ports": ports}
            service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"s{number}"}}
            site.apply({**service, "spec": spec})
            backend = {"service": {"name": f"s{number}", "port": {"number": port}}}
            path = {"path": "/", "pathType": "Prefix", "backend": backend}
            host = f"s{number}.{site.namespace}.example"
            site.apply({
                "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
                "metadata": {"name": f"s{number}"},
                "spec": {"rules": [{"host": host, "http": {"paths": [path]}}]},
            })  # fmt: skip

            def told(host: str = host) -> str:
                page = fetched(site, "http://127.0.0.1:8080/", f"Host: {host}")
                assert "secret" not in page
                return page if "may not be reached" in page else ""

            assert "network.allow_destinations" in eventually(told, "it says why", 30)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fe80::1"]
)
def test_no_endpoint_is_of_loopback_or_the_link(site: Site, address: str) -> None:
    one = {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "addressType": "IPv6" if ":" in address else "IPv4",
        "metadata": {"name": "trap", "labels": {"kubernetes.io/service-name": "trap"}},
        "ports": [{"port": 80}], "endpoints": [{"addresses": [address]}],
    }  # fmt: skip
    refused = site.run("kubectl", "apply", "-n", site.namespace, "-f", "-",
                       input=json.dumps(one), check=False)  # fmt: skip
    assert "may not be in the" in refused.stderr


def test_no_other_spelling_of_a_path_is_another_right(site: Site) -> None:
    """To the metrics of others, which a group of its own serves here, too."""
    for path in (
        "/apis%2fmetrics.k8s.io/v1beta1/pods",
        "/apis/metrics.k8s.io/v1beta1%2fpods",
        "//apis//metrics.k8s.io/v1beta1/pods",
        "/apis/metrics.k8s.io/v1beta1/namespaces/default/../../pods",
        f"/api/v1/namespaces/{site.namespace}/pods/..%2f..%2fkube-system%2fsecrets",
        "/api/v1/secrets?x=/healthz",
        "/healthz/../api/v1/secrets",
        "/version/%2e%2e/api/v1/secrets",
    ):
        url = json.loads(site.kubectl("config", "view", "--minify", "-o", "json"))
        server = url["clusters"][0]["cluster"]["server"]
        token = site.kubectl("create", "token", "default").strip()
        code = site.run(
            "curl", "-sk", "--path-as-is", "-o", "/dev/null", "-w", "%{http_code}", "-H",
            f"Authorization: Bearer {token}", f"{server}{path}", node=HEAD,
        ).stdout  # fmt: skip
        assert code in ("400", "403"), (path, code)
