"""Ingresses are served: hosts, paths, bodies, TLS, WebSockets, and what goes wrong."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl

import aiohttp
import pytest
from aiohttp import web

from orlop import pki
from orlop.api.kinds import EVENT, INGRESS, SECRET
from orlop.api.objects import Key

from .conftest import a_service, an_ingress, dial, soon, told


@pytest.fixture
async def client():
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        yield session


async def until_served(get):
    async def is_served():
        answer = await get()
        assert answer.status == 200, await answer.text()

    await soon(is_served)


async def test_a_request_is_passed_on_whole_and_says_who_asks(
    cluster, backend, router, ports, client
):
    await a_service(cluster, await backend(told))
    await cluster.create(INGRESS, an_ingress())
    url = f"http://127.0.0.1:{ports[0]}"
    headers = {"Host": "shop.example", "X-Forwarded-For": "10.9.9.9", "X-Mine": "1"}
    async with cluster.running(router):
        await until_served(lambda: client.get(url, headers=headers))
        answer = await client.post(f"{url}/a%2Fb?q=%20x", data=b"body", headers=headers)
        seen = await answer.json()
    assert answer.headers["X-Backend"] == "yes"
    assert (seen["method"], seen["path"], seen["body"]) == ("POST", "/a%2Fb?q=%20x", "body")
    assert seen["headers"]["host"] == "shop.example"
    assert seen["headers"]["x-forwarded-for"] == "127.0.0.1"
    assert seen["headers"]["x-forwarded-proto"] == "http"
    assert seen["headers"]["x-mine"] == "1"
    found = await cluster.get(INGRESS, "shop")
    assert found["status"]["loadBalancer"]["ingress"] == [{"ip": "192.0.2.7"}]


async def test_who_asks_by_ipv6_is_told_to_the_backend_and_to_no_agent(
    cluster, backend, router, ports, client
):
    announced = []

    async def noted(ip, port, who=None):
        announced.append(who)
        return await dial(ip, port)

    await a_service(cluster, await backend(told))
    await cluster.create(INGRESS, an_ingress())
    async with cluster.running(lambda informers: router(informers, listen="::1", dial=noted)):

        async def is_known():
            url = f"http://[::1]:{ports[0]}/"
            answer = await client.get(url, headers={"Host": "shop.example"})
            assert answer.status == 200, await answer.text()
            assert (await answer.json())["headers"]["x-forwarded-for"] == "::1"

        await soon(is_known)
    assert set(announced) == {None}


async def test_what_no_rule_names_is_not_found_and_what_nobody_serves_unavailable(
    cluster, router, ports, client
):
    await a_service(cluster)
    await cluster.create(INGRESS, an_ingress())
    async with cluster.running(router):

        async def is_unavailable():
            url = f"http://127.0.0.1:{ports[0]}/"
            answer = await client.get(url, headers={"Host": "shop.example"})
            assert answer.status == 503
            other = await client.get(url, headers={"Host": "other.example"})
            assert other.status == 404

        await soon(is_unavailable)


async def test_a_stream_arrives_piece_by_piece(cluster, backend, router, ports, client):
    async def slow(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(3):
            await response.write(f"{number}\n".encode())
        await response.write_eof()
        return response

    await a_service(cluster, await backend(slow))
    await cluster.create(INGRESS, an_ingress())
    headers = {"Host": "shop.example"}
    async with cluster.running(router):
        url = f"http://127.0.0.1:{ports[0]}/"
        await until_served(lambda: client.get(url, headers=headers))
        answer = await client.get(url, headers=headers)
        assert await answer.text() == "0\n1\n2\n"


async def test_a_web_socket_is_joined_to_the_backend(cluster, backend, router, ports, client):
    async def chat(request):
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return web.Response(text="ok")
        websocket = web.WebSocketResponse()
        await websocket.prepare(request)
        async for message in websocket:
            await websocket.send_str(message.data + "!")
        return websocket

    await a_service(cluster, await backend(chat))
    await cluster.create(INGRESS, an_ingress())
    headers = {"Host": "shop.example"}
    async with cluster.running(router):
        url = f"http://127.0.0.1:{ports[0]}/"
        await until_served(lambda: client.get(url, headers=headers))
        async with client.ws_connect(url, headers=headers) as websocket:
            await websocket.send_str("hello")
            assert (await websocket.receive(timeout=10)).data == "hello!"


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_who_is_not_upgraded_asks_no_second_time(
    cluster, backend, router, ports, client, is_chunked
):
    """What follows a request to upgrade would pass by the rules of the Ingress."""
    seen = []

    async def plain(request):
        seen.append(request.path)
        answer = web.StreamResponse()
        if is_chunked:
            answer.enable_chunked_encoding()
        else:
            answer.content_length = 6
        await answer.prepare(request)
        await answer.write(b"public")
        await answer.write_eof()
        return answer

    await a_service(cluster, await backend(plain))
    await cluster.create(INGRESS, an_ingress())
    async with cluster.running(router):
        url = f"http://127.0.0.1:{ports[0]}/"
        await until_served(lambda: client.get(url, headers={"Host": "shop.example"}))
        seen.clear()
        head = "Host: shop.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", ports[0])
        writer.write(f"GET / HTTP/1.1\r\n{head}".encode())
        answer = await asyncio.wait_for(reader.readuntil(b"public"), 10)
        assert answer.startswith(b"HTTP/1.1 200")
        writer.write(b"GET /admin HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: ::1\r\n\r\n")
        rest = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert rest in (b"", b"\r\n0\r\n\r\n")
    assert seen == ["/"]


async def test_the_certificate_is_that_of_the_host(
    cluster, backend, router, ports, client, tmp_path
):
    own = pki.ensure(tmp_path / "own", ["shop.example"])
    pair = own.apiserver
    data = {"tls.crt": pair.crt, "tls.key": pair.key}
    encoded = {name: base64.b64encode(path.read_bytes()).decode() for name, path in data.items()}
    secret = {"metadata": {"name": "cert"}, "type": "kubernetes.io/tls", "data": encoded}
    await cluster.create(SECRET, secret)
    await a_service(cluster, await backend(told))
    tls = [{"hosts": ["shop.example"], "secretName": "cert"}]
    await cluster.create(INGRESS, an_ingress(tls=tls))
    context = ssl.create_default_context(cafile=str(own.ca))
    async with cluster.running(router):

        def get():
            return client.get(
                f"https://127.0.0.1:{ports[1]}/",
                headers={"Host": "shop.example"},
                ssl=context,
                server_hostname="shop.example",
            )

        async def is_served():
            answer = await get()
            assert (await answer.json())["headers"]["x-forwarded-proto"] == "https"

        await soon(is_served)


async def test_without_a_port_an_ingress_says_how_it_is_reached(cluster, router):
    await cluster.create(INGRESS, an_ingress())
    async with cluster.running(lambda informers: router(informers, (0, 0))):

        async def is_told():
            reasons = {one["reason"]: one["message"] for one in await cluster.list(EVENT)}
            assert "kubectl port-forward -n kube-system service/orlop-ingress" in reasons["Served"]

        await soon(is_told)


async def test_a_port_that_is_taken_is_told(cluster, router, ports):
    await cluster.create(INGRESS, an_ingress())
    with socket.create_server(("127.0.0.1", ports[0])):
        async with cluster.running(router):

            async def is_told():
                reasons = {one["reason"]: one["message"] for one in await cluster.list(EVENT)}
                assert str(ports[0]) in reasons["PortNotOpened"]
                assert str(ports[1]) in reasons["Served"]

            await soon(is_told)


async def test_what_was_said_of_an_ingress_is_forgotten_with_it(cluster, router):
    made = []

    def make(informers):
        made.append(router(informers, (0, 0)))
        return made[0]

    async with cluster.running(make):
        await cluster.create(INGRESS, an_ingress())

        async def has_said(expected):
            assert bool(made[0]._told) is expected

        await soon(lambda: has_said(True))
        await cluster.api.delete(INGRESS, Key("default", "shop"))
        await soon(lambda: has_said(False))
