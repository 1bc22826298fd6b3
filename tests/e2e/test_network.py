"""Programs nobody here wrote, unmodified, across nodes and by the names of services."""

from __future__ import annotations

from typing import Any

from tests.e2e.site import Obj, Site, container, pod, terminated

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
# Two containers of one pod: who serves the world asks the other one at their localhost.
BEHIND = (
    "mkdir /tmp/in; echo behind > /tmp/in/x; exec busybox httpd -f -p 127.0.0.1:9000 -h /tmp/in"
)
FRONT = """exec python3 -c '
import http.server, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(urllib.request.urlopen("http://localhost:9000/x").read())
http.server.HTTPServer(("", 80), Handler).serve_forever()'
"""
PORTS = {"redis": 6379, "iperf": 5201}
CLIENT = """
for name in python busybox nginx node; do
  for _ in $(seq 50); do curl -sf -m 5 http://$name/ > /tmp/answer && break; sleep 0.2; done
  echo $name: $(cat /tmp/answer)
done
echo wget: $(busybox wget -qO- http://nginx.$NAMESPACE.svc.cluster.local/)
echo front: $(curl -s -m 5 --retry 20 --retry-connrefused http://front/)
iperf3 -c iperf -p 5201 -t 1 -u -b 50M -J | grep -c '"jitter_ms"'
redis-cli -h redis set colour blue
redis-cli -h redis get colour
redis-cli -h redis client info | grep -o ' addr=[0-9.]*'
iperf3 -c iperf -p 5201 -t 1 -P 2 -J | grep -c bits_per_second
wrk -t 1 -c 4 -d 1 http://nginx/ > /tmp/wrk; grep -c -E 'Socket errors|Non-2xx' /tmp/wrk
ip -4 -o addr | grep -v ' lo ' | grep -o 'inet [0-9.]*'
curl -s -m 5 http://python:81/ || echo curl: $?
"""


def on_node(node: str) -> dict[str, Any]:
    return {"annotations": {"slurm.orlop.dev/nodelist": node}}


def server(name: str, node: str) -> Obj:
    metadata = {**on_node(node), "labels": {"app": name}}
    return pod(name, "host", SERVERS[name], metadata=metadata)


def two_in_one() -> Obj:
    metadata = {**on_node("n3"), "labels": {"app": "front"}}
    found = pod("front", "host", FRONT, metadata=metadata)
    found["spec"]["containers"].append({**container("host", BEHIND), "name": "behind"})
    return found


def service(name: str, port: int) -> Obj:
    ports = [{"name": word.lower(), "port": port, "protocol": word} for word in ("TCP", "UDP")]
    spec = {"selector": {"app": name}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def test_programs_find_and_reach_each_other_across_nodes(site: Site) -> None:
    for name in SERVERS:
        site.apply(service(name, PORTS.get(name, 80)))
        site.apply(server(name, "n1"))
    site.apply(service("front", 80))
    site.apply(two_in_one())
    for name in (*SERVERS, "front"):
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
        "front: behind",
        "4",  # UDP: once for each second, and in the sums
        "OK",
        "blue",
        f" addr={client}",
        "9",
        "0",  # of what wrk asked for went wrong
        f"inet {client}",
        "curl: 7",  # it could not connect
    ], said
