"""Fetches what a pod's variables and volumes name: ConfigMaps, Secrets, tokens, claims.

Used before a plan is made, and again whenever something of it changes while the pod runs. What is
not there is simply absent from the answer, except for claims: a pod does not start before they are
bound. The requests for tokens are what it writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ... import errors
from ...api.kinds import (
    CLUSTER_TRUST_BUNDLE,
    CONFIG_MAP,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SECRET,
    SERVICE_ACCOUNT,
    Kind,
)
from ...api.objects import Key, Obj, annotations_of, is_deleting, is_terminal, key_of, meta, uid_of
from ...client import storage
from ...client.api import Api
from ...client.storage import PodClaim
from ...wellknown import JOB_ID
from .refusal import Refusal, mount_refusal
from .sources import Sources, TokenWish, references, wants_trust_bundles


@dataclass(frozen=True, slots=True)
class SourceReader:
    api: Api

    async def sources(
        self, pod: Obj, tokens: Mapping[TokenWish, str] | None = None, *, has_claims: bool = True
    ) -> Sources:
        """Return all that the pod names; `tokens` are good still, and not asked for again."""
        named, namespace = references(pod), meta(pod)["namespace"]
        kept = {wish: token for wish, token in (tokens or {}).items() if wish in named.tokens}
        wanted = list(storage.claims_of(pod)) if has_claims else []
        bundles = await self._trust_bundles() if wants_trust_bundles(pod) else ()
        if not any(named) and not wanted:
            return Sources(namespace, trust_bundles=bundles)
        config_maps, secrets, issued, volumes = await asyncio.gather(
            self.fetch(CONFIG_MAP, namespace, named.config_maps),
            self.fetch(SECRET, namespace, named.secrets),
            asyncio.gather(*(self._token(pod, wish) for wish in named.tokens if wish not in kept)),
            asyncio.gather(*(self._volume(pod, claim) for claim in wanted)),
        )
        return Sources(
            namespace,
            config_maps,
            secrets,
            {**kept, **dict(issued)},
            dict(volumes),
            trust_bundles=bundles,
        )

    async def _trust_bundles(self) -> Sequence[Obj]:
        """Return all of the cluster; a volume says which of them it wants by names or labels."""
        try:
            return (await self.api.list(CLUSTER_TRUST_BUNDLE)).items
        except errors.ApiError as error:
            words = f"failed to list ClusterTrustBundles: {error.message}"
            raise Refusal(words, event="FailedMount") from error

    async def fetch(self, kind: Kind, namespace: str, names: Iterable[str]) -> dict[str, Obj]:
        """Return the objects of those names that exist."""
        wanted = sorted(set(names))
        found = await asyncio.gather(*(self._get(kind, Key(namespace, name)) for name in wanted))
        return {name: obj for name, obj in zip(wanted, found, strict=True) if obj is not None}

    async def _get(self, kind: Kind, key: Key) -> Obj | None:
        try:
            return await self.api.get(kind, key)
        except errors.NotFound:
            return None

    async def _token(self, pod: Obj, wish: TokenWish) -> tuple[TokenWish, str]:
        """Request a token that is bound to the pod: it ends with it."""
        metadata = meta(pod)
        reference = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"]}
        spec: Obj = {
            "audiences": [wish.audience] if wish.audience else [],
            "expirationSeconds": wish.seconds,
            "boundObjectRef": {**reference, "uid": metadata["uid"]},
        }
        account = Key(metadata["namespace"], pod["spec"].get("serviceAccountName") or "default")
        try:
            answer = await self.api.create_subresource(
                SERVICE_ACCOUNT, account, "token", {"spec": spec}
            )
        except errors.ApiError as error:
            words = f"failed to fetch token of service account {account}: {error.message}"
            raise Refusal(words, event="FailedMount") from error
        return wish, answer["status"]["token"]

    # Claims

    async def _volume(self, pod: Obj, wanted: PodClaim) -> tuple[str, Obj]:
        """Return the volume that a claim is bound to, by the name of the pod's volume."""
        key = Key(meta(pod)["namespace"], wanted.name)
        claim = await self._get(PERSISTENT_VOLUME_CLAIM, key)
        why = _not_usable(pod, wanted, claim, key)
        if claim is None or why:
            raise mount_refusal(wanted.volume, f"error processing PVC {key}: {why}")
        if storage.ONE_POD in claim["spec"]["accessModes"]:
            await self._alone(pod, claim, wanted)
        name = claim["spec"]["volumeName"]
        volume = await self._get(PERSISTENT_VOLUME, Key("", name))
        if volume is None:
            words = f'error processing PVC {key}: failed to fetch PV {name}: "{name}" not found'
            raise mount_refusal(wanted.volume, words)
        holder = (volume["spec"].get("claimRef") or {}).get("uid")
        if holder != uid_of(claim):  # whoever may write claims may write any name there
            words = f"error processing PVC {key}: PV {name} is not bound to this claim"
            raise mount_refusal(wanted.volume, words)
        return wanted.volume, volume

    async def _alone(self, pod: Obj, claim: Obj, wanted: PodClaim) -> None:
        """Refuse a ReadWriteOncePod claim that another pod uses: the scheduler checks it, but not
        everyone asks the scheduler.
        """
        for other in (await self.api.list(POD, meta(pod)["namespace"])).items:
            is_rival = other["spec"].get("nodeName") and not is_terminal(other)
            if uid_of(other) == uid_of(pod) or not is_rival:
                continue
            if str(key_of(claim)) in storage.claim_keys(other) and _was_first(other, pod):
                words = f"PVC {key_of(claim)} is ReadWriteOncePod and used by pod {key_of(other)}"
                raise mount_refusal(wanted.volume, words)


def _not_usable(pod: Obj, wanted: PodClaim, claim: Obj | None, key: Key) -> str:
    if claim is None:
        return f'failed to fetch PVC from API server: persistentvolumeclaim "{key.name}" not found'
    if is_deleting(claim):
        return "PVC is being deleted"
    if wanted.is_ephemeral and storage.not_the_owner(pod, claim):
        return storage.not_the_owner(pod, claim)
    is_bound = (claim.get("status") or {}).get("phase") == "Bound" and storage.is_bound(claim)
    return "" if is_bound else "PVC is not bound"


def _was_first(other: Obj, pod: Obj) -> bool:
    """Return whether the other pod was first: one that has a job keeps it; of two that ask at once
    the older gets it.
    """
    return JOB_ID in annotations_of(other) or _age(other) <= _age(pod)


def _age(pod: Obj) -> tuple[str, str]:
    return str(meta(pod).get("creationTimestamp") or ""), uid_of(pod)
