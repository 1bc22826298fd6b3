"""Pods find and reach each other by names and services, across nodes, as an ordinary user's."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.site import Obj, Site, eventually, pod

# Says who it is to whoever connects: the pod's name, then the peer's address.
SERVER = """
import http.server, os, socket
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = f"{os.environ['POD']} {self.client_address[0]}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256
Server(("", 80), Handler).serve_forever()
"""
NAME = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def server(**fields: Any) -> Obj:
    return {
        "name": "main",
        "image": "python",
        "command": ["python", "-c", SERVER],
        "env": [NAME],
        "ports": [{"name": "http", "containerPort": 80}],
        **fields,
    }


def workload(kind: str, name: str, replicas: int, **spec: Any) -> Obj:
    """A Deployment or StatefulSet of servers, each on a node of its own where there are enough."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {
                    "labels": {"app": name},
                    "annotations": {"slurm.orlop.dev/exclusive": "user"},
                },
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [server()]},
            },
            **spec,
        },
    }


def service(name: str, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "selector": {"app": name},
            "ports": [{"name": "http", "port": 8080, "targetPort": "http"}],
            **spec,
        },
    }


def client(site: Site, name: str = "client", **spec: Any) -> None:
    """A pod to run commands in."""
    site.apply(pod(name, "python", "exec sleep 600", terminationGracePeriodSeconds=0, **spec))
    site.wait_phase(name, "Running")


def ask(site: Site, script: str, name: str = "client") -> str:
    """What a line of Python prints in the client; how it failed, if it did."""
    found = site.run(
        "kubectl", "-n", site.namespace, "exec", name, "--", "python", "-c", script, check=False
    )
    # kubectl itself writes to stderr now and then.
    return (found.stdout + (found.stderr if found.returncode else "")).strip()


def get(site: Site, url: str, name: str = "client") -> str:
    script = f"import urllib.request as u; print(u.urlopen({url!r}, timeout=5).read().decode())"
    return ask(site, script, name)


def until_ready(site: Site, app: str, count: int) -> list[Obj]:
    def ready() -> list[Obj] | None:
        found = site.pods(f"app={app}")
        good = [one for one in found if is_ready(one)]
        return found if len(good) == len(found) == count else None

    return eventually(ready, f"{count} pods of {app} are ready", 60)


def is_ready(one: Obj) -> bool:
    conditions = one["status"].get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def test_a_service_is_reached_by_name_and_leads_to_all_its_pods(site: Site) -> None:
    site.apply(workload("Deployment", "web", 3))
    site.apply(service("web"))
    client(site)
    pods = {one["metadata"]["name"] for one in until_ready(site, "web", 3)}
    script = (
        "import urllib.request as u\n"
        "print(*{u.urlopen('http://web:8080', timeout=5).read().decode().split()[0]"
        " for _ in range(40)})"
    )
    assert set(ask(site, script).split()) == pods
    # The server sees the client's own address, whatever node that is on.
    own = site.pod("client")["status"]["podIP"]
    for url in ("http://web.{}.svc.cluster.local:8080", "http://web.{}:8080"):
        assert get(site, url.format(site.namespace)).split()[1] == own


def test_members_of_a_stateful_set_find_each_other_by_name(site: Site) -> None:
    site.apply(service("db", clusterIP="None"))
    site.apply(workload("StatefulSet", "db", 3, serviceName="db", podManagementPolicy="Parallel"))
    until_ready(site, "db", 3)
    for target in ("db-1.db", f"db-2.db.{site.namespace}.svc.cluster.local"):
        assert get(site, f"http://{target}:80", "db-0").split()[0] == target[:4]
    script = "import socket; print(socket.getfqdn(), len(socket.gethostbyname_ex('db')[2]))"
    expected = f"db-1.db.{site.namespace}.svc.cluster.local 3"
    assert ask(site, script, "db-1") == expected


def test_an_unready_pod_leaves_at_once_and_comes_back(site: Site) -> None:
    gate = {"readinessGates": [{"conditionType": "test/open"}]}
    manifest = workload("Deployment", "web", 2)
    manifest["spec"]["template"]["spec"].update(gate)
    site.apply(manifest)
    site.apply(service("web"))
    client(site)
    pods = eventually(lambda: _running(site, "web", 2), "two pods run", 60)
    assert "refused" in get(site, "http://web:8080")
    for name, is_published in (("early", True), ("late", False)):
        found = {"selector": {"app": "web"}, "publishNotReadyAddresses": is_published}
        site.apply(service(name, clusterIP="None", **found))
    count = "import socket; print(len(socket.gethostbyname_ex('{}')[2]))"
    eventually(lambda: ask(site, count.format("early")) == "2", "who asks for it sees the unready")
    assert "gaierror" in ask(site, count.format("late"))
    _open(site, pods[0], True)
    first = pods[0]["metadata"]["name"]
    eventually(lambda: get(site, "http://web:8080").startswith(first), "the open one answers")
    _open(site, pods[0], False)
    eventually(lambda: "refused" in get(site, "http://web:8080"), "it has left")


def _running(site: Site, app: str, count: int) -> list[Obj] | None:
    found = [one for one in site.pods(f"app={app}") if one["status"].get("phase") == "Running"]
    return found if len(found) == count else None


def _open(site: Site, one: Obj, is_open: bool) -> None:
    condition = {"type": "test/open", "status": str(is_open)}
    patch = json.dumps({"status": {"conditions": [condition]}})
    name = one["metadata"]["name"]
    site.kubectl("patch", "pod", name, "--subresource=status", "-p", patch)


def test_a_network_policy_denies_what_it_should(site: Site) -> None:
    one = pod("server", "python", "", metadata={"labels": {"app": "server"}})
    site.apply({**one, "spec": {"terminationGracePeriodSeconds": 0, "containers": [server()]}})
    site.apply(service("server"))

    def is_answered(name: str) -> bool:
        return get(site, "http://server:8080", name).startswith("server")

    client(site, "friend", metadata={"labels": {"role": "friend"}})
    client(site, "stranger")
    site.wait_phase("server", "Running")
    for name in ("friend", "stranger"):
        eventually(lambda name=name: is_answered(name), "it is open")
    friends = [{"from": [{"podSelector": {"matchLabels": {"role": "friend"}}}]}]
    policy: Obj = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "friends"},
        "spec": {"podSelector": {"matchLabels": {"app": "server"}}, "ingress": friends},
    }
    site.apply(policy)
    eventually(lambda: not is_answered("stranger"), "a stranger is turned away")
    assert is_answered("friend")
    ips = {name: site.pod(name)["status"]["podIP"] for name in ("server", "stranger")}
    here = {"kubernetes.io/metadata.name": site.namespace}
    ours = {"namespaceSelector": {"matchLabels": here}}
    but = {"cidr": "10.0.0.0/8", "except": [f"{ips['stranger']}/32"]}
    for rule, answered in (
        ({"from": [{"namespaceSelector": {"matchLabels": {"team": "other"}}}]}, ()),
        ({"from": [ours], "ports": [{"port": 81}]}, ()),
        ({"from": [ours], "ports": [{"port": 70, "endPort": 90}]}, ("friend", "stranger")),
        ({"ports": [{"protocol": "UDP", "port": 80}]}, ()),
        ({"from": [{"ipBlock": but}]}, ("friend",)),
    ):
        policy["spec"]["ingress"] = [rule]
        site.apply(policy)
        for name in ("friend", "stranger"):
            expected = name in answered
            eventually(lambda n=name, e=expected: is_answered(n) is e, f"{rule} for {name}")
    site.kubectl("delete", "networkpolicy", "friends")
    for egress, is_open in (
        ([], False),
        ([{"to": [{"podSelector": {"matchLabels": {"app": "server"}}}]}], True),
        ([{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": [f"{ips['server']}/32"]}}]}], False),
        ([{"ports": [{"port": "http"}]}], True),
    ):
        asked = {"podSelector": {"matchLabels": {"role": "friend"}}, "policyTypes": ["Egress"]}
        site.apply({**policy, "metadata": {"name": "out"}, "spec": {**asked, "egress": egress}})
        eventually(lambda e=is_open: is_answered("friend") is e, f"{egress} lets out")


def test_a_client_stays_with_one_pod_as_long_as_its_session_lasts(site: Site) -> None:
    site.apply(workload("Deployment", "web", 2))
    sticky = {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 2}}}
    site.apply(service("web", sessionAffinity="ClientIP", **sticky))
    client(site)
    pods = {one["metadata"]["name"] for one in until_ready(site, "web", 2)}
    script = (
        "import time, urllib.request as u\n"
        "ask = lambda: u.urlopen('http://web:8080', timeout=5).read().decode().split()[0]\n"
        "now = time.monotonic\n"
        "began, first = now(), {ask()}\n"
        "while now() - began < 1:\n"
        "    at, found = now(), ask()\n"
        "    if now() - at < 1.5: first.add(found)\n"  # else its session may have ended
        "print(*first)\n"
        "later = set()\n"
        "for _ in range(20):\n"
        "    if len(later) < 2: time.sleep(2.2); later.add(ask())\n"
        "print(*later)"
    )
    first, later = (set(line.split()) for line in ask(site, script).splitlines())
    assert len(first) == 1
    assert later == pods


# Asks the API server as every client library does.
API = (
    "import ssl, urllib.request as u\n"
    "folder = '/var/run/secrets/kubernetes.io/serviceaccount/'\n"
    "c = ssl.create_default_context(cafile=folder + 'ca.crt')\n"
    "who = {'Authorization': 'Bearer ' + open(folder + 'token').read()}\n"
    "r = u.Request('https://kubernetes.default.svc/version', headers=who)\n"
    "print(u.urlopen(r, context=c, timeout=5).status)"
)


def test_the_api_is_where_every_client_looks_for_it(site: Site) -> None:
    client(site)
    said = ask(site, API)
    assert said == "200", said[-900:]
    names = "import os; print(os.environ['KUBERNETES_SERVICE_HOST'])"
    assert ask(site, names) == "10.96.0.1"


def test_a_service_is_reached_from_outside(site: Site) -> None:
    site.apply(workload("Deployment", "web", 2))
    balanced = service("web", type="LoadBalancer")
    balanced["spec"]["ports"][0]["port"] = 8123
    site.apply(balanced)
    backend = {"service": {"name": "web", "port": {"number": 8123}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    rules = [{"host": "web.example", "http": {"paths": paths}}]
    site.apply(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": "web"},
            "spec": {"rules": rules},
        }
    )
    pods = {one["metadata"]["name"] for one in until_ready(site, "web", 2)}
    found = eventually(lambda: _balanced(site), "the load balancer has an address")
    host, node_port = found["status"]["loadBalancer"]["ingress"][0]["ip"], _node_port(found)

    def curl(*args: str) -> str:
        return site.run("curl", "-s", "-m", "5", *args, check=False).stdout

    for url in (f"{host}:8123", f"{host}:{node_port}"):
        eventually(lambda url=url: curl(url), f"{url} answers")
        answers = [curl(url).split() for _ in range(12)]
        assert {name for name, _ in answers} == pods
        # Pods see who asks, and not who passed it on.
        assert {client for _, client in answers} == {host}
    assert curl("-H", "Host: web.example", f"{host}:8080/any").split()[0] in pods
    assert "no Ingress has a rule" in curl("-H", "Host: other.example", f"{host}:8080/")
    assert site.get("ingress", "web")["status"]["loadBalancer"]["ingress"] == [{"ip": host}]


def _balanced(site: Site) -> Obj | None:
    found = site.get("service", "web")
    return found if found["status"]["loadBalancer"].get("ingress") else None


def _node_port(found: Obj) -> int:
    return int(found["spec"]["ports"][0]["nodePort"])


def test_names_of_every_kind_are_answered(site: Site) -> None:
    site.apply(service("db", clusterIP="None"))
    site.apply(workload("StatefulSet", "db", 1, serviceName="db"))
    site.apply(service("plain", selector={"app": "db"}))
    alias = {"type": "ExternalName", "externalName": f"plain.{site.namespace}.svc.cluster.local"}
    site.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ext"}, "spec": alias})
    aliases = [{"ip": "192.0.2.9", "hostnames": ["mirror"]}]
    script = "exec sleep 600"
    site.apply(
        pod("asker", "busybox", script, hostAliases=aliases, terminationGracePeriodSeconds=0)
    )
    (member,) = until_ready(site, "db", 1)
    site.wait_phase("asker", "Running")
    ip, plain = member["status"]["podIP"], site.get("service", "plain")["spec"]["clusterIP"]
    zone = f"{site.namespace}.svc.cluster.local"

    def lookup(*args: str) -> str:
        argv = ("kubectl", "-n", site.namespace, "exec", "asker", "--", "nslookup", *args)
        return site.run(*argv, check=False).stdout

    assert ip in lookup(f"db-0.db.{zone}")
    assert f"_http._tcp.db.{zone}" in (srv := lookup("-type=srv", f"_http._tcp.db.{zone}"))
    assert f"80 db-0.db.{zone}" in srv
    assert f"plain.{zone}" in lookup(plain)
    assert f"db-0.db.{zone}" in lookup(ip)
    assert plain in lookup("-type=a", f"ext.{zone}")
    assert ip in lookup("-type=a", f"{ip.replace('.', '-')}.{site.namespace}.pod.cluster.local")
    assert "NXDOMAIN" in lookup("-type=a", f"nobody.{zone}")
    hosts = site.kubectl("exec", "asker", "--", "cat", "/etc/hosts")
    assert f"{site.pod('asker')['status']['podIP']}\tasker" in hosts
    assert "192.0.2.9\tmirror" in hosts
