"""Lists the plugins that are on, in upstream's order.

Called once, by the server. A new plugin is a module beside this one and a line here.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network

from ...api.schema import Schema
from ...store import Store
from ..auth.authorization import Authorizer
from ..crd.served import ServedKinds
from ..proxy.webhook_client import WebhookClient
from .chain import Admission, Plugin
from .default_tolerations import DefaultTolerations
from .namespace_lifecycle import NamespaceLifecycle
from .not_effective import NotEffective
from .policies import MutatingPolicies, ValidatingPolicies
from .policies.evaluation import Evaluations
from .policies.params import Params
from .priority import Priority
from .quota.limit_ranger import LimitRanger
from .quota.resource_quota import ResourceQuota
from .rights.certificates import Certificates
from .rights.node_restriction import NodeRestriction
from .rights.pod_security import PodSecurity, PodSecurityConfig
from .rights.rbac_escalation import RbacEscalation
from .runtime_class import RuntimeClass
from .service_account import ServiceAccount
from .service_addresses import ADDRESSES, ServiceAddresses, ServiceAddressesConfirmed
from .slurm_site import SlurmSite
from .storage import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)
from .taint_nodes import TaintNodes
from .webhooks import MutatingWebhooks, ValidatingWebhooks
from .webhooks.asking import Asker
from .written_back import WrittenBack


@dataclass(frozen=True, slots=True)
class Means:
    """The parts that plugins need beside the store, where users' programs have a say."""

    kinds: ServedKinds
    schema: Schema
    webhooks: WebhookClient
    authorizer: Authorizer


def standard(
    store: Store,
    *,
    has_tokens: bool = False,
    addresses: IPv4Network = ADDRESSES,
    means: Means | None = None,
    pod_security: PodSecurityConfig | None = None,
) -> Admission:
    """Make the standard chain of plugins.

    `has_tokens`: this server signs tokens, so pods may have them; `addresses`: of services.
    """
    given = ServiceAddresses(store, addresses)
    plugins = [
        NamespaceLifecycle(store),
        LimitRanger(store),
        ServiceAccount(store, has_tokens=has_tokens),
        TaintNodes(),
        WrittenBack(),
        PodSecurity(store, pod_security),
        Priority(store),
        DefaultTolerations(),
        RuntimeClass(store),
        given,
        DefaultStorageClass(store),
        StorageObjectInUseProtection(),
        PersistentVolumeClaimResize(store),
        NotEffective(),
        NodeRestriction(store),
        RbacEscalation(store),
        Certificates(store),
        SlurmSite(),
        *(_programs(store, means) if means is not None else ()),
        ResourceQuota(store),  # what it charges is made
        ServiceAddressesConfirmed(given),  # the last: nothing waits from here to the store
    ]
    return Admission(plugins)


def _programs(store: Store, means: Means) -> list[Plugin]:
    """Make the plugins that users have written; they are asked after our own plugins."""
    asker = Asker(store, means.kinds, means.webhooks, means.authorizer)
    evaluations = Evaluations(asker, Params(store, means.kinds), means.authorizer)
    return [
        MutatingPolicies(store, evaluations, means.schema, means.kinds),
        MutatingWebhooks(store, asker, means.schema),
        ValidatingPolicies(store, evaluations),
        ValidatingWebhooks(store, asker),
    ]
