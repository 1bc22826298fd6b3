"""Creates and deletes EndpointSlices, and waits until the cache has seen it.

Called by the two controllers that write them: for Services with a selector, and for Endpoints that
somebody wrote by hand.
"""

from __future__ import annotations

from ... import errors
from ...api.kinds import ENDPOINT_SLICE
from ...api.objects import Obj, key_of, meta, uid_of
from ...client.api import Api
from ...client.informer import Informer
from ..workloads.pod_control import is_namespace_terminating


async def make(api: Api, slices: Informer, one: Obj) -> bool:
    """Create the slice; return False in a namespace that ends, where nothing more can be made."""
    try:
        made = await api.create(ENDPOINT_SLICE, one, namespace=meta(one)["namespace"])
    except errors.Forbidden as error:
        if is_namespace_terminating(error):
            return False
        raise
    await slices.seen(made)
    return True


async def remove(api: Api, slices: Informer, one: Obj) -> None:
    try:
        await api.delete(ENDPOINT_SLICE, key_of(one), uid=uid_of(one))
    except errors.NotFound:
        return
    await slices.gone(one)
