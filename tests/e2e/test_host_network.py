"""Pods on their node's network know the cluster; ports of nodes lead to pods that ask for them."""

from __future__ import annotations

from tests.e2e.site import Site, eventually, pod
from tests.e2e.test_services import API, ask, client, get, server, service, until_ready, workload

PORT = 18931


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


def test_a_port_of_the_node_leads_to_the_pod(site: Site) -> None:
    ports = [{"containerPort": 80, "hostPort": PORT}, {"containerPort": 81, "hostPort": 81}]
    one = pod("server", "python", "", terminationGracePeriodSeconds=0)
    one["spec"]["containers"] = [server(ports=ports)]
    site.apply(one)
    status = site.wait_phase("server", "Running")["status"]
    url = f"http://{status['hostIP']}:{PORT}"
    # From the login node, which is no pod.
    words = eventually(
        lambda: site.run("curl", "-s", "-m", "5", url, check=False).stdout.split(), "it answers"
    )
    assert words[0] == "server"
    assert words[1] not in (status["podIP"], status["hostIP"])
    told = {c["type"]: c for c in site.pod("server")["status"]["conditions"]}
    assert "hostPort 81 (TCP): an ordinary user cannot" in told["orlop.dev/HostPorts"]["message"]
    assert "HostPortNotOpened" in site.kubectl("get", "events")
