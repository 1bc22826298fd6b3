"""Keeps APIServices: one for each group and version of ours, and the truth about all others.

Run by the server as long as it serves. Level-based: on every change of an APIService, and every few
seconds while an extension's server does not answer, it compares what is with what should be. As
kube-aggregator's autoregister, crdregistration and status/remote controllers, in their words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp

from ...api import kinds
from ...api.kinds import API_SERVICE, CUSTOM_RESOURCE_DEFINITION
from ...api.objects import Key, Obj
from ...api.times import rfc3339
from ...client.api import Api
from ...errors import ApiError, Unavailable
from ...log import logger
from ...store import Expired, Watch
from ..proxy.foreign_answers import decoded, whole
from ..proxy.http_proxy import unreachable
from ..registry import Registry
from .discovered import Discovered, definitions_of, resources_of, schema_path_of
from .extension_servers import ExtensionServer, ExtensionServers

log = logger(__name__)
_BUCKET = API_SERVICE.resource
_FOLLOWED = (_BUCKET, CUSTOM_RESOURCE_DEFINITION.resource)
_AGAIN, _LATER = 2.0, 30.0  # seconds until an extension that does not answer, or does, is asked
_TIMEOUT = 5.0
MANAGED = "kube-aggregator.kubernetes.io/automanaged"
# groupPriorityMinimum of the groups that upstream orders so; those of definitions have 1000.
_PRIORITIES = {
    "": 18000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600, "autoscaling": 17500, "batch": 17400,
    "certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100,
    "rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700, "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500, "node.k8s.io": 16300,
    "discovery.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100, "resource.k8s.io": 15900,
}  # fmt: skip
_UNLISTED = ("apiregistration.k8s.io",)
_AS_OURSELVES = {
    "X-Remote-User": "system:kube-aggregator",
    "X-Remote-Group": "system:masters",
    "Accept": "application/json",
}
_LOCAL = ("Local", "Local APIServices are always available", True)


class AggregationController:
    def __init__(self, registry: Registry, api: Api, extension_servers: ExtensionServers) -> None:
        self._registry = registry
        self._store = registry.store
        self._api = api
        self._extension_servers = extension_servers

    async def run(self) -> None:
        """Follow APIServices until cancelled; no failure of one of them ends it."""
        while True:
            revision = self._store.list(_BUCKET).revision
            watches = [self._store.watch(bucket, after=revision) for bucket in _FOLLOWED]
            try:
                while not any(watch.is_closed for watch in watches):
                    await self._reconcile()
                    await _any(watches, self._patience())
                    for watch in watches:
                        watch.pending()
            except Expired:
                pass
            finally:
                for watch in watches:
                    watch.close()
            await asyncio.sleep(0)

    def _patience(self) -> float:
        extension_servers = self._extension_servers.all()
        return _AGAIN if any(not one.is_available for one in extension_servers) else _LATER

    async def _reconcile(self) -> None:
        try:
            await self.keep_own()
        except* ApiError as failed:
            log.debug("own APIServices were not written", error=failed.exceptions[0])
        await self._extension_servers.tidy()
        async with asyncio.TaskGroup() as tasks:
            for server in self._extension_servers.all():
                tasks.create_task(self._look_at(server), name=server.name)

    # Ours

    async def keep_own(self) -> None:
        """Make an APIService for what we serve, unless somebody else's has the name.

        Called once before the server is ready, too: in few turns of the disk.
        """
        wanted = {one["metadata"]["name"]: one for one in self._wanted()}
        found = {record.key.name: record.decode() for record in self._store.list(_BUCKET).records}
        async with asyncio.TaskGroup() as tasks:
            for name, obj in wanted.items():
                if name not in found:
                    tasks.create_task(self._make(obj), name=name)
            for name, obj in found.items():
                is_local = not (obj.get("spec") or {}).get("service")
                is_ours = MANAGED in (obj["metadata"].get("labels") or {})
                if is_local and is_ours and name not in wanted:
                    tasks.create_task(self._drop(name), name=name)
                elif is_local:
                    tasks.create_task(self._tell(obj, *_LOCAL), name=name)

    async def _make(self, obj: Obj) -> None:
        await self._tell(await self._api.create(API_SERVICE, obj), *_LOCAL)

    async def _drop(self, name: str) -> None:
        await self._api.delete(API_SERVICE, Key("", name))

    def _wanted(self) -> list[Obj]:
        made = []
        for group, versions in self._registry.kinds.groups().items():
            if group in _UNLISTED:
                continue
            is_own = group in _PRIORITIES or any(k.group == group for k in kinds.BUILT_IN)
            for place, version in enumerate(reversed(versions)):
                spec = {
                    "version": version,
                    "groupPriorityMinimum": _PRIORITIES.get(group, 15000 if is_own else 1000),
                    "versionPriority": (1 if group == "" else 15 + 15 * place) if is_own else 100,
                    **({"group": group} if group else {}),
                }
                labels = {MANAGED: "onstart" if is_own else "true"}
                named = {"name": f"{version}.{group}", "labels": labels}
                made.append({"metadata": named, "spec": spec})
        return made

    # Others'

    async def _look_at(self, server: ExtensionServer) -> None:
        """Find out whether its server can be asked, and what it has.

        What was known of it stays known when it cannot be asked.
        """
        record = self._store.get(_BUCKET, Key("", server.name))
        if record is None:
            return
        found = server.discovered
        try:
            found = await self._discover(server)
            told = ("Passed", "all checks passed", True)
        except _NotAvailable as why:
            told = (why.reason, str(why), False)
        self._extension_servers.discovered(server, found, is_available=told[2])
        try:
            await self._tell(record.decode(), *told)
        except ApiError as error:
            log.debug("an APIService's status was not written", name=server.name, error=error)

    async def _discover(self, server: ExtensionServer) -> Discovered:
        self._check_service(server)
        base = f"/apis/{server.group}/{server.version}"
        resources = resources_of(await self._get(server, base))
        if resources is None:
            words = f"no list of resources in the response from https://{server.host}{base}"
            raise _NotAvailable("FailedDiscoveryCheck", words)
        v3, v2 = "", dict[str, object]()
        try:
            v3 = schema_path_of(await self._get(server, "/openapi/v3"), base[1:])
            whole = await self._get(server, "/openapi/v2")
            v2 = definitions_of(whole, server.group, server.version)
        except _NotAvailable:
            pass  # not every server has them
        return Discovered(resources, v3, v2)

    def _check_service(self, server: ExtensionServer) -> None:
        key = server.service
        name = f'service/{key.name} in "{key.namespace}"'
        record = self._store.get(kinds.SERVICE.resource, key)
        if record is None:
            raise _NotAvailable("ServiceNotFound", f"{name} is not present")
        ports = [one["port"] for one in record.decode()["spec"].get("ports") or ()]
        if server.port not in ports:
            words = f"{name} is not listening on port {server.port}"
            raise _NotAvailable("ServicePortError", words)
        try:
            self._extension_servers.dialer.endpoints(key, server.port)
        except Unavailable:
            words = f"endpoints for {name} have no addresses"
            raise _NotAvailable("MissingEndpoints", words) from None

    async def _get(self, server: ExtensionServer, path: str) -> Obj:
        url = f"https://{server.host}{path}"
        try:
            async with asyncio.timeout(_TIMEOUT):
                headers = _AS_OURSELVES
                session = self._extension_servers.session(server)
                async with session.get(url, headers=headers) as reply:
                    data = await whole(reply)
                    if reply.status != 200:
                        words = f"bad status from {url}: {reply.status}"
                        raise _NotAvailable("FailedDiscoveryCheck", words)
            answer = decoded(data)
        except (aiohttp.ClientError, OSError, TimeoutError, ApiError, ValueError) as error:
            why = "context deadline exceeded" if isinstance(error, TimeoutError) else (
                unreachable(error).message.partition(": ")[2]
            )  # fmt: skip
            words = f"failing or missing response from {url}: {why}"
            raise _NotAvailable("FailedDiscoveryCheck", words) from error
        return answer if isinstance(answer, dict) else {}

    async def _tell(self, obj: Obj, reason: str, message: str, is_available: bool) -> None:
        status = "True" if is_available else "False"
        conditions = (obj.get("status") or {}).get("conditions") or []
        former = next((one for one in conditions if one["type"] == "Available"), None)
        since = rfc3339(self._registry.now())
        if former is not None and former["status"] == status:
            since = former["lastTransitionTime"]
        condition: Mapping[str, str] = {
            "type": "Available",
            "status": status,
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        }
        if former != condition:
            others = [one for one in conditions if one["type"] != "Available"]
            changed = {**obj, "status": {"conditions": [*others, condition]}}
            changed["metadata"] = {**obj["metadata"]}
            changed["metadata"].pop("resourceVersion", None)
            await self._api.update(API_SERVICE, changed, subresource="status")


async def _any(watches: list[Watch], patience: float) -> None:
    """Wait until one of the watches has something, or that many seconds are over."""
    waiting = [
        asyncio.create_task(watch.wait(), name="a watch of APIServices") for watch in watches
    ]
    try:
        await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


class _NotAvailable(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
