from __future__ import annotations

import ipaddress
import socket
import subprocess

from orlop.cli.doctor_checks import addresses


def test_the_host_is_known_by_its_name():
    assert socket.gethostname() in addresses.host_names()
    assert "localhost" not in addresses.host_names()


def test_addresses_are_those_of_the_interfaces_without_loopback():
    shown = subprocess.run(["ip", "-4", "-o", "addr"], capture_output=True, text=True, check=True)
    words = [line.split() for line in shown.stdout.splitlines()]
    real = {word[3].split("/")[0] for word in words}
    found = addresses.addresses()
    assert set(found) <= real
    assert not any(ipaddress.ip_address(address).is_loopback for address in found)


def test_the_address_of_the_default_route_comes_first():
    route = subprocess.run(["ip", "route", "get", "192.0.2.1"], capture_output=True, text=True)
    if route.returncode == 0:
        words = route.stdout.split()
        assert addresses.addresses()[0] == words[words.index("src") + 1]
    else:
        assert isinstance(addresses.addresses(), list)
