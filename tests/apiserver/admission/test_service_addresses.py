"""Every service gets an address of its own, and keeps it."""

from __future__ import annotations

import asyncio
import json
import random
from ipaddress import ip_address

import pytest

from orlop import errors
from orlop.api import kinds
from orlop.api.objects import Key
from orlop.apiserver.admission import Admission, Attributes, Plugin
from orlop.apiserver.admission.service_addresses import (
    ADDRESSES,
    NODE_PORTS,
    ServiceAddresses,
    ServiceAddressesConfirmed,
)

A = Key("default", "a")


def service(name: str = "a", **spec: object) -> dict:
    ports = [{"port": 80}, {"port": 443, "name": "tls"}]
    ports[0]["name"] = "web"
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"x": "y"}, "ports": ports, **spec},
    }


async def test_an_address_is_given_and_kept(api) -> None:
    made = await api.create(kinds.SERVICE, service())
    address = made["spec"]["clusterIP"]
    assert ip_address(address) in ADDRESSES
    assert made["spec"]["clusterIPs"] == [address]
    assert made["spec"]["ipFamilies"] == ["IPv4"]
    after = await api.update(kinds.SERVICE, service(selector={"x": "z"}))
    assert after["spec"]["clusterIP"] == address


async def test_many_at_once_get_different_ones(api) -> None:
    made = await asyncio.gather(*(api.create(kinds.SERVICE, service(f"s{n}")) for n in range(30)))
    assert len({one["spec"]["clusterIP"] for one in made}) == 30


async def test_one_may_be_asked_for_once(api) -> None:
    made = await api.create(kinds.SERVICE, service(clusterIP="10.96.1.1"))
    assert made["spec"]["clusterIP"] == "10.96.1.1"
    with pytest.raises(errors.Invalid, match="provided IP is already allocated"):
        await api.create(kinds.SERVICE, service("b", clusterIP="10.96.1.1"))
    with pytest.raises(errors.Invalid, match="already allocated"):
        await api.create(kinds.SERVICE, service("b", clusterIP="10.96.0.1"))
    with pytest.raises(errors.Invalid, match="not in the valid range"):
        await api.create(kinds.SERVICE, service("b", clusterIP="192.168.0.1"))


@pytest.mark.parametrize(
    "spec", [{"clusterIP": "None"}, {"type": "ExternalName", "externalName": "x.dev"}]
)
async def test_some_want_none(api, spec) -> None:
    made = await api.create(kinds.SERVICE, service(**spec))
    assert made["spec"].get("clusterIP") in (None, "None")


async def test_node_ports_are_given_and_kept(api) -> None:
    made = await api.create(kinds.SERVICE, service(type="NodePort"))
    ports = [port["nodePort"] for port in made["spec"]["ports"]]
    assert len(set(ports)) == 2
    assert all(port in NODE_PORTS for port in ports)
    after = await api.update(kinds.SERVICE, service(type="NodePort", selector={"x": "z"}))
    assert [port["nodePort"] for port in after["spec"]["ports"]] == ports
    plain = await api.create(kinds.SERVICE, service("b"))
    assert "nodePort" not in plain["spec"]["ports"][0]


async def test_a_node_port_may_be_asked_for_once(api) -> None:
    ports = [{"port": 80, "nodePort": 31000}]
    await api.create(kinds.SERVICE, service(type="NodePort", ports=ports))
    with pytest.raises(errors.Invalid, match="provided port is already allocated"):
        await api.create(kinds.SERVICE, service("b", type="NodePort", ports=ports))
    far = [{"port": 80, "nodePort": 80}]
    with pytest.raises(errors.Invalid, match="30000-32767"):
        await api.create(kinds.SERVICE, service("b", type="NodePort", ports=far))


async def test_a_dry_run_gives_nothing_away(http, api) -> None:
    path = "/api/v1/namespaces/default/services"
    body = service(clusterIP="10.96.9.9")
    assert (await http("POST", f"{path}?dryRun=All", body)).code == 201
    assert (await http("POST", path, body)).code == 201


async def test_an_address_is_free_again_when_its_service_is_gone(api) -> None:
    made = await api.create(kinds.SERVICE, service())
    await api.delete(kinds.SERVICE, A)
    again = await api.create(kinds.SERVICE, service("b", clusterIP=made["spec"]["clusterIP"]))
    assert again["spec"]["clusterIP"] == made["spec"]["clusterIP"]


class Slow(Plugin):
    """As a webhook, or the charge of a quota: it waits between the choice and the store."""

    async def validate(self, attributes: Attributes) -> None:
        await asyncio.sleep(0.01)


class Narrow(random.Random):
    """Chooses the same again and again."""

    def randrange(self, *_: int) -> int:
        return 7

    def choice(self, options):
        return options[7]


async def test_what_two_get_while_both_wait_is_given_once(site, local) -> None:
    given = ServiceAddresses(site.store, rng=Narrow())
    site.server.registry.admission = Admission([given, Slow(), ServiceAddressesConfirmed(given)])
    spec = {"type": "NodePort", "ports": [{"port": 80}]}
    made = await asyncio.gather(
        *(
            local.create(kinds.SERVICE, {"metadata": {"name": f"s{n}", "namespace": "default"},
                                         "spec": json.loads(json.dumps(spec))})
            for n in range(5)
        )
    )  # fmt: skip
    assert len({one["spec"]["clusterIP"] for one in made}) == 5
    assert all(one["spec"]["clusterIPs"] == [one["spec"]["clusterIP"]] for one in made)
    assert len({one["spec"]["ports"][0]["nodePort"] for one in made}) == 5


async def test_what_two_ask_for_while_both_wait_is_had_by_one(site, local) -> None:
    given = ServiceAddresses(site.store)
    site.server.registry.admission = Admission([given, Slow(), ServiceAddressesConfirmed(given)])
    asked = {"clusterIP": "10.96.3.3", "ports": [{"port": 80}]}
    answers = await asyncio.gather(
        *(
            local.create(kinds.SERVICE, {"metadata": {"name": f"s{n}", "namespace": "default"},
                                         "spec": json.loads(json.dumps(asked))})
            for n in range(3)
        ),
        return_exceptions=True,
    )  # fmt: skip
    assert sum(isinstance(one, dict) for one in answers) == 1
    refused = [one for one in answers if not isinstance(one, dict)]
    assert all("provided IP is already allocated" in str(one) for one in refused)
