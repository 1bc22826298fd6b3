"""Shows the router of Ingresses as a pod and a service, by which port-forward and pods find it.

A control loop that follows Ingresses: while there is one of ours, kube-system has the service
`orlop-ingress` and a mirror pod behind it, which is made anew when somebody deletes it. The pod is
the router itself, in this process: it costs no job, asks for nothing and runs no container.
"""

from __future__ import annotations

from .. import errors
from ..api.kinds import INGRESS, INGRESS_CLASS, NODE, POD, SERVICE, Kind
from ..api.objects import Key, Obj, annotations_of, is_deleting, labels_of, meta, uid_of
from ..api.times import rfc3339
from ..client.api import Api
from ..client.clock import Clock
from ..client.informer import Informers
from ..controllers.framework.controller import Loop, Result
from ..controllers.framework.status import condition, merge_diff, with_condition
from ..kubelet.network.mirror_ports import MirrorPorts
from ..kubelet.network.view import Place
from ..wellknown import ENGINE_LABEL, HOST_IMAGE, MIRROR, STANDS_FOR
from .ingress import IngressRouter
from .ingress_listeners import HTTP, HTTPS
from .routing import SERVICE_KEY, is_ours

LABELS = {"app.kubernetes.io/name": SERVICE_KEY.name, "app.kubernetes.io/managed-by": "orlop"}
PORTS = (("http", HTTP), ("https", HTTPS))
CONTAINER = "router"
READY = ("Initialized", "ContainersReady", "Ready", "PodScheduled")


class IngressPod(Loop[Key]):
    """The loop; `address` is this host's, at which compute nodes reach it."""

    name = "ingress-pod"
    workers = 1

    def __init__(
        self,
        api: Api,
        informers: Informers,
        router: IngressRouter,
        mirrors: MirrorPorts,
        *,
        address: str,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._router, self._mirrors, self._address = router, mirrors, address
        self._ingresses = informers.informer(INGRESS)
        self._classes = informers.informer(INGRESS_CLASS)
        self._nodes = informers.informer(NODE)
        self._pods = informers.informer(POD)
        self._services = informers.informer(SERVICE)
        self._offered = ""  # the uid of the pod that we stand for
        for informer in (self._ingresses, self._classes, self._nodes):
            self.watch(informer, lambda event, _: [SERVICE_KEY])
        for informer in (self._pods, self._services):
            self.watch(informer, lambda event, _: [SERVICE_KEY] * _is_it(event.object))

    async def reconcile(self, key: Key) -> Result:
        classes = self._classes.list()
        is_wanted = any(
            is_ours(one, classes) and not is_deleting(one) for one in self._ingresses.list()
        )
        await self._keep_service(self._services.get(key), is_wanted)
        pod = self._pods.get(key)
        if pod is not None and not is_made_by_us(pod):
            self.log.warning("somebody else's pod has the name of the router's", pod=str(key))
            return Result.done()
        if pod is not None and (is_deleting(pod) or not is_wanted or self._is_lost(pod)):
            self._mirrors.withdraw(uid_of(pod))
            await self._delete(POD, pod)
            pod = None
        node = self._node() if is_wanted else ""
        if pod is None and node:
            pod = await self._create(POD, pod_object(node))
        if pod is not None:
            await self._show(pod)
        return Result.done()

    async def _keep_service(self, service: Obj | None, is_wanted: bool) -> None:
        """Keep our service as wanted; one of another's making is let be, whatever it leads to."""
        if service is None and is_wanted:
            await self._create(SERVICE, service_object())
        elif service is not None and not is_wanted and is_made_by_us(service):
            await self._delete(SERVICE, service)

    def _is_lost(self, pod: Obj) -> bool:
        """Return whether the pod's node is gone; the pod can be on any."""
        return self._nodes.get(Key("", pod["spec"]["nodeName"])) is None

    def _node(self) -> str:
        """Return the first of our nodes by name, so that it stays; the control plane has none."""
        ours = [meta(one)["name"] for one in self._nodes.list() if ENGINE_LABEL in labels_of(one)]
        return min(ours, default="")

    async def _create(self, kind: Kind, wanted: Obj) -> Obj | None:
        try:
            made = await self.api.create(kind, wanted, namespace=SERVICE_KEY.namespace)
        except errors.AlreadyExists:
            return None  # of somebody else's; or the cache is behind, and we come again
        await self.informers.informer(kind).seen(made)
        return made

    async def _delete(self, kind: Kind, known: Obj) -> None:
        try:
            await self.api.delete(kind, SERVICE_KEY, grace=0, uid=uid_of(known))
        except (errors.NotFound, errors.Conflict):
            pass  # it is gone, or is another by now
        await self.informers.informer(kind).gone(known)

    async def _show(self, pod: Obj) -> None:
        """Offer the router as the pod, and write the pod's status."""
        endpoint = await self._router.opened()
        tcp = {str(port): real for port, real in endpoint.ports.items()}
        place = Place(self._address, endpoint.notice, tcp)
        if self._offered and self._offered != uid_of(pod):
            self._mirrors.withdraw(self._offered)
        self._offered = uid_of(pod)
        address = await self._mirrors.offer(pod, self._router.connect, place)
        new = pod_status(pod, address, self._address, self.clock.now())
        patch = merge_diff(pod.get("status") or {}, new)
        if patch:
            change = {"status": patch}
            await self._pods.seen(
                await self.api.patch(POD, SERVICE_KEY, change, subresource="status")
            )


def _is_it(found: Obj) -> bool:
    names = meta(found)
    return Key(names.get("namespace") or "", names["name"]) == SERVICE_KEY


def is_made_by_us(found: Obj) -> bool:
    return STANDS_FOR in annotations_of(found)


def service_object() -> Obj:
    ports = [{"name": name, "port": port, "targetPort": name} for name, port in PORTS]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata({}),
        "spec": {"selector": LABELS, "ports": ports},
    }


def pod_object(node: str) -> Obj:
    container = {
        "name": CONTAINER,
        "image": HOST_IMAGE,
        "command": ["orlop", "up"],
        "ports": [{"name": name, "containerPort": port} for name, port in PORTS],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata({MIRROR: SERVICE_KEY.name}),
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,  # there is nothing of its own to end
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        },
    }


def _metadata(annotations: dict[str, str]) -> Obj:
    words = "the router of Ingresses, in the control plane; no job and no container"
    names = {"name": SERVICE_KEY.name, "namespace": SERVICE_KEY.namespace}
    return {**names, "labels": LABELS, "annotations": {**annotations, STANDS_FOR: words}}


def pod_status(pod: Obj, address: str, host: str, now: float) -> Obj:
    former = pod.get("status") or {}
    conditions = former.get("conditions") or []
    for kind in READY:
        conditions = with_condition(conditions, condition(kind, "True", "", "", now))
    started = former.get("startTime") or rfc3339(now)
    container = {
        "name": CONTAINER,
        "image": HOST_IMAGE,
        "imageID": "",
        "containerID": f"orlop://{uid_of(pod)}.0",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": started}},
        "lastState": {},
    }
    return {
        **former,
        "phase": "Running",
        "conditions": conditions,
        "containerStatuses": [container],
        "startTime": started,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": host,
        "hostIPs": [{"ip": host}],
    }
