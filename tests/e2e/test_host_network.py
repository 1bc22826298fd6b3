"""Pods on their node's network know the cluster if they want to, and are reached by services."""

from __future__ import annotations

from tests.e2e.site import Site, eventually
from tests.e2e.test_services import ask, client, get, server, service, until_ready, workload

PORT = 18931
API = (
    "import ssl, urllib.request as u\n"
    "folder = '/var/run/secrets/kubernetes.io/serviceaccount/'\n"
    "c = ssl.create_default_context(cafile=folder + 'ca.crt')\n"
    "who = {'Authorization': 'Bearer ' + open(folder + 'token').read()}\n"
    "r = u.Request('https://kubernetes.default.svc/version', headers=who)\n"
    "print(u.urlopen(r, context=c, timeout=5).status)"
)


def test_a_pod_on_its_nodes_network_knows_the_cluster_and_is_known(site: Site) -> None:
    site.apply(workload("Deployment", "web", 1))
    site.apply(service("web"))
    on_node = workload("Deployment", "node", 1)
    spec = on_node["spec"]["template"]["spec"]
    command = ["sh", "-c", f"cd /tmp; echo here > index.html; exec python -m http.server {PORT}"]
    ports = [{"name": "http", "containerPort": PORT}]
    spec["containers"] = [server(command=command, ports=ports)]
    spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    site.apply(on_node)
    site.apply(service("node"))
    client(site)
    until_ready(site, "web", 1)
    (known,) = until_ready(site, "node", 1)
    name, status = known["metadata"]["name"], known["status"]
    assert status["podIP"] == status["hostIP"]
    eventually(lambda: get(site, "http://web:8080", name).startswith("web-"), "a service by name")
    # The server hears of the node, as in any cluster.
    assert get(site, "http://web:8080", name).split()[1] == status["hostIP"]
    assert ask(site, API, name) == "200"
    eventually(lambda: get(site, "http://node:8080") == "here", "a pod reaches it by its service")
    assert get(site, f"http://{status['podIP']}:{PORT}") == "here"
    assert get(site, f"http://localhost:{PORT}", name) == "here"
