"""The ranges of a cluster and its two fixed addresses follow from the settings."""

from __future__ import annotations

import msgspec
import pytest

from orlop.network.ranges import Ranges
from orlop.settings import NetworkSettings, Settings


def test_the_api_has_the_first_address_and_dns_the_tenth():
    ranges = Ranges.of(NetworkSettings())
    assert (ranges.api, ranges.dns, ranges.domain) == ("10.96.0.1", "10.96.0.10", "cluster.local")
    other = Ranges.of(NetworkSettings(service_range="172.31.0.0/20"))
    assert (other.api, other.dns) == ("172.31.0.1", "172.31.0.10")


@pytest.mark.parametrize(
    ("address", "is_pod", "is_service"),
    [("10.244.3.7", True, False), ("10.96.0.1", False, True), ("192.0.2.1", False, False)],
)
def test_an_address_is_of_one_range_or_of_none(address, is_pod, is_service):
    ranges = Ranges.of(NetworkSettings())
    assert (ranges.is_pod(address), ranges.is_service(address)) == (is_pod, is_service)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ({"pod_range": "10.96.0.0/12"}, "overlap"),
        ({"pod_range": "10.0.0.0/30"}, "from /8 to /24"),
        ({"service_range": "fd00::/108"}, "fd00"),
        ({"service_range": "10.1.2.3/16"}, "host bits"),
        ({"upstream": ["dns.site"]}, "dns.site"),
    ],
)
def test_ranges_and_servers_that_are_none_are_refused(network, words):
    with pytest.raises(msgspec.ValidationError, match=words):
        msgspec.convert({"network": network}, Settings)
