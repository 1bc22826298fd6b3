"""Gives each service its cluster IP and, where it asks for them, its node ports.

Two admission plugins, always on. The first gives, early enough for users' programs to see what;
the second looks once more, after everything that may wait and right before the store. What is taken
is read from the services themselves, those on their way to the disk included: there is no second
list to repair. As registry/core/service/storage/alloc.go.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from ipaddress import IPv4Network, ip_address

from ...api import kinds
from ...api.objects import Key, Obj
from ...api.validation import FieldError, invalid
from ...api.validation.errors import bad_value
from ...errors import InternalError
from ...settings import NetworkSettings
from ...store import Store
from .chain import Attributes, Plugin

ADDRESSES = IPv4Network(NetworkSettings().service_range)
NODE_PORTS = range(30000, 32768)
_REMEMBERED = 1024  # services on their way; those that were refused are forgotten by and by
_TRIES = 64  # random picks before all of the range is looked through


class ServiceAddresses(Plugin):
    def __init__(
        self,
        store: Store,
        addresses: IPv4Network = ADDRESSES,
        rng: random.Random | None = None,
    ) -> None:
        self._store = store
        self._addresses = addresses
        self._rng = rng or random.SystemRandom()
        # What was chosen for services that are not kept yet; the services, so that ids stay theirs.
        self._chosen: OrderedDict[int, tuple[Obj, set[Hashable]]] = OrderedDict()

    def confirm(self, attributes: Attributes, service: Obj) -> None:
        """Make sure that no other service has got the same address or port meanwhile.

        What we chose is chosen again, what the client chose is refused. From here to the store
        nothing waits.
        """
        spec = service.get("spec") or {}
        _, chosen = self._chosen.pop(id(service), (service, set()))
        own = Key(attributes.namespace, attributes.name)
        address = spec.get("clusterIP")
        if address and address != "None":
            taken = self._taken(_address_of, own)
            if address in taken and address in chosen:
                address = self._free_address(taken)
                spec["clusterIP"], spec["clusterIPs"] = address, [address]
            elif (problem := _refused(address, taken, self._addresses)) and address in taken:
                raise invalid(kinds.SERVICE, attributes.name, [problem])
        taken = self._taken(_ports_of, own)
        for index, port in enumerate(spec.get("ports") or ()):
            number = port.get("nodePort")
            if number in taken and number in chosen:
                port["nodePort"] = self._free_port(taken)
                taken.add(port["nodePort"])
            elif number in taken and number:
                problem = bad_value(
                    f"spec.ports[{index}].nodePort", number, "provided port is already allocated"
                )
                raise invalid(kinds.SERVICE, attributes.name, [problem])

    def _remember(self, service: Obj, value: Hashable) -> None:
        _, chosen = self._chosen.setdefault(id(service), (service, set()))
        chosen.add(value)
        while len(self._chosen) > _REMEMBERED:
            self._chosen.popitem(last=False)

    async def admit(self, attributes: Attributes) -> None:
        service = attributes.obj
        is_write = attributes.operation in ("CREATE", "UPDATE") and not attributes.subresource
        if service is None or not is_write or attributes.kind.resource != kinds.SERVICE.resource:
            return
        spec, old = service.get("spec") or {}, (attributes.old or {}).get("spec") or {}
        self._address(attributes, spec, old)
        if spec.get("type") in ("NodePort", "LoadBalancer"):
            self._ports(attributes, spec, old)

    def _address(self, attributes: Attributes, spec: Obj, old: Obj) -> None:
        if spec.get("type") == "ExternalName" or spec.get("clusterIP") == "None":
            return
        asked, had = spec.get("clusterIP"), old.get("clusterIP")
        if had and asked in (None, "", had):
            return  # it stays what it is
        taken = self._taken(_address_of)
        if not asked:
            asked = self._free_address(taken)
            self._remember(attributes.obj or {}, asked)
        else:
            problem = _refused(asked, taken, self._addresses)
            if problem is not None:
                raise invalid(kinds.SERVICE, attributes.name, [problem])
        spec["clusterIP"], spec["clusterIPs"] = asked, [asked]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")

    def _ports(self, attributes: Attributes, spec: Obj, old: Obj) -> None:
        kept = {port.get("nodePort") for port in old.get("ports") or ()}
        known = {(port.get("protocol"), port.get("port")) for port in old.get("ports") or ()
                 if port.get("nodePort")}  # fmt: skip
        taken = self._taken(_ports_of)
        for index, port in enumerate(spec.get("ports") or ()):
            asked = port.get("nodePort")
            if asked:
                problem = _refused_port(index, asked, taken - kept)
                if problem is not None:
                    raise invalid(kinds.SERVICE, attributes.name, [problem])
            elif (port.get("protocol"), port.get("port")) in known:
                continue  # the former number is put back by the kind's own rules
            else:
                asked = port["nodePort"] = self._free_port(taken)
                self._remember(attributes.obj or {}, asked)
            taken.add(asked)

    def _taken(self, of: Callable[[Obj], list[Hashable]], own: Key | None = None) -> set[Hashable]:
        newest = self._store.list_newest(kinds.SERVICE.resource)
        specs = [record.decode().get("spec") or {} for record in newest if record.key != own]
        return {value for spec in specs for value in of(spec)}

    def _free_address(self, taken: Collection[Hashable]) -> str:
        addresses = self._addresses
        size = addresses.num_addresses - 2
        for _ in range(_TRIES):
            candidate = str(addresses[1 + self._rng.randrange(size)])
            if candidate not in taken:
                return candidate
        found = next((str(one) for one in addresses.hosts() if str(one) not in taken), None)
        if found is None:
            raise InternalError(f"failed to allocate a serviceIP: {addresses} is full")
        return found

    def _free_port(self, taken: Collection[Hashable]) -> int:
        for _ in range(_TRIES):
            candidate = self._rng.choice(NODE_PORTS)
            if candidate not in taken:
                return candidate
        found = next((one for one in NODE_PORTS if one not in taken), None)
        if found is None:
            raise InternalError("failed to allocate a nodePort: range is full")
        return found


class ServiceAddressesConfirmed(Plugin):
    """The second look, and the last plugin of all."""

    def __init__(self, addresses: ServiceAddresses) -> None:
        self._addresses = addresses

    async def validate(self, attributes: Attributes) -> None:
        is_service = attributes.kind.resource == kinds.SERVICE.resource
        if is_service and attributes.obj is not None and not attributes.subresource:
            self._addresses.confirm(attributes, attributes.obj)


def _address_of(spec: Obj) -> list[Hashable]:
    return [spec.get("clusterIP")]


def _ports_of(spec: Obj) -> list[Hashable]:
    return [port.get("nodePort") for port in spec.get("ports") or () if port.get("nodePort")]


def _refused(asked: str, taken: Collection[Hashable], addresses: IPv4Network) -> FieldError | None:
    try:
        is_ours = ip_address(asked) in addresses
    except ValueError:
        return None  # validation says it better
    if not is_ours:
        why = f"failed to allocate IP {asked}: the provided IP is not in the valid range. "
        return bad_value("spec.clusterIPs", [asked], f"{why}The range of valid IPs is {addresses}")
    if asked in taken:
        why = f"failed to allocate IP {asked}: provided IP is already allocated"
        return bad_value("spec.clusterIPs", [asked], why)
    return None


def _refused_port(index: int, asked: int, taken: Collection[Hashable]) -> FieldError | None:
    field = f"spec.ports[{index}].nodePort"
    if asked not in NODE_PORTS:
        valid = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
        why = f"provided port is not in the valid range. The range of valid ports is {valid}"
        return bad_value(field, asked, why)
    return bad_value(field, asked, "provided port is already allocated") if asked in taken else None
