"""Addresses that nobody may have us connect to, however they are spelled or hidden."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.destinations import ANYWHERE, Destinations, Refused, special


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("10.1.2.3", True),
        ("192.168.1.1", True),
        ("2001:db8::1", True),
        ("fd00::1", True),
        ("64:ff9b::a01:203", True),  # 10.1.2.3
        ("127.0.0.1", False),
        ("127.255.255.254", False),
        ("::1", False),
        ("169.254.169.254", False),
        ("fe80::1%eth0", False),
        ("0.0.0.0", False),
        ("0.1.2.3", False),
        ("::", False),
        ("224.0.0.1", False),
        ("ff02::1", False),
        ("255.255.255.255", False),
        ("fd00:ec2::254", False),
        ("100.100.100.200", False),
        ("168.63.129.16", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:169.254.169.254", False),
        ("::127.0.0.1", False),
        ("::ffff:0:127.0.0.1", False),
        ("64:ff9b::127.0.0.1", False),
        ("64:ff9b:1::7f00:1", False),
        ("2002:7f00:1::1", False),
        ("2002:a9fe:a9fe::", False),
        ("2001:0:4136:e378:8000:63bf:80ff:fffe", False),  # Teredo of 127.0.0.1
        ("2001:db8::5efe:127.0.0.1", False),
        ("::ffff:100.100.100.200", False),
        ("nonsense", False),
    ],
)
def test_which_addresses_may_be_dialled_for_others(address: str, is_allowed: bool) -> None:
    assert (Destinations().problem(address) == "") is is_allowed


@given(st.integers(0, (1 << 32) - 1))
def test_an_address_within_another_is_found(number: int) -> None:
    plain = ip_address(number)
    hidden = [number, 0xFFFF << 32 | number, 0x64FF9B << 96 | number]
    hidden += [0x2002 << 112 | number << 80, 0x2001 << 112 | (~number & 0xFFFFFFFF)]
    for one in hidden[1:]:
        assert bool(special(ip_address(one))) == bool(special(plain))


def test_settings_name_the_exceptions() -> None:
    some = Destinations.of(["127.0.0.0/24", "fe80::/10"])
    assert some.problem("127.0.0.9") == some.problem("fe80::1") == ""
    assert "network.allow_destinations" in some.problem("127.0.1.1")
    assert ANYWHERE.problem("127.0.0.1") == ""
    with pytest.raises(ValueError, match="127"):
        Destinations.of(["127.0.0.1/8"])


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "::1",
     "::ffff:127.0.0.1", "0.0.0.0"],
)  # fmt: skip
async def test_loopback_by_any_name_is_not_dialled(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        port = server.getsockname()[1]
        for dial in (Destinations().dial, _in_a_thread(Destinations())):
            with pytest.raises(OSError, match=r"address not allowed|No address|not known"):
                await dial(host, port)
        with pytest.raises(TimeoutError):
            server.accept()


def _in_a_thread(destinations: Destinations):
    async def dial(host: str, port: int) -> socket.socket:
        return await asyncio.to_thread(destinations.dial_now, (host, port))

    return dial


async def test_a_name_is_looked_up_once_and_what_was_looked_at_is_dialled(monkeypatch) -> None:
    """Else it could lead elsewhere by the time that it is dialled."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        asked: list[str] = []

        async def lookup(host: str, port: int, **_: object):
            asked.append(host)
            first = ("127.0.0.1", "10.9.9.9")[len(asked) > 1]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (first, port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookup)
        dialled = await Destinations.of(["127.0.0.1"]).dial("rebinding.example", port)
        assert dialled.getpeername() == ("127.0.0.1", port)
        dialled.close()
        assert asked == ["rebinding.example"]


async def test_of_several_addresses_one_that_may_be_is_taken(monkeypatch) -> None:
    infos = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 80)) for ip in
             ("127.0.0.1", "192.0.2.1")]  # fmt: skip
    assert Destinations().choose("x", 80, infos)[4][0] == "192.0.2.1"
    with pytest.raises(Refused, match="loopback"):
        Destinations().choose("x", 80, infos[:1])


async def test_a_name_that_cannot_be_one_is_an_error_of_the_network() -> None:
    with pytest.raises(OSError, match="no such host"):
        await Destinations().resolve("a" * 70 + ".example", 80)
