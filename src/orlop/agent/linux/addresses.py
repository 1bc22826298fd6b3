"""Finds the addresses of this node, as those who would reach its pods should use them.

Asked by `main` for the journal's opening record. No packet is sent: the kernel is asked which of
the node's addresses it would use.
"""

from __future__ import annotations

from .fast_imports import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

_ELSEWHERE = "192.0.2.1"  # a documentation address: the way there is the default route


def own_addresses(endpoint_file: str) -> list[str]:
    """Return the address on the way to the kubelet first, then that of the default route."""
    found = []
    for target in [*_targets(endpoint_file), _ELSEWHERE]:
        address = _towards(target)
        if address and not address.startswith("127.") and address not in found:
            found.append(address)
    return found or ["127.0.0.1"]


def endpoints_in(path: str) -> list[str]:
    """Return where the kubelet listens now, `host:port` each; empty if the file does not say."""
    try:
        with open(path, "rb") as file:
            found = loads(file.read())["endpoints"]
        return [endpoint for endpoint in found if isinstance(endpoint, str)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _targets(endpoint_file: str) -> list[str]:
    hosts = [endpoint.rpartition(":")[0] for endpoint in endpoints_in(endpoint_file)]
    return [host for host in hosts if host.replace(".", "").isdigit()]


def _towards(target: str) -> str:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.connect((target, 9))
        return str(sock.getsockname()[0])
    except OSError:
        return ""
    finally:
        sock.close()
