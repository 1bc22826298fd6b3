"""Prepares a bound pod until its folder is ready: images, ConfigMaps, Secrets, tokens, plan.

Run by a pod's worker before it asks the engine for a machine. It raises ImageError and Refusal with
the words that go onto the pod, and of the API it writes just Events. Cancelling it at any moment
leaves nothing behind but files that the next try replaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...agent.linux.untrusted_files import read_inside
from ...api.objects import Obj
from ...client.api import Api
from ...network.addresses import PodAddresses
from ...runtime.images import Image
from ...slurm.translate.job import mpi_launcher
from ...slurm.translate.ranks import rank_set
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
)
from ..planning.pmi import Pmi
from ..planning.seccomp_profiles import Profiles, profile_names, read_profiles
from ..planning.source_reader import SourceReader
from ..planning.users import Accounts
from ..planning.volumes import unmet_options
from ..pod.events import Events
from ..pod.folder import agent_token, planned_of
from ..pod.pods import PodState
from .image_puller import ImagePuller

ACCOUNTS = 1 << 20  # bytes of an image's /etc/passwd


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What all plans of this cluster have in common."""

    site: Site
    token_key: bytes  # for the tokens by which agents are known
    pmi: Pmi


@dataclass(frozen=True, slots=True)
class PodNetwork:
    """The addresses of pods, and what their plans say of the network."""

    addresses: PodAddresses
    view: NetworkView


@dataclass(frozen=True, slots=True)
class Preparation:
    """Prepares pods with all that it needs; `prepare` does one pod."""

    api: Api
    puller: ImagePuller
    nodes: Nodes
    events: Events
    cluster: ClusterFacts
    network: PodNetwork

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
            self.puller.images(pod, state), self.puller.image_volumes(pod, state)
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
            policy=self.network.view.policy_of(pod),
            services=self.network.view.services_for(pod),
            profiles=await self._profiles(pod),
            launcher=mpi_launcher(pod),
            ranks=await self._ranks(pod, images),
        )
        plan = make_plan(pod, self.cluster.site, inputs)  # 3
        await asyncio.to_thread(
            state.folder.write, plan, agent_token(self.cluster.token_key, state.uid)
        )
        state.images, state.pod_ip = planned_of(plan)

    async def _ranks(self, pod: Obj, images: Mapping[str, Image]) -> Obj | None:
        """Return how its main container is run once for every task; None where it is run once."""
        ranks = rank_set(pod)
        if ranks is None:
            return None
        containers = {container["name"]: container for container in pod["spec"]["containers"]}
        image = images[containers[ranks.container]["image"]]
        mpi = "" if ranks.mpi else await self.cluster.pmi.of_image(image.rootfs)
        return {**ranks.planned(mpi), "starter": self.cluster.site.starter}

    async def _profiles(self, pod: Obj) -> Profiles:
        """Return the profiles of this host that the pod names; most name none, and wait for no
        thread.
        """
        names = profile_names(pod)
        return (
            await asyncio.to_thread(read_profiles, self.cluster.site.seccomp, names)
            if names
            else {}
        )

    def _address(self, pod: Obj, state: PodState) -> str:
        if self.cluster.site.network is None or not has_own_network(pod):
            return ""
        return self.network.addresses.allocate(state.uid)

    async def ephemeral(self, pod: Obj, state: PodState, container: Obj) -> Obj:
        """Return the plan of a container that is added to a running pod."""
        wishes = check_ephemeral(container)
        if wishes:
            message = f"container {container['name']} runs without: " + "; ".join(wishes)
            self.events.tell(pod, "Warning", "Unsupported", message)
        secrets = await self.puller.pull_secrets(pod)
        image = await self.puller.image(pod, state, container, secrets)
        sources = await SourceReader(self.api).sources(pod)
        name = container["image"]
        inputs = Inputs(
            {name: image},
            self.nodes.allocatable(pod["spec"]["nodeName"]),
            sources,
            {name: _accounts(image)},
            pod_ip=state.pod_ip,
            services=self.network.view.services_for(pod),
            profiles=await self._profiles(pod),
        )
        return make_ephemeral(pod, container, self.cluster.site, inputs)

    def _warn(self, pod: Obj, state: PodState, wishes: list[str]) -> None:
        if wishes and not state.warned:
            state.warned = True
            message = "the pod runs without: " + "; ".join(wishes)
            self.events.tell(pod, "Warning", "Unsupported", message)


def _accounts(image: Image) -> Accounts:
    if image.rootfs is None:
        return Accounts()
    return Accounts(_text(image.rootfs, "etc/passwd"), _text(image.rootfs, "etc/group"))


def _text(rootfs: Path, name: str) -> str:
    """Read a small file of an image, whose maker may have put anything in its place."""
    return read_inside(str(rootfs), name, ACCOUNTS)
