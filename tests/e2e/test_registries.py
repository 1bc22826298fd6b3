"""Images of a registry that wants a login, of a mirror, and in a folder that two clusters share."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.cluster import SlurmCluster
from tests.cluster.fixtures import StartRegistry
from tests.cluster.images import base_layer
from tests.cluster.oci import Image, LayerBuilder
from tests.cluster.registry import Registry
from tests.cluster.storage import ALL
from tests.e2e.conftest import OpenSite
from tests.e2e.site import Obj, Site, eventually, pod
from tools.devroot import DevRoot

PORT = 5001
# The word of ann's is s3cret.
ANN = "ann:$2y$05$abcdefghijklmnopqrstuuLK7U1u6pVRmL7L1BBM2aS35PSZnDXlK"
ELSEWHERE = "registry.example"  # nobody answers to that name


@pytest.fixture
def guarded(slurm: SlurmCluster, orlop_dev_root: DevRoot) -> Iterator[Registry]:
    registry = Registry.on_head(slurm, PORT, ANN)
    registry.start(ALL.prepared(orlop_dev_root))
    yield registry
    registry.stop()


@pytest.fixture
def second(slurm: SlurmCluster, registry_on: StartRegistry, sites: OpenSite) -> Iterator[Site]:
    """Another cluster of the same user, over the same folder of images, in which little fits."""
    first, open_to_all = sites(slurm), registry_on(slurm).address
    images = {
        "default_registry": ELSEWHERE,
        "mirrors": {ELSEWHERE: [open_to_all]},
        "insecure_registries": [open_to_all, f"{slurm.head_address}:{PORT}"],
        "limit": "1Ki",
    }
    with ExitStack() as stack:
        site = Site(slurm, slurm.home / "second", {"name": "second", "images": images})
        site.run("mkdir", "-p", "-m", "700", str(site.home))
        site.run("ln", "-sfn", str(first.home / "images"), str(site.home / "images"))
        site.up()
        stack.callback(site.down)
        yield site


def login(registry: Registry) -> Obj:
    """The pull secret, as `kubectl create secret docker-registry` makes it."""
    word = base64.b64encode(b"ann:s3cret").decode()
    config = json.dumps({"auths": {registry.address: {"auth": word}}})
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson"}
    data = {".dockerconfigjson": base64.b64encode(config.encode()).decode()}
    return {**secret, "metadata": {"name": "login"}, "data": data}


def image_of(site: Site, name: str) -> Path:
    """The folder of the image that a pod runs."""
    [folder] = (site.home / "pods").glob(f"{site.namespace}_{name}_*")
    plan = json.loads((folder / "plan.json").read_text())
    return Path(plan["containers"][0]["rootfs"]).parent.resolve()


@pytest.mark.timeout(400)
def test_logins_mirrors_and_a_folder_of_two_clusters(
    site: Site, second: Site, guarded: Registry, registry: Registry
) -> None:
    stays = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
    site.apply(pod("stays", "busybox:layers", stays, terminationGracePeriodSeconds=0))
    site.wait_phase("stays", "Running")
    second.apply(pod("stranger", guarded.name("busybox:docker"), "true"))
    eventually(lambda: any("401" in told for _, told in second.events("stranger")), "it says why")
    second.apply(login(guarded))
    known = {"imagePullSecrets": [{"name": "login"}]}
    second.apply(pod("known", guarded.name("busybox:docker"), "echo pulled", **known))
    second.wait_phase("known", "Succeeded")
    assert second.kubectl("logs", "known") == "pulled\n"
    used, unused = image_of(site, "stays"), image_of(second, "known")
    assert used.parent == unused.parent, "both clusters keep images there"
    second.kubectl("delete", "pod", "--all")
    eventually(lambda: not any((second.home / "pods").glob("*_known_*")), "its files are gone")
    # What was asked for a while ago, and runs nowhere, goes with the next pull.
    for one in (used, unused):
        site.run("touch", "-d", "2 hours ago", str(one.parent / "uses" / one.name))
    fresh = LayerBuilder().file("fresh", "mirrored\n").build()
    registry.push("fresh:latest", Image((base_layer(), fresh), {"Cmd": ["cat", "/fresh"]}))
    second.apply(pod("mirrored", "fresh", "cat /fresh"))
    second.wait_phase("mirrored", "Succeeded")
    assert second.kubectl("logs", "mirrored") == "mirrored\n"
    eventually(lambda: not unused.exists(), "the image that nobody runs is gone")
    assert site.kubectl("exec", "stays", "--", "cat", "/data/kept") == "kept\n"
    second.kubectl("delete", "pod", "--all")
