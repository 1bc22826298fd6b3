"""Probes over the network, against real servers on this machine's loopback."""

from __future__ import annotations

import http.server
import socket
import ssl
import subprocess
import threading
import time
from concurrent import futures

import grpc
import pytest

from orlop.agent.probes.network import Reach

CODES = {"/ok": 200, "/created": 201, "/bad": 404, "/broken": 500, "/choices": 300}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.seen.append((self.path, dict(self.headers.items())))
        if self.path == "/slow":
            time.sleep(3)
        location = {
            "/moved": "/ok", "/loop": "/loop", "/away": "http://elsewhere.example/",
        }.get(self.path)  # fmt: skip
        body = b"x" * 20000 if self.path == "/large" else b"said"
        self.send_response(302 if location else CODES.get(self.path.partition("?")[0], 200))
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args):
        pass  # clients that go away are part of the tests


@pytest.fixture
def serve():
    servers = []

    def start(context=None):
        server = Server(("127.0.0.1", 0), Handler)
        server.seen = []
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def get(server, path="/ok", timeout=5.0, hook=False, **fields):
    action = {"httpGet": {"port": server.server_address[1], "path": path, **fields}, "hook": hook}
    return Reach(action, timeout).attempt()


@pytest.fixture
def closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]  # bound, and nobody listens


@pytest.mark.parametrize(
    ("path", "result", "words"),
    [
        ("/ok", "success", "said"),
        ("/created", "success", "said"),
        ("ok", "success", "said"),
        ("/bad", "failure", "HTTP probe failed with statuscode: 404"),
        ("/broken", "failure", "HTTP probe failed with statuscode: 500"),
        ("/choices", "warning", "Probe terminated redirects, Response body: said"),
        ("/moved", "success", "said"),
        ("/away", "warning", "Probe terminated redirects, Response body: said"),
    ],
)
def test_the_status_of_the_answer_decides(serve, path, result, words):
    assert get(serve(), path) == (result, words)


def test_redirects_end_after_ten(serve):
    server = serve()
    result, words = get(server, "/loop")
    assert (result, len(server.seen)) == ("failure", 10)
    assert words.endswith("stopped after 10 redirects")


def test_only_the_beginning_of_an_answer_is_read(serve):
    assert len(get(serve(), "/large")[1]) == 10 * 1024


def test_headers_are_sent_as_asked_for(serve):
    server = serve()
    headers = [{"name": "Host", "value": "shop.example"}, {"name": "X-One", "value": "1"}]
    headers += [{"name": "Accept", "value": ""}]
    get(server, "/ok?a=b c", httpHeaders=headers)
    ((path, seen),) = server.seen
    assert path == "/ok?a=b%20c"
    assert (seen["Host"], seen["X-One"]) == ("shop.example", "1")
    assert seen["User-Agent"].startswith("kube-probe/")
    assert "Accept" not in seen


def test_a_host_is_reached_where_it_is_named(serve):
    server = serve()
    assert get(server, host="localhost")[0] == "success"
    assert server.seen[0][1]["Host"].startswith("localhost:")


def test_for_a_hook_any_answer_will_do(serve):
    assert get(serve(), "/broken", hook=True)[0] == "success"


def test_a_closed_port_is_refused_in_gos_words(closed_port):
    action = {"httpGet": {"port": closed_port, "path": "/x"}}
    words = f"dial tcp 127.0.0.1:{closed_port}: connect: connection refused"
    expected = f'Get "http://127.0.0.1:{closed_port}/x": {words}'
    assert Reach(action, 2.0).attempt() == ("failure", expected)
    assert Reach({"tcpSocket": {"port": closed_port}}, 2.0).attempt() == ("failure", words)


def test_a_server_that_does_not_answer_in_time_has_failed(serve):
    result, words = get(serve(), "/slow", timeout=0.3)
    assert result == "failure"
    assert words.endswith("(Client.Timeout exceeded while awaiting headers)")


def _babble(listener):
    with listener.accept()[0] as connection:
        connection.recv(1000)
        connection.sendall(b"\0\1\2\n")


def test_what_is_no_http_has_failed():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_babble, args=(listener,), daemon=True).start()
        action = {"httpGet": {"port": listener.getsockname()[1]}}
        assert Reach(action, 2.0).attempt()[0] == "failure"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A certificate and its key, as files."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1"
    files = ["-keyout", folder / "key", "-out", folder / "cert", "-subj", "/CN=nobody"]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    return folder / "cert", folder / "key"


@pytest.fixture(scope="module")
def certificate(pair):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    return context


def test_https_takes_any_certificate(serve, certificate):
    assert get(serve(certificate), scheme="HTTPS") == ("success", "said")


def test_plain_http_is_told_from_https(serve):
    result, words = get(serve(), scheme="HTTPS")
    assert result == "failure"
    assert words.endswith("http: server gave HTTP response to HTTPS client")


def test_an_open_port_is_enough_for_tcp(serve):
    port = serve().server_address[1]
    assert Reach({"tcpSocket": {"port": port}}, 2.0).attempt() == ("success", "")


def test_a_server_of_the_other_family_is_found():
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        port = listener.getsockname()[1]
        assert Reach({"tcpSocket": {"port": port}}, 2.0).attempt() == ("success", "")


@pytest.mark.parametrize("port", ["http", 0, 70000, None])
def test_a_port_that_is_none_says_nothing_of_the_container(port):
    result, words = Reach({"tcpSocket": {"port": port}}, 2.0).attempt()
    assert (result, words) == ("error", f"invalid port number: {port}")


def test_an_attempt_can_be_ended_from_another_thread(serve):
    server = serve()
    reach = Reach({"httpGet": {"port": server.server_address[1], "path": "/slow"}}, 60.0)
    began = time.monotonic()
    threading.Timer(0.3, reach.abandon).start()
    assert reach.attempt()[0] == "failure"
    assert time.monotonic() - began < 2.5, "it did not wait for the answer"


def test_a_hook_stays_until_its_connection_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as server:
        action = {"tcpSocket": {"port": server.getsockname()[1]}, "hook": True}
        with futures.ThreadPoolExecutor(1) as others:
            asked = others.submit(Reach(action, 10.0).attempt)
            time.sleep(0.2)
            with server.accept()[0] as connection:
                connection.setblocking(False)
                with pytest.raises(BlockingIOError):
                    connection.recv(1)  # one that has left would have ended
            assert asked.result() == ("success", "")


# gRPC, answered by a real server


class Health(grpc.GenericRpcHandler):
    """grpc.health.v1.Health, its messages written by hand: service -> status."""

    statuses = {b"": 1, b"\x0a\x04shop": 1, b"\x0a\x03old": 2}

    def service(self, details):
        if details.method != "/grpc.health.v1.Health/Check":
            return None
        return grpc.unary_unary_rpc_method_handler(self._check)

    def _check(self, request, context):
        if request == b"\x0a\x04slow":
            time.sleep(3)
        if request not in self.statuses:
            context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return b"\x08" + bytes([self.statuses[request]])


@pytest.fixture(scope="module")
def grpc_ports():
    """Of a server with a health service, and of one without."""
    servers, ports = [], []
    for handlers in ((Health(),), ()):
        server = grpc.server(futures.ThreadPoolExecutor(4), handlers=handlers)
        ports.append(server.add_insecure_port("127.0.0.1:0"))
        server.start()
        servers.append(server)
    yield ports
    for server in servers:
        server.stop(None)


@pytest.mark.parametrize(
    ("service", "result", "words"),
    [
        ("", "success", ""),
        ("shop", "success", ""),
        ("old", "failure", 'service unhealthy (responded with "NOT_SERVING")'),
        ("other", "failure", "or not for this service"),
        ("slow", "failure", "timeout: health rpc did not complete within 0.5s"),
    ],
)
def test_the_health_service_of_grpc_is_asked(grpc_ports, service, result, words):
    action = {"grpc": {"port": grpc_ports[0], "service": service}}
    got = Reach(action, 0.5 if service == "slow" else 10.0).attempt()
    assert got[0] == result
    assert got[1].endswith(words)


def test_a_grpc_server_without_a_health_service_has_failed(grpc_ports):
    result, words = Reach({"grpc": {"port": grpc_ports[1]}}, 5.0).attempt()
    assert result == "failure"
    assert "does not implement the grpc health protocol" in words


def test_what_is_no_grpc_has_failed(serve, closed_port):
    port = serve().server_address[1]
    assert Reach({"grpc": {"port": port}}, 2.0).attempt()[0] == "failure"
    result, words = Reach({"grpc": {"port": closed_port}}, 2.0).attempt()
    assert result == "failure"
    assert words.startswith("error: failed to connect service at dial tcp")


def test_a_grpc_server_that_speaks_tls_is_asked_by_tls(pair):
    certificate, key = (path.read_bytes() for path in pair)
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=(Health(),))
    credentials = grpc.ssl_server_credentials([(key, certificate)])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        assert Reach({"grpc": {"port": port, "mode": "TLS"}}, 10.0).attempt() == ("success", "")
        assert Reach({"grpc": {"port": port}}, 10.0).attempt()[0] == "failure"
    finally:
        server.stop(None)
