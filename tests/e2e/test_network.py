"""Programs nobody here wrote, unmodified, across nodes and by the names of services."""

from __future__ import annotations

from typing import Any

from tests.e2e.site import Obj, Site, pod, terminated

NGINX = """
daemon off; pid /tmp/nginx/pid; error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path /tmp/nginx/1; proxy_temp_path /tmp/nginx/2; fastcgi_temp_path /tmp/nginx/3;
  uwsgi_temp_path /tmp/nginx/4; scgi_temp_path /tmp/nginx/5;
  server { listen 80; listen [::]:80; location / { return 200 "nginx for $remote_addr"; } }
}
"""
# Name -> what it runs; all on one node, most at the same port.
SERVERS = {
    "python": "mkdir /tmp/www; echo python > /tmp/www/index.html; cd /tmp/www; "
    "exec python3 -m http.server 80",
    "busybox": "mkdir /tmp/bb; echo busybox > /tmp/bb/index.html; exec busybox httpd -f -p 80 "
    "-h /tmp/bb",
    "nginx": f"mkdir -p /tmp/nginx; echo '{NGINX}' > /tmp/nginx/conf; "
    "exec nginx -p /tmp/nginx -e stderr -c /tmp/nginx/conf",
    "node": 'exec node -e \'require("http").createServer((q, a) => a.end("node " + '
    "q.socket.remoteAddress)).listen(80)'",
    "redis": "exec redis-server --port 6379 --save '' --protected-mode no",
    "iperf": "exec iperf3 -s -p 5201",
}
PORTS = {"redis": 6379, "iperf": 5201}
CLIENT = """
for name in python busybox nginx node; do
  for _ in $(seq 50); do curl -sf -m 5 http://$name/ > /tmp/answer && break; sleep 0.2; done
  echo $name: $(cat /tmp/answer)
done
echo wget: $(busybox wget -qO- http://nginx.$NAMESPACE.svc.cluster.local/)
redis-cli -h redis set colour blue
redis-cli -h redis get colour
redis-cli -h redis client info | grep -o ' addr=[0-9.]*'
iperf3 -c iperf -p 5201 -t 1 -P 2 -J | grep -c bits_per_second
ip -4 -o addr | grep -v ' lo ' | grep -o 'inet [0-9.]*'
curl -s -m 5 http://python:81/ || echo curl: $?
"""


def on_node(node: str) -> dict[str, Any]:
    return {"annotations": {"slurm.orlop.dev/nodelist": node}}


def server(name: str, node: str) -> Obj:
    metadata = {**on_node(node), "labels": {"app": name}}
    return pod(name, "host", SERVERS[name], metadata=metadata)


def service(name: str, port: int) -> Obj:
    spec = {"selector": {"app": name}, "ports": [{"port": port}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def test_programs_find_and_reach_each_other_across_nodes(site: Site) -> None:
    for name in SERVERS:
        site.apply(service(name, PORTS.get(name, 80)))
        site.apply(server(name, "n1"))
    for name in SERVERS:
        site.wait_phase(name, "Running")
    env = [{"name": "NAMESPACE", "value": site.namespace}]
    site.apply(pod("client", "host", CLIENT, metadata=on_node("n2"), container={"env": env}))
    ended = site.wait_phase("client", "Succeeded", "Failed")
    said = site.kubectl("logs", "client")
    assert terminated(ended)["exitCode"] == 0, said
    client = ended["status"]["podIP"]
    assert said.splitlines() == [
        "python: python",
        "busybox: busybox",
        f"nginx: nginx for {client}",
        f"node: node ::ffff:{client}",
        f"wget: nginx for {client}",
        "OK",
        "blue",
        f" addr={client}",
        "9",
        f"inet {client}",
        "curl: 7",  # it could not connect
    ], said
