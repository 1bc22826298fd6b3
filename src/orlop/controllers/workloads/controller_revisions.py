"""ControllerRevisions: the past templates of a StatefulSet or DaemonSet.

Called by both controllers at the start of a reconcile. `kubectl rollout history` and `undo` read
what is kept here, so the data is a patch that brings the template back. As
pkg/controller/history; Deployments keep theirs in ReplicaSets instead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ... import errors
from ...api import selectors
from ...api.kinds import CONTROLLER_REVISION, Kind
from ...api.objects import Obj, is_controlled_by, key_of, labels_of, meta, owner_reference, uid_of
from ...client.api import Api
from ...client.informer import Informers
from ..framework.controller import BY_CONTROLLER, by_controller
from .controller_ref import Claims
from .deployment.revisions import template_hash
from .pod_control import deep_copy

HASH_LABEL = "controller.kubernetes.io/hash"
REVISION_LABEL = "controller-revision-hash"  # on pods: the name of their revision


class Revisions(NamedTuple):
    """All revisions of an owner, oldest first; `update` is that of its present template."""

    update: Obj
    all: list[Obj]

    def named(self, name: str) -> Obj | None:
        return next((one for one in self.all if meta(one)["name"] == name), None)


def data_of(owner: Obj) -> Obj:
    """Return what a revision keeps: the patch that makes the template what it was."""
    return {"spec": {"template": {**deep_copy(owner["spec"]["template"]), "$patch": "replace"}}}


def template_of(revision: Obj) -> Obj:
    template: Obj = deep_copy(revision["data"]["spec"]["template"])
    template.pop("$patch", None)
    return template


class History:
    """The revisions that owners of one kind control."""

    def __init__(self, api: Api, informers: Informers, owner: Kind) -> None:
        self._api = api
        self._revisions = informers.informer(CONTROLLER_REVISION)
        self._revisions.add_index(BY_CONTROLLER, by_controller)
        self._claims = Claims(api, self._revisions, owner)

    async def sync(self, owner: Obj, collisions: int) -> Revisions:
        """Return the owner's revisions; the latest is that of its present template, made if need
        be.

        Raises errors.AlreadyExists where another has the name: try again with one collision more.
        """
        selector = selectors.from_structure(owner["spec"].get("selector"))
        known = sorted(await self._claims.claim(owner, selector), key=lambda one: one["revision"])
        wanted = data_of(owner)
        same = [one for one in known if one["data"] == wanted]
        latest = known[-1]["revision"] if known else 0
        if not same:
            update = await self._create(owner, wanted, latest + 1, collisions)
            return Revisions(update, [*known, update])
        update = same[-1]
        if update["revision"] != latest:
            # The template of an earlier time is back: its revision becomes the latest.
            change = {"revision": latest + 1}
            update = await self._api.patch(CONTROLLER_REVISION, key_of(update), change)
            await self._revisions.seen(update)
        others = [one for one in known if uid_of(one) != uid_of(update)]
        return Revisions(update, [*others, update])

    async def trim(self, owner: Obj, revisions: Revisions, live: Collection[str]) -> None:
        """Delete the oldest unused revisions beyond revisionHistoryLimit."""
        limit = owner["spec"].get("revisionHistoryLimit", 10)
        unused = [one for one in revisions.all if meta(one)["name"] not in live]
        for one in unused[: max(len(unused) - limit, 0)]:
            try:
                await self._api.delete(CONTROLLER_REVISION, key_of(one), uid=uid_of(one))
            except errors.NotFound:
                continue
            await self._revisions.gone(one)

    async def _create(self, owner: Obj, data: Obj, number: int, collisions: int) -> Obj:
        hashed = template_hash(data, collisions)
        name = f"{meta(owner)['name'][:223]}-{hashed}"
        revision = {
            "apiVersion": CONTROLLER_REVISION.api_version,
            "kind": CONTROLLER_REVISION.kind,
            "metadata": {
                "name": name,
                "namespace": meta(owner)["namespace"],
                "labels": {**labels_of(owner["spec"]["template"]), HASH_LABEL: hashed},
                "annotations": dict(meta(owner).get("annotations") or {}),
                "ownerReferences": [owner_reference(owner)],
            },
            "data": data,
            "revision": number,
        }
        try:
            made = await self._api.create(
                CONTROLLER_REVISION, revision, namespace=meta(owner)["namespace"]
            )
        except errors.AlreadyExists:
            made = await self._api.get(CONTROLLER_REVISION, key_of(revision))
            if not is_controlled_by(made, owner) or made["data"] != data:
                raise
        await self._revisions.seen(made)
        return made


def revision_name(pod: Obj) -> str:
    return labels_of(pod).get(REVISION_LABEL, "")


def count_of(pods: Sequence[Obj], revision: str) -> int:
    return sum(revision_name(pod) == revision for pod in pods)
