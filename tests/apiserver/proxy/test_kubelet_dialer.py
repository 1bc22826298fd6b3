"""Where the kubelet of a node is."""

from __future__ import annotations

import pytest

from orlop.apiserver.proxy.kubelet_dialer import KubeletClient, urls_of
from orlop.errors import InternalError


def node(*addresses: tuple[str, str], port: int | None = 10250) -> dict:
    status: dict = {"addresses": [{"type": kind, "address": text} for kind, text in addresses]}
    if port is not None:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    return {"metadata": {"name": "n1"}, "status": status}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (node(("InternalIP", "10.0.0.1")), ["https://10.0.0.1:10250"]),
        (
            node(("Hostname", "n1"), ("InternalIP", "10.0.0.1"), ("InternalIP", "10.1.0.1")),
            ["https://10.0.0.1:10250", "https://10.1.0.1:10250"],
        ),
        (node(("InternalIP", "fd00::1"), port=7), ["https://[fd00::1]:7"]),
        (node(("InternalIP", "10.0.0.1"), port=None), []),
        (node(), []),
        ({"metadata": {"name": "n1"}}, []),
    ],
)
def test_every_internal_address_is_a_way(given, expected) -> None:
    assert urls_of(given) == expected


async def test_a_node_without_a_way_is_named() -> None:
    client = KubeletClient(None)
    with pytest.raises(InternalError, match="node n1 cannot be reached: the node has no"):
        async with client.get(node(), "/healthz", {}):
            pass
    await client.close()


async def test_the_first_address_that_answers_is_taken(site) -> None:
    """The API server itself stands for a kubelet here: it has a certificate of the same CA."""
    client = KubeletClient(site.authority.client_context())
    dead_then_alive = node(("InternalIP", "127.0.0.2"), ("InternalIP", "127.0.0.1"), port=site.port)
    with pytest.raises(InternalError, match=r"127\.0\.0\.2.*; https://127\.0\.0\.1"):
        async with client.get(dead_then_alive, "/healthz", {}):
            pass  # the second one answers, but under a name that is not a kubelet's
    await client.close()
