"""Two users in two processes: who asks for everything leaves room for who asks for little."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks.api_client import Address, Client, request
from orlop import pki
from tools.devroot import PROJECT

from .conftest import Cluster

GET = request("GET", "/api/v1/namespaces/default")
HOG = """
import sys
from benchmarks.api_client import Address, Client, request
from orlop import pki
authority = pki.Pki(__import__("pathlib").Path(sys.argv[1]) / "pki")
tls = authority.client_context(authority.pair("hog"))
client = Client(Address("127.0.0.1", int(sys.argv[2]), tls), 100)
print("begun", flush=True)
while True:
    client.run([request("GET", "/api/v1/namespaces/default")] * 2000)
"""


@pytest.fixture
def hog(cluster: Cluster) -> Iterator[subprocess.Popen[str]]:
    """Another user with a hundred connections, each busy all the time."""
    authority = pki.Pki(cluster.home / "pki")
    crt, key = authority.issue("hog", ["system:masters"])
    authority.pair("hog").crt.write_bytes(crt)
    authority.pair("hog").key.write_bytes(key)
    port = cluster.url.rpartition(":")[2]
    process = subprocess.Popen(
        [sys.executable, "-c", HOG, str(cluster.home), port],
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    )
    yield process
    process.kill()
    process.wait(20)
    assert process.stdout is not None
    process.stdout.close()


def rate(client: Client, count: int = 40, tries: int = 6) -> float:
    runs = [client.run([GET] * count) for _ in range(tries)]
    assert [run.refused for run in runs] == [[]] * tries
    return max(count / run.seconds for run in runs)


def test_one_user_with_a_hundred_connections_does_not_starve_another(
    cluster: Cluster, hog: subprocess.Popen[str]
) -> None:
    authority = pki.Pki(cluster.home / "pki")
    tls = authority.client_context(authority.admin)
    modest = Client(Address("127.0.0.1", int(cluster.url.rpartition(":")[2]), tls), 1)
    assert hog.stdout is not None
    hog.stdout.readline()
    beside = rate(modest)
    hog.kill()
    hog.wait(20)
    alone = rate(modest)
    modest.close()
    print(f"{alone:.0f}/s alone, {beside:.0f}/s beside a hundred connections of another user")
    # Without turns it would get one answer for a hundred of the other, each as long as its own.
    assert beside > alone / 80
