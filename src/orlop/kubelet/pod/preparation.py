"""Prepares a bound pod until its folder is ready: images, ConfigMaps, Secrets, tokens, plan.

Run by a pod's worker before it asks the engine for a machine. It raises ImageError and Refusal with
the words that go onto the pod, and of the API it writes just Events. Cancelling it at any moment
leaves nothing behind but files that the next try replaces.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ... import errors
from ...agent.linux.untrusted_files import read_inside
from ...api.kinds import SECRET
from ...api.objects import Obj, meta
from ...client.api import Api
from ...network.addresses import PodAddresses
from ...runtime.images import Image
from ...slurm.translate.job import mpi_launcher
from ...slurm.translate.ranks import rank_set
from ...wellknown import HOST_IMAGE
from ..network.view import NetworkView
from ..node.registration import Nodes
from ..planning.network import has_own_network
from ..planning.plan import (
    Inputs,
    Site,
    check,
    check_ephemeral,
    make_ephemeral,
    make_plan,
    runs_on_host,
)
from ..planning.pmi import Pmi
from ..planning.refusal import mount_refusal
from ..planning.seccomp_profiles import Profiles, profile_names, read_profiles
from ..planning.source_reader import SourceReader
from ..planning.users import Accounts
from ..planning.volumes import unmet_options
from .events import Events
from .folder import agent_token, planned_of
from .pods import PodState

ACCOUNTS = 1 << 20  # bytes of an image's /etc/passwd
PROGRESS_INTERVAL = 10.0  # seconds between two Events of one pull


class ImageStore(Protocol):
    """The part of runtime.images.Images that is used here."""

    async def ensure(
        self,
        image: str,
        *,
        policy: str = "IfNotPresent",
        pull_secrets: Sequence[Obj] = (),
        progress: Callable[[int, int], None] | None = None,
        holder: Path | None = None,
    ) -> Image: ...


class PullFailure(errors.ImageError):
    """An image that one container cannot have."""

    def __init__(self, container: str, image: str, error: errors.ImageError) -> None:
        super().__init__(error.reason, error.message)
        self.container = container
        self.image = image


@dataclass(frozen=True, slots=True)
class Preparation:
    """Prepares pods with all that it needs; `prepare` does one pod."""

    api: Api
    images: ImageStore
    nodes: Nodes
    events: Events
    site: Site
    token_key: bytes
    addresses: PodAddresses
    view: NetworkView
    pmi: Pmi

    async def prepare(self, pod: Obj, state: PodState) -> None:
        """Make the pod's folder ready.

        1. Refuse what cannot be done; tell what will not be.
        2. Claims, ConfigMaps, Secrets and tokens; then images, all at the same time.
        3. The plan, then the folder.
        """
        wishes = check(pod)  # 1
        sources = await SourceReader(self.api).sources(pod)  # 2
        self._warn(pod, state, [*wishes, *unmet_options(sources)])
        images, roots = await asyncio.gather(
            self._images(pod, state), self._image_volumes(pod, state)
        )
        sources = replace(sources, image_roots=roots)
        accounts = {name: _accounts(image) for name, image in images.items()}
        allocatable = self.nodes.allocatable(pod["spec"]["nodeName"])
        inputs = Inputs(
            images,
            allocatable,
            sources,
            accounts,
            pod_ip=self._address(pod, state),
            policy=self.view.policy_of(pod),
            services=self.view.services_for(pod),
            profiles=await self._profiles(pod),
            launcher=mpi_launcher(pod),
            ranks=await self._ranks(pod, images),
        )
        plan = make_plan(pod, self.site, inputs)  # 3
        await asyncio.to_thread(state.folder.write, plan, agent_token(self.token_key, state.uid))
        state.images, state.pod_ip = planned_of(plan)

    async def _ranks(self, pod: Obj, images: Mapping[str, Image]) -> Obj | None:
        """Return how its main container is run once for every task; None where it is run once."""
        found = rank_set(pod)
        if found is None:
            return None
        [container] = [one for one in pod["spec"]["containers"] if one["name"] == found.container]
        mpi = "" if found.mpi else await self.pmi.of_image(images[container["image"]].rootfs)
        return {**found.planned(mpi), "starter": self.site.starter}

    async def _profiles(self, pod: Obj) -> Profiles:
        """Return the profiles of this host that the pod names; most name none, and wait for no
        thread.
        """
        names = profile_names(pod)
        return await asyncio.to_thread(read_profiles, self.site.seccomp, names) if names else {}

    def _address(self, pod: Obj, state: PodState) -> str:
        if self.site.network is None or not has_own_network(pod):
            return ""
        return self.addresses.allocate(state.uid)

    async def ephemeral(self, pod: Obj, state: PodState, container: Obj) -> Obj:
        """Return the plan of a container that is added to a running pod."""
        wishes = check_ephemeral(container)
        if wishes:
            words = f"container {container['name']} runs without: " + "; ".join(wishes)
            self.events.tell(pod, "Warning", "Unsupported", words)
        secrets = await self._pull_secrets(pod)
        image = await self._image(pod, state, container, secrets)
        sources = await SourceReader(self.api).sources(pod)
        name = container["image"]
        inputs = Inputs(
            {name: image},
            self.nodes.allocatable(pod["spec"]["nodeName"]),
            sources,
            {name: _accounts(image)},
            pod_ip=state.pod_ip,
            services=self.view.services_for(pod),
            profiles=await self._profiles(pod),
        )
        return make_ephemeral(pod, container, self.site, inputs)

    def _warn(self, pod: Obj, state: PodState, wishes: list[str]) -> None:
        if wishes and not state.warned:
            state.warned = True
            words = "the pod runs without: " + "; ".join(wishes)
            self.events.tell(pod, "Warning", "Unsupported", words)

    # Images

    async def _images(self, pod: Obj, state: PodState) -> dict[str, Image]:
        secrets = await self._pull_secrets(pod)
        wanted = {c["image"]: c for c in reversed(_containers(pod))}
        pulls = (self._image(pod, state, c, secrets) for c in wanted.values())
        found = await asyncio.gather(*pulls)
        return dict(zip(wanted, found, strict=True))

    async def _image(self, pod: Obj, state: PodState, container: Obj, secrets: list[Obj]) -> Image:
        name = container["image"]
        if container["name"] and runs_on_host(pod, name):
            name = HOST_IMAGE
        pull = _Pull(self.events, pod, container)
        policy = container.get("imagePullPolicy") or "IfNotPresent"
        try:
            image = await self.images.ensure(
                name,
                policy=policy,
                pull_secrets=secrets,
                progress=pull.progress,
                holder=state.folder.path,
            )
        except errors.ImageError as error:
            raise PullFailure(container["name"], name, error) from error
        pull.finish()
        return image

    async def _image_volumes(self, pod: Obj, state: PodState) -> dict[str, str]:
        """Return where the images are that the pod mounts, by its volumes' names."""
        wanted = [one for one in pod["spec"].get("volumes") or [] if one.get("image")]
        if not wanted:
            return {}
        secrets = await self._pull_secrets(pod)
        found = {}
        for volume in wanted:
            source = volume["image"]
            container = {
                "name": "",
                "image": source.get("reference", ""),
                "imagePullPolicy": source.get("pullPolicy"),
            }
            if container["image"] == HOST_IMAGE:
                raise mount_refusal(volume["name"], "the node's own root is no image to mount")
            image = await self._image(pod, state, container, secrets)
            found[volume["name"]] = str(image.rootfs)
        return found

    async def _pull_secrets(self, pod: Obj) -> list[Obj]:
        names = [item.get("name", "") for item in pod["spec"].get("imagePullSecrets") or []]
        found = await SourceReader(self.api).fetch(SECRET, meta(pod)["namespace"], names)
        missing = [name for name in names if name not in found]
        if missing:
            words = f"Unable to retrieve some image pull secrets ({', '.join(missing)})"
            message = f"{words}; attempting to pull the image may not succeed."
            self.events.tell(pod, "Warning", "FailedToRetrieveImagePullSecret", message)
        return list(found.values())


class _Pull:
    """Tells of a pull that really takes place; of a cached image there is nothing to tell."""

    def __init__(self, events: Events, pod: Obj, container: Obj) -> None:
        self._events = events
        self._pod = pod
        self._image = container["image"]
        self._began = 0.0
        self._told = 0.0
        self._bytes = 0

    def progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        if not self._began:
            self._began = self._told = now
            self._events.tell(self._pod, "Normal", "Pulling", f'Pulling image "{self._image}"')
        elif now - self._told >= PROGRESS_INTERVAL and done < total:
            self._told = now
            self._events.tell(self._pod, "Normal", "Pulling", self._words(done, total))
        self._bytes = total

    def _words(self, done: int, total: int) -> str:
        part = f"{done * 100 // total}% of {total / 1e6:.0f} MB"
        return f'Pulling image "{self._image}": {part} in {self._told - self._began:.0f}s'

    def finish(self) -> None:
        if self._began:
            seconds = time.monotonic() - self._began
            words = f'Successfully pulled image "{self._image}" in {seconds:.3g}s'
            size = f". Image size: {self._bytes} bytes." if self._bytes else "."
            self._events.tell(self._pod, "Normal", "Pulled", words + size)


def _containers(pod: Obj) -> list[Obj]:
    spec = pod["spec"]
    return [*(spec.get("initContainers") or []), *spec["containers"]]


def _accounts(image: Image) -> Accounts:
    if image.rootfs is None:
        return Accounts()
    return Accounts(_text(image.rootfs, "etc/passwd"), _text(image.rootfs, "etc/group"))


def _text(rootfs: Path, name: str) -> str:
    """Read a small file of an image, whose maker may have put anything in its place."""
    return read_inside(str(rootfs), name, ACCOUNTS)
