"""Makes claims from a workload's own templates, and mounts them in its pods.

Used by the controllers of StatefulSets, JobSets and LeaderWorkerSets. What a claim is called and
who takes it along when it goes is theirs to say; a claim that is there already is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ... import errors
from ...api.kinds import PERSISTENT_VOLUME_CLAIM
from ...api.objects import Obj, is_deleting, key_of, labels_of, meta
from ...client.api import Api
from ...client.informer import Informers
from ...client.recorder import Recorder
from .pod_control import deep_copy


def claim_from(template: Obj, owner: Obj, name: str, labels: Mapping[str, str]) -> Obj:
    """Return the claim of a template under its own name, beside its owner."""
    claim = deep_copy(template)
    given = meta(claim)
    claim["apiVersion"] = PERSISTENT_VOLUME_CLAIM.api_version
    claim["kind"] = PERSISTENT_VOLUME_CLAIM.kind
    claim["metadata"] = {
        "name": name,
        "namespace": meta(owner)["namespace"],
        "labels": {**labels_of(claim), **labels},
        "annotations": given.get("annotations") or {},
    }
    claim.pop("status", None)
    return claim


def with_claims(volumes: Iterable[Obj], claims: Mapping[str, str]) -> list[Obj]:
    """Replace the template's volumes by the claims of the same name."""
    own = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim, "readOnly": False}}
        for name, claim in claims.items()
    ]
    return own + [volume for volume in volumes if volume["name"] not in claims]


def mounts(pod_spec: Obj, name: str) -> bool:
    """Return whether any container mounts the volume."""
    containers = [*(pod_spec.get("initContainers") or []), *(pod_spec.get("containers") or [])]
    return any(
        mount.get("name") == name
        for container in containers
        for mount in container.get("volumeMounts") or []
    )


Told = Callable[[Obj, str, str], tuple[str, str]]
"""For an owner, a claim's name and why it could not be made, if so: an Event's reason and words."""


def told(owner: Obj, name: str, failure: str) -> tuple[str, str]:
    if failure:
        return "FailedCreatePVC", f"Failed to create PVC {name}: {failure}"
    return "SuccessfulCreatePVC", f"Created PVC {name}"


class ClaimMaker:
    """Makes the missing claims, and tells of them in the words of the owner's kind."""

    def __init__(
        self, api: Api, informers: Informers, recorder: Recorder, told: Told = told
    ) -> None:
        self._api, self._recorder, self._told = api, recorder, told
        self.informer = informers.informer(PERSISTENT_VOLUME_CLAIM)

    async def ensure(self, owner: Obj, claims: Sequence[Obj]) -> None:
        """Make the missing claims; raise Conflict where one of the name is still being deleted."""
        for claim in claims:
            if self.is_going(claim):
                raise errors.Conflict(f"claim {key_of(claim)} is still being deleted")
            if self.informer.get(key_of(claim)) is None:
                await self._create(owner, claim)

    def is_going(self, claim: Obj) -> bool:
        """Return whether a claim of the name is still being deleted."""
        found = self.informer.get(key_of(claim))
        return found is not None and is_deleting(found)

    async def _create(self, owner: Obj, claim: Obj) -> None:
        name, namespace = meta(claim)["name"], meta(claim)["namespace"]
        try:
            made = await self._api.create(PERSISTENT_VOLUME_CLAIM, claim, namespace=namespace)
        except errors.ApiError as error:
            await self._recorder.event(owner, "Warning", *self._told(owner, name, error.message))
            raise
        await self.informer.seen(made)
        await self._recorder.event(owner, "Normal", *self._told(owner, name, ""))
