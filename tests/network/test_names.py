"""Names as the Kubernetes DNS specification has them."""

from __future__ import annotations

import pytest

from orlop.network.names import (
    Question,
    parse,
    reverse_records,
    service_records,
)

DOMAIN = "cluster.local"
PORTS = [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]


def a_service(**spec):
    return {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"clusterIP": "10.96.0.3", "ports": PORTS, **spec},
    }


def a_slice(*ends):
    return {
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": [ip], "hostname": name, "conditions": {"ready": ready}}
            for ip, name, ready in ends
        ],
    }


HEADLESS = a_service(clusterIP="None")
ENDS = a_slice(
    ("10.244.0.8", "web-0", True), ("10.244.0.9", None, True), ("10.244.0.1", "x", False)
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web.shop.svc.cluster.local", Question("service", "shop", "web")),
        ("web-0.web.shop.svc.cluster.local", Question("service", "shop", "web", endpoint="web-0")),
        (
            "_http._tcp.web.shop.svc.cluster.local",
            Question("service", "shop", "web", port="http", protocol="tcp"),
        ),
        ("shop.svc.cluster.local", Question("namespace", "shop")),
        ("svc.cluster.local", Question("root")),
        ("cluster.local", Question("root")),
        ("10-244-0-8.shop.pod.cluster.local", Question("pod", "shop", address="10.244.0.8")),
        ("shop.pod.cluster.local", Question("namespace", "shop")),
        ("web-0.shop.pod.cluster.local", None),
        ("8.0.244.10.in-addr.arpa", Question("reverse", address="10.244.0.8")),
        ("0.244.10.in-addr.arpa", None),
        ("dns-version.cluster.local", Question("version")),
        ("a.b.c.d.svc.cluster.local", None),
        ("example.org", None),
        ("notcluster.local", None),
        ("web.cluster.local", None),
    ],
)
def test_what_a_name_is_about(name, expected):
    assert parse(name, DOMAIN) == expected


def records(name, service, *slices):
    return service_records(parse(name, DOMAIN), service, slices, DOMAIN)


def test_a_service_has_its_address_and_a_record_for_each_port():
    assert records("web.shop.svc.cluster.local", a_service(), ENDS) == {
        "A": ["10.96.0.3"],
        "SRV": [
            [0, 50, 80, "web.shop.svc.cluster.local"],
            [0, 50, 53, "web.shop.svc.cluster.local"],
        ],
        "glue": {"web.shop.svc.cluster.local": ["10.96.0.3"]},
        "ttl": 5,
    }


@pytest.mark.parametrize(
    ("name", "port"),
    [("_http._tcp", 80), ("_dns._udp", 53), ("_dns._tcp", None), ("_x._tcp", None)],
)
def test_a_port_by_its_name(name, port):
    found = records(f"{name}.web.shop.svc.cluster.local", a_service())
    if port is None:
        assert found is None
    else:
        assert found["SRV"] == [[0, 100, port, "web.shop.svc.cluster.local"]]
        assert "A" not in found


def test_a_headless_service_has_the_addresses_of_all_that_are_ready():
    found = records("web.shop.svc.cluster.local", HEADLESS, ENDS)
    assert found["A"] == ["10.244.0.8", "10.244.0.9"]
    assert found["SRV"] == [
        [0, 50, 8080, "10-244-0-9.web.shop.svc.cluster.local"],
        [0, 50, 8080, "web-0.web.shop.svc.cluster.local"],
    ]
    assert found["glue"]["web-0.web.shop.svc.cluster.local"] == ["10.244.0.8"]


def test_a_headless_service_without_endpoints_is_there_and_has_no_address():
    assert records("web.shop.svc.cluster.local", HEADLESS) == {"ttl": 5}


@pytest.mark.parametrize(
    ("label", "expected"),
    [("web-0", ["10.244.0.8"]), ("10-244-0-9", ["10.244.0.9"]), ("x", None), ("web-7", None)],
)
def test_one_endpoint_by_its_name(label, expected):
    found = records(f"{label}.web.shop.svc.cluster.local", HEADLESS, ENDS)
    assert (found["A"] if found is not None else None) == expected


def test_a_service_that_is_a_name_elsewhere():
    external = a_service(type="ExternalName", externalName="db.example.org.", clusterIP="")
    found = records("web.shop.svc.cluster.local", external)
    assert found == {"CNAME": "db.example.org", "ttl": 5}
    assert records("a.web.shop.svc.cluster.local", external) is None


def test_an_address_has_the_name_of_its_service_or_of_its_endpoint():
    found = reverse_records("10.96.0.3", a_service(), [], DOMAIN)
    assert found["PTR"] == ["web.shop.svc.cluster.local"]
    found = reverse_records("10.244.0.8", None, [(HEADLESS, ENDS)], DOMAIN)
    assert found["PTR"] == ["web-0.web.shop.svc.cluster.local"]
    assert reverse_records("10.244.0.1", None, [(HEADLESS, ENDS)], DOMAIN) is None
