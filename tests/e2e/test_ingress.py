"""An Ingress is reached by kubectl port-forward and from pods, without any port of the host."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.site import Obj, Site, eventually, pod
from tests.e2e.test_services import client, get
from tests.e2e.test_streams import KUBECTLS

# Says which of its two names it goes by, and talks back by WebSocket.
SERVER = """
import os
from aiohttp import web

async def handle(request):
    if request.headers.get("Upgrade", "").lower() != "websocket":
        facts = request.headers["X-Forwarded-Proto"], request.headers["X-Forwarded-For"]
        return web.Response(text=" ".join((os.environ["WHO"], request.path, *facts)))
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        await socket.send_str(message.data[::-1])
    return socket

app = web.Application()
app.router.add_route("*", "/{path:.*}", handle)
web.run_app(app, port=int(os.environ["PORT"]), print=None)
"""
TALK = """
import asyncio, sys
import aiohttp

async def main():
    async with aiohttp.ClientSession() as session:
        url, headers = f"http://{sys.argv[1]}/talk", {"Host": "shop.example"}
        async with session.ws_connect(url, headers=headers) as socket:
            await socket.send_str("hello")
            print(await socket.receive_str())

asyncio.run(main())
"""


def a_server(name: str, port: int) -> Obj:
    env = [{"name": "WHO", "value": name}, {"name": "PORT", "value": str(port)}]
    return {"name": name, "image": "host", "command": ["python", "-c", SERVER], "env": env}


def a_shop(site: Site) -> None:
    """One pod with two servers, a service for each, and an Ingress of both with TLS."""
    manifest = pod("shop", "host", "", metadata={"labels": {"app": "shop"}})
    manifest["spec"]["containers"] = [a_server("front", 8001), a_server("cart", 8002)]
    site.apply(manifest)
    for name, port in (("front", 8001), ("cart", 8002)):
        ports = [{"port": 80, "targetPort": port}]
        spec = {"selector": {"app": "shop"}, "ports": ports}
        site.apply(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
        )
    paths = [
        {
            "path": path,
            "pathType": "Prefix",
            "backend": {"service": {"name": name, "port": {"number": 80}}},
        }
        for path, name in (("/", "front"), ("/cart", "cart"))
    ]
    spec = {
        "rules": [{"host": "shop.example", "http": {"paths": paths}}],
        "tls": [{"hosts": ["shop.example"], "secretName": "shop"}],
    }
    names = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "shop"}}
    site.apply({**names, "spec": spec})
    site.wait_phase("shop", "Running")


def a_certificate(site: Site, folder: Path) -> str:
    """The file of a certificate for the shop, whose Secret is there."""
    crt, key = folder / "shop.crt", folder / "shop.key"
    site.run(
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
        *("-nodes", "-days", "2", "-subj", "/CN=shop.example", "-keyout", str(key)),
        *("-addext", "subjectAltName=DNS:shop.example", "-out", str(crt)),
    )
    site.kubectl("create", "secret", "tls", "shop", f"--cert={crt}", f"--key={key}")
    return str(crt)


@contextmanager
def forwarded(site: Site, kubectl: str) -> Iterator[tuple[str, str]]:
    """Local ports of the router's HTTP and HTTPS."""
    argv = [kubectl, "-n", "kube-system", "port-forward", "service/orlop-ingress", ":80", ":443"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with site.popen(*argv, text=True, **pipes) as running:
        try:
            found: dict[str, str] = {}
            while len(found) < 2:
                line = running.stdout.readline()
                assert "Forwarding from" in line, line
                words = line.split()
                found.setdefault(words[4], words[2].rpartition(":")[2])
            yield found["80"], found["443"]
        finally:
            running.kill()


def test_an_ingress_is_reached_by_port_forward_and_from_pods(site: Site) -> None:
    home = site.cluster.home
    certificate = a_certificate(site, home)
    a_shop(site)

    def is_up() -> bool:
        found = site.run("kubectl", "-n", "kube-system", "get", "pod", "orlop-ingress",
                         "-o", "jsonpath={.status.phase}", check=False)  # fmt: skip
        return found.stdout == "Running"

    eventually(is_up, "the router is a pod")
    for kubectl in KUBECTLS:
        with forwarded(site, kubectl) as (http, https):
            answers(site, http, https, certificate)
            told = site.run("python", "-c", TALK, f"127.0.0.1:{http}").stdout
            assert told == "olleh\n", kubectl
    assert len(site.squeue("%i")) == 1, "the shop is a job, and the router is none"
    client(site)
    # Pods have it by its name, and backends know the pod that asks.
    script = (
        "import urllib.request as u\n"
        "url, host = 'http://orlop-ingress.kube-system/cart/1', {'Host': 'shop.example'}\n"
        "print(u.urlopen(u.Request(url, headers=host), timeout=5).read().decode())"
    )
    own = site.pod("client")["status"]["podIP"]
    asked = ("kubectl", "-n", site.namespace, "exec", "client", "--", "python", "-c", script)
    eventually(
        lambda: site.run(*asked, check=False).stdout == f"cart /cart/1 http {own}\n", "from a pod"
    )
    assert "404" in get(site, "http://orlop-ingress.kube-system/")


def answers(site: Site, http: str, https: str, certificate: str) -> None:
    def curl(*args: str) -> str:
        return site.run("curl", "-sS", "-m", "10", *args, check=False).stdout

    names = ["--resolve", f"shop.example:{http}:127.0.0.1"]
    names += ["--resolve", f"shop.example:{https}:127.0.0.1"]
    plain = f"http://shop.example:{http}"
    # Each of the two servers comes up in its own time.
    for path, name in (("/a", "front"), ("/cart/1", "cart")):
        expected = f"{name} {path} http 127.0.0.1"
        eventually(lambda at=plain + path, said=expected: curl(*names, at) == said, f"{name} is up")
    assert "no Ingress has a rule" in curl(f"http://127.0.0.1:{http}/")
    secure = ("--cacert", certificate, *names, f"https://shop.example:{https}/b")
    eventually(lambda: curl(*secure) == "front /b https 127.0.0.1", "its certificate is there")
