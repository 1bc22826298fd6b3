"""The node's addresses."""

from __future__ import annotations

import ipaddress
import json

import pytest

from orlop.agent.linux.addresses import own_addresses


@pytest.fixture
def endpoints(tmp_path):
    def write(*endpoints):
        path = tmp_path / "kubelet.json"
        path.write_text(json.dumps({"endpoints": list(endpoints)}))
        return str(path)

    return write


def test_there_is_always_an_address(endpoints):
    for found in (own_addresses(""), own_addresses(endpoints("no.such.host:1"))):
        assert found
        assert all(ipaddress.ip_address(address) for address in found)


def test_loopback_is_no_address_to_tell_others_if_there_is_another(endpoints):
    found = own_addresses(endpoints("127.0.0.1:6443"))
    assert found == own_addresses("")
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("text", ["", "{", "{}", '{"endpoints": 3}', '{"endpoints": [3]}'])
def test_a_bad_endpoint_file_is_no_failure(tmp_path, text):
    path = tmp_path / "kubelet.json"
    path.write_text(text)
    assert own_addresses(str(path)) == own_addresses("")
