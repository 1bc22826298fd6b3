"""Which endpoints a service has, by kube-proxy's rules."""

from __future__ import annotations

import pytest

from orlop.network.services import cluster_ips, endpoint_name, is_headless, service_value

READY = {"ready": True, "serving": True, "terminating": False}
UNREADY = {"ready": False, "serving": False, "terminating": False}
ENDING = {"ready": False, "serving": True, "terminating": True}
ENDED = {"ready": False, "serving": False, "terminating": True}


def a_service(*ports, **spec):
    ports = ports or ({"name": "http", "port": 80},)
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.3", "ports": list(ports), **spec},
    }


def a_slice(*ends, ports=({"name": "http", "port": 8080, "protocol": "TCP"},), family="IPv4"):
    endpoints = [
        {"addresses": [address], "conditions": conditions, "nodeName": "main"}
        for address, conditions in ends
    ]
    return {"addressType": family, "ports": list(ports), "endpoints": endpoints}


def addresses(service, *slices):
    return [end[0] for end in service_value(service, slices)["ports"][0]["endpoints"]]


def test_the_whole_of_a_service():
    assert service_value(a_service(), [a_slice(("10.244.0.8", READY))]) == {
        "ports": [
            {
                "protocol": "tcp",
                "port": 80,
                "name": "http",
                "endpoints": [["10.244.0.8", 8080, "main"]],
            }
        ],
        "affinity": 0,
        "internalPolicy": "Cluster",
    }


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([READY, UNREADY, ENDING], ["10.244.0.0"]),
        ([UNREADY, ENDING], ["10.244.0.1"]),
        ([UNREADY, ENDED], []),
        ([{}], ["10.244.0.0"]),
        ([{"ready": None}], ["10.244.0.0"]),
    ],
    ids=["ready only", "those that end serve where no other does", "none", "absent", "null"],
)
def test_which_endpoints_count(conditions, expected):
    ends = [(f"10.244.0.{number}", found) for number, found in enumerate(conditions)]
    assert addresses(a_service(), a_slice(*ends)) == expected


def test_endpoints_of_several_slices_are_one_list_without_doubles():
    one = a_slice(("10.244.0.9", READY), ("10.244.0.8", READY))
    two = a_slice(("10.244.0.9", READY), ("10.244.0.1", READY))
    assert addresses(a_service(), one, two) == ["10.244.0.1", "10.244.0.8", "10.244.0.9"]


@pytest.mark.parametrize(
    ("service_port", "slice_port", "is_meant"),
    [
        ({"port": 80}, {"port": 8080}, True),
        ({"port": 80}, {"name": "", "port": 8080, "protocol": "TCP"}, True),
        ({"name": "a", "port": 80}, {"name": "b", "port": 8080}, False),
        ({"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}, False),
        ({"port": 80}, {"port": None}, False),
    ],
)
def test_a_port_is_found_by_name_and_protocol(service_port, slice_port, is_meant):
    found = addresses(a_service(service_port), a_slice(("10.244.0.8", READY), ports=[slice_port]))
    assert bool(found) is is_meant


def test_names_for_addresses_are_no_endpoints():
    assert addresses(a_service(), a_slice(("db.example", READY), family="FQDN")) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"sessionAffinity": "None"}, 0),
        ({"sessionAffinity": "ClientIP"}, 10800),
        (
            {
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 30}},
            },
            30,
        ),
    ],
)
def test_how_long_a_client_stays_with_its_endpoint(spec, expected):
    assert service_value(a_service(**spec), [])["affinity"] == expected


def test_a_headless_service_and_a_mere_name_have_no_address():
    assert cluster_ips(a_service(clusterIP="None")) == []
    assert is_headless(a_service(clusterIP="None"))
    assert cluster_ips({"spec": {"type": "ExternalName", "externalName": "a.b"}}) == []
    assert cluster_ips(a_service(clusterIPs=["10.96.0.3"])) == ["10.96.0.3"]


def test_an_endpoint_is_called_by_its_hostname_or_its_address():
    assert endpoint_name({"hostname": "web-0"}, "10.244.0.8") == "web-0"
    assert endpoint_name({}, "10.244.0.8") == "10-244-0-8"
