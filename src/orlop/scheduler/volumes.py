"""Finds where a pod's claims let it run, and binds the claims that waited for it.

Asked by the scheduler for each pod. As its plugins VolumeBinding and VolumeRestrictions: a pod
waits for its claims to be bound, goes where its volumes can be reached, and where a claim waits for
its first consumer, the choice of a node is what starts its binding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from ..api.objects import Key, Obj, annotations_of, is_deleting, is_terminal, key_of, meta, uid_of
from ..client import storage
from ..client.affinity import matches_term
from ..client.api import Api, WatchEvent
from ..client.informer import Informers
from ..client.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, PodClaim

BY_CLAIM = "claim"
_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
_NONE_TO_BIND = "node(s) didn't find available persistent volumes to bind"
_IN_USE = (
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)
_UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


@dataclass(slots=True)
class View:
    """The claims of one pod: what is wrong with them, or what they ask of a node."""

    trouble: str = ""
    volumes: list[Obj] = field(default_factory=list)  # bound
    waiting: list[tuple[Obj, Obj]] = field(default_factory=list)  # claims to bind, their classes
    free: Sequence[Obj] = ()  # volumes that such claims might get

    def refusal(self, node: Obj) -> str:
        """Return why the node will not do; empty where it will."""
        if not all(storage.is_reachable(volume, node) for volume in self.volumes):
            return _CONFLICT
        for claim, storage_class in self.waiting:
            if self.match(claim, node) is None and not _can_make(storage_class, node):
                return _NONE_TO_BIND
        return ""

    def match(self, claim: Obj, node: Obj) -> Obj | None:
        return storage.best_volume(claim, self.free, node)

    def chosen(self, nodes: Sequence[Obj]) -> Obj | None:
        """Return the node that was chosen for these claims before, if it still will do."""
        names = {annotations_of(claim).get(SELECTED_NODE) for claim, _ in self.waiting}
        return next((node for node in nodes if meta(node)["name"] in names), None)


def _can_make(storage_class: Obj, node: Obj) -> bool:
    if storage_class["provisioner"] == storage.NO_PROVISIONER:
        return False
    topologies = storage_class.get("allowedTopologies") or []
    return not topologies or any(_is_within(term, node) for term in topologies)


def _is_within(term: Obj, node: Obj) -> bool:
    expressions = [
        {"key": one["key"], "operator": "In", "values": one["values"]}
        for one in term.get("matchLabelExpressions") or []
    ]
    return matches_term({"matchExpressions": expressions}, node)


class PodVolumes:
    """Keeps pods' claims in view; calls `on_change` with pods that a changed object may help."""

    def __init__(
        self, api: Api, informers: Informers, *, on_change: Callable[[Iterable[Key]], None]
    ) -> None:
        self._api = api
        self._on_change = on_change
        self._pods = informers.informer(POD)
        self._pods.add_index(BY_CLAIM, storage.claim_keys)
        self._claims = informers.informer(PERSISTENT_VOLUME_CLAIM)
        self._volumes = informers.informer(PERSISTENT_VOLUME)
        self._classes = informers.informer(STORAGE_CLASS)

    async def start(self) -> None:
        for informer in (self._claims, self._volumes, self._classes):
            await informer.synced()
        self._claims.subscribe(self._claim_changed)
        self._volumes.subscribe(self._others_changed)
        self._classes.subscribe(self._others_changed)
        self._pods.subscribe(self._pod_changed)

    def stop(self) -> None:
        self._claims.unsubscribe(self._claim_changed)
        self._volumes.unsubscribe(self._others_changed)
        self._classes.unsubscribe(self._others_changed)
        self._pods.unsubscribe(self._pod_changed)

    def _claim_changed(self, event: WatchEvent, previous: Obj | None) -> None:
        self._look_again([str(key_of(event.object))])

    def _others_changed(self, event: WatchEvent, previous: Obj | None) -> None:
        if previous is None:  # one that is new may serve whoever waits
            waiting = [one for one in self._claims.list() if not storage.is_bound(one)]
            self._look_again([str(key_of(claim)) for claim in waiting])

    def _pod_changed(self, event: WatchEvent, previous: Obj | None) -> None:
        """Report pods that may use a ReadWriteOncePod claim now that another has let go of it."""
        if event.type == "DELETED" or is_terminal(event.object):
            self._look_again(storage.claim_keys(event.object))

    def _look_again(self, claims: Iterable[str]) -> None:
        for claim in claims:
            pods = self._pods.by_index(BY_CLAIM, claim)
            if pods:
                self._on_change([key_of(pod) for pod in pods])

    def view(self, pod: Obj) -> View:
        view = View()
        for claim in storage.claims_of(pod):
            view.trouble = self._look_at(pod, claim, view)
            if view.trouble:
                return view
        if view.waiting:
            view.free = self._volumes.list()
        return view

    def _look_at(self, pod: Obj, wanted: PodClaim, view: View) -> str:
        """Add one claim to the view; return what is wrong with it."""
        claim = self._claims.get(Key(meta(pod)["namespace"], wanted.name))
        if claim is None:
            if wanted.is_ephemeral:
                words = "waiting for ephemeral volume controller to create the "
                return f'{words}persistentvolumeclaim "{wanted.name}"'
            return f'persistentvolumeclaim "{wanted.name}" not found'
        if wanted.is_ephemeral and storage.not_the_owner(pod, claim):
            return storage.not_the_owner(pod, claim)
        if is_deleting(claim):
            return f'persistentvolumeclaim "{wanted.name}" is being deleted'
        if (claim.get("status") or {}).get("phase") == "Lost":
            volume = claim["spec"].get("volumeName", "")
            words = f'persistentvolumeclaim "{wanted.name}" bound to non-existent persistentvolume '
            return f'{words}"{volume}"'
        if storage.ONE_POD in claim["spec"]["accessModes"] and self._is_used(pod, claim):
            return _IN_USE
        return self._look_at_binding(claim, view)

    def _look_at_binding(self, claim: Obj, view: View) -> str:
        if storage.is_bound(claim):
            volume = self._volumes.get(Key("", claim["spec"]["volumeName"]))
            if volume is None:
                name = meta(claim)["name"]
                words = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume '
                return f'{words}"{claim["spec"]["volumeName"]}"'
            view.volumes.append(volume)
            return ""
        storage_class = self._classes.get(Key("", storage.class_of(claim)))
        if storage_class is None or not storage.waits_for_consumer(storage_class):
            return _UNBOUND
        if claim["spec"].get("volumeName"):
            return _UNBOUND  # the binder will see to it
        view.waiting.append((claim, storage_class))
        return ""

    def _is_used(self, pod: Obj, claim: Obj) -> bool:
        others = self._pods.by_index(BY_CLAIM, str(key_of(claim)))
        return any(
            one["spec"].get("nodeName") and not is_terminal(one) and uid_of(one) != uid_of(pod)
            for one in others
        )

    async def bind(self, view: View, node: Obj) -> bool:
        """Have the claims that waited bound for the node; return whether there were none."""
        for claim, _ in view.waiting:
            volume = view.match(claim, node)
            if volume is not None:
                await self._give(volume, claim)
            elif annotations_of(claim).get(SELECTED_NODE) != meta(node)["name"]:
                change = {
                    "resourceVersion": meta(claim)["resourceVersion"],
                    "annotations": {SELECTED_NODE: meta(node)["name"]},
                }
                await self._api.patch(PERSISTENT_VOLUME_CLAIM, key_of(claim), {"metadata": change})
        return not view.waiting

    async def _give(self, volume: Obj, claim: Obj) -> None:
        if (volume["spec"].get("claimRef") or {}).get("uid") == uid_of(claim):
            return
        reference = {
            "apiVersion": PERSISTENT_VOLUME_CLAIM.api_version,
            "kind": PERSISTENT_VOLUME_CLAIM.kind,
            "namespace": meta(claim)["namespace"],
            "name": meta(claim)["name"],
            "uid": uid_of(claim),
        }
        metadata = {
            "resourceVersion": meta(volume)["resourceVersion"],
            "annotations": {BOUND_BY_CONTROLLER: "yes"},
        }
        change = {"metadata": metadata, "spec": {"claimRef": reference}}
        await self._api.patch(PERSISTENT_VOLUME, key_of(volume), change)
