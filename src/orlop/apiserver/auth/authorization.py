"""Authorizes: system:masters for everything, kubelets for their node's, all for what RBAC says.

Called for every HTTP request after authentication. Its refusals are worded as upstream's, because
people search for them; an object's content does not count.
"""

from __future__ import annotations

from ...api.kinds import Kind
from ...errors import ApiError, Forbidden
from ..request.failures import forbidden
from ..request.requestinfo import RequestInfo
from .authentication import User
from .node_authorizer import NodeAuthorizer
from .rbac import Attributes, Rbac


class Authorizer:
    def __init__(self, rbac: Rbac, nodes: NodeAuthorizer | None = None) -> None:
        self._rbac = rbac
        self._nodes = nodes

    def allows(self, user: User, wanted: Attributes) -> bool:
        if user.is_master or (self._nodes is not None and self._nodes.allows(user, wanted)):
            return True
        return self._rbac.allows(user, wanted)

    def check(self, user: User, info: RequestInfo, kind: Kind | None) -> None:
        """Raise Forbidden unless the user may do what the request asks."""
        wanted = attributes(info)
        if not self.allows(user, wanted):
            raise refusal(user, wanted, kind)


def attributes(info: RequestInfo) -> Attributes:
    if not info.is_resource:
        return Attributes(info.verb, path=info.path)
    return Attributes(
        verb=info.verb,
        group=info.group,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name,
    )


def refusal(user: User, wanted: Attributes, kind: Kind | None) -> ApiError:
    who = f'User "{user.name}" cannot {wanted.verb}'
    if wanted.path:
        return Forbidden(f'forbidden: {who} path "{wanted.path}"', details={})
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    why = f'{who} resource "{wanted.full_resource}" in API group "{wanted.group}" {where}'
    if kind is None:
        kind = Kind(wanted.group, "", wanted.resource, wanted.resource, bool(wanted.namespace))
    return forbidden(kind, wanted.name, why)
