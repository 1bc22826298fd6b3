"""A pod's resolv.conf and hosts file are as the kubelet of upstream writes them."""

from __future__ import annotations

import pytest

from orlop.agent.pod.resolv_conf import HOSTS_HEAD, own_hosts, resolv_conf

NODE = "search site.example lab.example\nnameserver 192.0.2.53\noptions timeout:1 rotate\n"
NOTHING = {"nameservers": [], "searches": [], "options": []}
CLUSTER = {
    "policy": "ClusterFirst",
    "nameservers": ["10.96.0.10"],
    "searches": ["default.svc.cluster.local", "svc.cluster.local", "cluster.local"],
    "options": [["ndots", "5"]],
}
OF_NODE = {"policy": "Default", "nameservers": [], "searches": [], "options": []}
OWN = {
    "nameservers": ["192.0.2.99"],
    "searches": ["my.example"],
    "options": [["ndots", "2"], ["edns0", ""]],
}


@pytest.mark.parametrize(
    ("resolver", "expected"),
    [
        (None, NODE),
        (
            {**CLUSTER, "more": NOTHING},
            "search default.svc.cluster.local svc.cluster.local cluster.local site.example "
            "lab.example\nnameserver 10.96.0.10\noptions ndots:5\n",
        ),
        (
            {**CLUSTER, "more": OWN},
            "search default.svc.cluster.local svc.cluster.local cluster.local site.example "
            "lab.example my.example\nnameserver 10.96.0.10\nnameserver 192.0.2.99\n"
            "options ndots:2 edns0\n",
        ),
        ({**OF_NODE, "more": NOTHING}, NODE),
        (
            {**OF_NODE, "more": OWN},
            "search site.example lab.example my.example\nnameserver 192.0.2.53\n"
            "nameserver 192.0.2.99\noptions timeout:1 rotate ndots:2 edns0\n",
        ),
        (
            {**OF_NODE, "policy": "None", "more": OWN},
            "search my.example\nnameserver 192.0.2.99\noptions ndots:2 edns0\n",
        ),
    ],
    ids=["no plan", "cluster first", "and more", "default", "default and more", "none"],
)
def test_resolv_conf_follows_the_plan(resolver, expected):
    assert resolv_conf(resolver, NODE) == expected


def test_a_server_on_the_nodes_loopback_is_asked_through_our_own():
    node = "nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch site.example\n"
    found = resolv_conf({**OF_NODE, "more": NOTHING}, node, "10.96.0.10")
    assert found == "nameserver 10.96.0.10\noptions edns0 trust-ad\nsearch site.example\n"


def test_never_more_servers_than_a_resolver_reads():
    more = {**NOTHING, "nameservers": [f"192.0.2.{n}" for n in range(9)]}
    assert resolv_conf({**CLUSTER, "more": more}, NODE).count("nameserver") == 3


@pytest.mark.parametrize(
    ("hostname", "fqdn", "expected"),
    [
        ("web", "", "10.244.0.7\tweb\n"),
        ("web-0", "web-0.web.a.svc.x", "10.244.0.7\tweb-0.web.a.svc.x\tweb-0\n"),
        ("web-0.web.a.svc.x", "web-0.web.a.svc.x", "10.244.0.7\tweb-0.web.a.svc.x\tweb-0\n"),
    ],
    ids=["plain", "with a subdomain", "host name as FQDN"],
)
def test_a_pod_knows_its_own_name(hostname, fqdn, expected):
    assert own_hosts("10.244.0.7", hostname, fqdn, []) == expected


def test_aliases_are_added():
    aliases = [{"ip": "192.0.2.1", "hostnames": ["a", "b"]}]
    found = own_hosts("10.244.0.7", "web", "", aliases)
    assert found.endswith("\n# Entries added by HostAliases.\n192.0.2.1\ta\tb\n")
    assert HOSTS_HEAD.splitlines()[1] == "127.0.0.1\tlocalhost"
