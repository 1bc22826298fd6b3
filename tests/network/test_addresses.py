"""No two pods that may still be running have the same address."""

from __future__ import annotations

from ipaddress import IPv4Network, ip_address

import pytest

from orlop.network.addresses import NoAddress, PodAddresses

RANGE = IPv4Network("10.244.0.0/16")


def test_every_pod_has_one_of_its_own_in_the_range():
    addresses = PodAddresses(RANGE)
    given = {addresses.allocate(f"pod-{number}") for number in range(10_000)}
    assert len(given) == 10_000
    assert all(ip_address(address) in RANGE for address in given)


def test_a_pod_that_is_planned_again_keeps_its_address():
    addresses = PodAddresses(RANGE)
    first = addresses.allocate("a")
    assert addresses.allocate("a") == first == addresses.of("a")
    assert addresses.owner(first) == "a"


def test_what_an_earlier_control_plane_gave_is_not_given_again():
    addresses = PodAddresses(IPv4Network("10.1.2.0/29"), start=0)
    addresses.reserve("old", "10.1.2.3")
    others = {addresses.allocate(f"new-{number}") for number in range(5)}
    assert others == {f"10.1.2.{last}" for last in (1, 2, 4, 5, 6)}
    assert addresses.of("old") == "10.1.2.3"


def test_an_address_given_back_is_the_last_to_be_given_again():
    addresses = PodAddresses(IPv4Network("10.1.2.0/29"), start=0)
    first = addresses.allocate("a")
    addresses.release("a")
    others = [addresses.allocate(f"b{number}") for number in range(6)]
    assert others[-1] == first


def test_a_full_range_says_what_to_change():
    addresses = PodAddresses(IPv4Network("10.1.2.0/30"))
    addresses.allocate("a")
    addresses.allocate("b")
    with pytest.raises(NoAddress, match=r"all 2 addresses of 10\.1\.2\.0/30 .* network\.pod_range"):
        addresses.allocate("c")


def test_the_edges_and_the_nodes_own_loopback_block_are_never_given():
    addresses = PodAddresses(IPv4Network("10.0.0.0/23"), start=0)
    given = {addresses.allocate(str(number)) for number in range(255)}
    assert given == {f"10.0.1.{last}" for last in range(255)}


@pytest.mark.parametrize("address", ["", "192.168.0.1"])
def test_an_address_of_an_earlier_range_is_let_be(address):
    addresses = PodAddresses(RANGE)
    addresses.reserve("a", address)
    assert addresses.of("a") == ""
