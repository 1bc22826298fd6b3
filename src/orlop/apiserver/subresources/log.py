"""log: what a container has printed, streamed from the kubelet of the pod's node.

Called for GET on `pods/<name>/log`. Nothing is kept here: bytes go through as they come, and when
the client goes the kubelet hears of it. As registry/core/pod/strategy.go: LogLocation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiohttp import StreamReader

from ...api import kinds
from ...api.objects import Key, Obj
from ...errors import InternalError
from ..objects.conversion import bucket_of
from ..proxy.kubelet_dialer import KubeletClient
from ..registry import Call, Registry
from ..request.failures import bad_request, from_backend


@asynccontextmanager
async def open_log(
    registry: Registry, call: Call, kubelet: KubeletClient, query: Mapping[str, str]
) -> AsyncIterator[StreamReader | None]:
    """Open the container's output; None for a pod that has no node yet."""
    pod = registry.find(call).decode()
    container = container_of(pod, query.get("container", ""))
    node_name = pod["spec"].get("nodeName")
    if not node_name:
        yield None
        return
    node = node_of(registry, call, node_name)
    rest = {name: value for name, value in query.items() if name != "container"}
    path = f"/containerLogs/{call.namespace}/{call.name}/{container}"
    async with kubelet.get(node, path, rest) as response:
        if not 200 <= response.status < 300:
            text = (await response.content.read(4096)).decode(errors="replace").strip()
            raise from_backend(response.status, text, call.kind, call.name)
        yield response.content


def node_of(registry: Registry, call: Call, name: str) -> Obj:
    """Return the node that a pod is bound to."""
    node = registry.store.get(bucket_of(kinds.NODE), Key("", name))
    if node is None:
        raise InternalError(f'node "{name}" of pod "{call.name}" is not there any more')
    return node.decode()


def container_of(pod: Obj, asked: str) -> str:
    """Return the container whose log is meant; BadRequest, in upstream's words, if unclear."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    ordinary = [container["name"] for container in spec.get("containers") or []]
    init = [container["name"] for container in spec.get("initContainers") or []]
    ephemeral = [container["name"] for container in spec.get("ephemeralContainers") or []]
    if asked:
        if asked not in (*ordinary, *init, *ephemeral):
            raise bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    if len(ordinary) == 1:
        return str(ordinary[0])
    choice = f", choose one of: [{' '.join(ordinary)}]" if ordinary else ""
    if init:
        choice += f" or one of the init containers: [{' '.join(init)}]"
    raise bad_request(f"a container name must be specified for pod {name}{choice}")
