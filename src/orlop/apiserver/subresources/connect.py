"""exec, attach and portforward: a client joined to the kubelet of the pod's node.

Called for GET and POST on these subresources. The kubelet is asked in the client's own protocol and
its answer is the client's; from then on bytes go through both ways, untouched and unread. As
registry/core/pod/strategy.go: streamLocation, with the kubelet's names of the options.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web
from multidict import MultiMapping
from yarl import URL

from ...api.names import is_port
from ...api.objects import Obj
from ...forwarding import join
from ...upgrade import Taken, is_upgrade, take_over
from ..auth.bearer_tokens import without_token
from ..proxy.kubelet_dialer import KubeletClient, Upgraded
from ..registry import Call, Registry
from ..request.failures import bad_request
from ..request.http import answer
from ..request.requestinfo import flag
from .admitting import admit
from .log import container_of, node_of

# Of the API server -> of the kubelet.
_OPTIONS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
_PASSED = (
    "Connection", "Upgrade", "X-Stream-Protocol-Version", "User-Agent",
    "Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Protocol",
    "Sec-WebSocket-Extensions",
)  # fmt: skip
_MAX_WORDS = 64 << 10  # of a refusal


async def connect(
    registry: Registry, call: Call, kubelet: KubeletClient, request: web.BaseRequest
) -> web.StreamResponse:
    pod = registry.find(call).decode()
    await admit_connection(registry, call, request.query)
    path = location(pod, call, request.query)
    node_name = pod["spec"].get("nodeName")
    if not node_name:
        raise bad_request(f"pod {call.name} does not have a host assigned")
    if not is_upgrade(request):
        raise bad_request("Upgrade request required")
    node = node_of(registry, call, node_name)
    headers = passed(request)
    async with kubelet.upgrade(node, request.method, path, headers) as upgraded:
        if upgraded.code != 101:
            return await _refusal(upgraded)
        reader, writer = take_over(request)
        writer.write(upgraded.head)
        await join((reader, writer), (upgraded.reader, upgraded.writer))
    return Taken()


_KINDS = {
    "exec": "PodExecOptions",
    "attach": "PodAttachOptions",
    "portforward": "PodPortForwardOptions",
}


async def admit_connection(registry: Registry, call: Call, query: MultiMapping[str]) -> None:
    """Let admission see a CONNECT, with the options of the connection as the object."""
    kind = _KINDS[call.subresource]
    options: Obj = {"apiVersion": "v1", "kind": kind}
    options |= {name: True for name in _OPTIONS if flag(query, name)}
    if call.subresource == "portforward":
        ports = [word for text in query.getall("ports", []) for word in text.split(",")]
        options["ports"] = [int(word) for word in ports if is_port(word)]
    elif query.get("container"):
        options["container"] = query["container"]
    if call.subresource == "exec":
        options["command"] = query.getall("command", [])
    await admit(registry, call, options, ("", "v1", kind), "CONNECT")


def location(pod: Obj, call: Call, query: MultiMapping[str]) -> URL:
    """Return where the kubelet has what is asked for."""
    base = f"{call.namespace}/{call.name}"
    if call.subresource == "portforward":
        ports = [("ports", text) for text in query.getall("ports", [])]
        return URL.build(path=f"/portForward/{base}", query=ports)
    container = container_of(pod, query.get("container", ""))
    options = [(theirs, "1") for ours, theirs in _OPTIONS.items() if flag(query, ours)]
    if call.subresource == "exec":
        options += [("command", word) for word in query.getall("command", [])]
    return URL.build(path=f"/{call.subresource}/{base}/{container}", query=options)


def passed(request: web.BaseRequest) -> Mapping[str, str]:
    """Return the headers of the upgrade; several of one name become one, with commas."""
    found = {name: ", ".join(request.headers.getall(name, [])) for name in _PASSED}
    found["Sec-WebSocket-Protocol"] = without_token(found["Sec-WebSocket-Protocol"])
    return {name: text for name, text in found.items() if text} | {"Content-Length": "0"}


async def _refusal(upgraded: Upgraded) -> web.Response:
    """Answer with the kubelet's words: clients show them behind "unable to upgrade connection"."""
    length = 0
    for line in upgraded.head.decode("latin-1").split("\r\n"):
        name, _, text = line.partition(":")
        if name.lower() == "content-length":
            length = min(int(text), _MAX_WORDS)
    words = await upgraded.reader.readexactly(length)
    return answer(words, "text/plain; charset=utf-8", code=upgraded.code)
