"""Which plugins are on, in upstream's order.

Called once, by the server. A new plugin is a module beside this one and a line here.
"""

from __future__ import annotations

from ipaddress import IPv4Network

from ...store import Store
from .certificates import Certificates
from .chain import Admission
from .namespace_lifecycle import NamespaceLifecycle
from .not_effective import NotEffective
from .rbac_escalation import RbacEscalation
from .service_account import ServiceAccount
from .service_addresses import ADDRESSES, ServiceAddresses
from .storage import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)


def standard(
    store: Store, *, has_tokens: bool = False, addresses: IPv4Network = ADDRESSES
) -> Admission:
    """`has_tokens`: this server signs tokens, so pods may have them; `addresses`: of services."""
    plugins = [
        NamespaceLifecycle(store),
        ServiceAccount(store, has_tokens=has_tokens),
        ServiceAddresses(store, addresses),
        DefaultStorageClass(store),
        StorageObjectInUseProtection(),
        PersistentVolumeClaimResize(store),
        NotEffective(),
        RbacEscalation(store),
        Certificates(store),
    ]
    return Admission(plugins)
