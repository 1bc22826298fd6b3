"""Has the images of a pod pulled, with the Secrets that the pod names, and tells how that goes.

Used where a pod or one of its ephemeral containers is prepared. An image that a container cannot
have is a PullFailure with that container's name; of a cached image there is nothing to tell.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ... import errors
from ...api.kinds import SECRET
from ...api.objects import Obj, meta
from ...client.api import Api
from ...runtime.images import Image
from ...wellknown import HOST_IMAGE
from ..planning.plan import runs_on_host
from ..planning.refusal import mount_refusal
from ..planning.source_reader import SourceReader
from ..pod.events import Events
from ..pod.pods import PodState

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
class ImagePuller:
    api: Api
    store: ImageStore
    events: Events

    async def images(self, pod: Obj, state: PodState) -> dict[str, Image]:
        secrets = await self.pull_secrets(pod)
        wanted = {c["image"]: c for c in reversed(_containers(pod))}
        pulls = (self.image(pod, state, c, secrets) for c in wanted.values())
        images = await asyncio.gather(*pulls)
        return dict(zip(wanted, images, strict=True))

    async def image(self, pod: Obj, state: PodState, container: Obj, secrets: list[Obj]) -> Image:
        name = container["image"]
        if container["name"] and runs_on_host(pod, name):
            name = HOST_IMAGE
        pull = _Pull(self.events, pod, container)
        policy = container.get("imagePullPolicy") or "IfNotPresent"
        try:
            image = await self.store.ensure(
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

    async def image_volumes(self, pod: Obj, state: PodState) -> dict[str, str]:
        """Return where the images are that the pod mounts, by its volumes' names."""
        wanted = [volume for volume in pod["spec"].get("volumes") or [] if volume.get("image")]
        if not wanted:
            return {}
        secrets = await self.pull_secrets(pod)
        roots = {}
        for volume in wanted:
            source = volume["image"]
            container = {
                "name": "",
                "image": source.get("reference", ""),
                "imagePullPolicy": source.get("pullPolicy"),
            }
            if container["image"] == HOST_IMAGE:
                raise mount_refusal(volume["name"], "the node's own root is no image to mount")
            image = await self.image(pod, state, container, secrets)
            roots[volume["name"]] = str(image.rootfs)
        return roots

    async def pull_secrets(self, pod: Obj) -> list[Obj]:
        names = [item.get("name", "") for item in pod["spec"].get("imagePullSecrets") or []]
        secrets = await SourceReader(self.api).fetch(SECRET, meta(pod)["namespace"], names)
        missing = [name for name in names if name not in secrets]
        if missing:
            words = f"Unable to retrieve some image pull secrets ({', '.join(missing)})"
            message = f"{words}; attempting to pull the image may not succeed."
            self.events.tell(pod, "Warning", "FailedToRetrieveImagePullSecret", message)
        return list(secrets.values())


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
            message = f'Successfully pulled image "{self._image}" in {seconds:.3g}s'
            size = f". Image size: {self._bytes} bytes." if self._bytes else "."
            self._events.tell(self._pod, "Normal", "Pulled", message + size)


def _containers(pod: Obj) -> list[Obj]:
    spec = pod["spec"]
    return [*(spec.get("initContainers") or []), *spec["containers"]]
