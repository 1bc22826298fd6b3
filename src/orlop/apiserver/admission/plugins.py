"""Which plugins are on, in upstream's order.

Called once, by the server. A new plugin is a module beside this one and a line here.
"""

from __future__ import annotations

from ...store import Store
from .chain import Admission
from .namespace_lifecycle import NamespaceLifecycle
from .not_effective import NotEffective
from .service_account import ServiceAccount
from .service_addresses import ServiceAddresses


def standard(store: Store) -> Admission:
    plugins = [NamespaceLifecycle(store), ServiceAccount(), ServiceAddresses(store), NotEffective()]
    return Admission(plugins)
