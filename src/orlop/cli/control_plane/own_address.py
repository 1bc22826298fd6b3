"""Says by which address others best know this control plane.

Asked by what is told to users, pods and other hosts. Settings come first, then what this host and
the resolver say of it.
"""

from __future__ import annotations

from ...listener import ANYWHERE
from ...settings import Settings
from ..doctor_checks import addresses


def host_of(settings: Settings) -> str:
    """Return the address that is best known on the cluster; the certificate has all of them."""
    listen = [settings.listen] if settings.listen not in ANYWHERE else []
    return [*listen, *settings.advertise, *addresses.addresses(), "127.0.0.1"][0]


def ipv4_of(settings: Settings) -> str:
    """Return an IPv4 address, as `host_of`, of those that agents can be told."""
    known = [host_of(settings), *addresses.addresses()]
    return next((address for address in known if addresses.is_ipv4(address)), "127.0.0.1")


def url_of(settings: Settings, port: int) -> str:
    return f"https://{host_of(settings)}:{port}"
