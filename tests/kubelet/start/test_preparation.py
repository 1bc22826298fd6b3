"""What is gathered before a pod's job is asked for: images, secrets, accounts, words."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from orlop.api.kinds import CLUSTER_TRUST_BUNDLE, SECRET
from orlop.client.workqueue import Backoff
from orlop.kubelet.start import preparation
from orlop.runtime.images import Image

from ..conftest import eventually, waiting
from ..objects import a_container


class Images:
    """Images with a root of their own, which a test fills."""

    def __init__(self, root: Path, **config):
        self.root = root
        self.config = config
        self.asked = []

    async def ensure(self, image, *, policy="", pull_secrets=(), progress=None, holder=None):
        self.asked.append((image, policy, [s["metadata"]["name"] for s in pull_secrets]))
        return Image(image, "sha256:1", self.root, cmd=["sh"], **self.config)


@pytest.fixture
def rootfs(tmp_path):
    rootfs = tmp_path / "rootfs"
    (rootfs / "etc").mkdir(parents=True)
    (rootfs / "etc/passwd").write_text("web:x:1000:100:::\n")
    (rootfs / "etc/group").write_text("video:x:44:web\n")
    return rootfs


async def planned(site, rootfs, name="web", *containers, **spec):
    """The plan of a pod, and the images that were asked for."""
    images = Images(rootfs, **spec.pop("config", {}))
    site.images.ensure = images.ensure
    await site.create(name, *containers, **spec)
    await site.submitted(name)
    return json.loads((site.folder(name) / "plan.json").read_text()), images.asked


async def test_a_users_name_is_found_in_the_image(site, rootfs):
    plan, _ = await planned(site, rootfs, config={"user": "web"})
    assert plan["containers"][0]["user"] == {"uid": 1000, "gid": 100, "groups": [44]}
    assert plan["containers"][0]["rootfs"] == str(rootfs)


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../../../../../../etc/passwd"])
async def test_a_link_in_an_image_leads_to_no_file_of_this_host(site, rootfs, target):
    (rootfs / "etc/passwd").unlink()
    (rootfs / "etc/passwd").symlink_to(target)
    images = Images(rootfs, user="daemon")  # which this host knows
    site.images.ensure = images.ensure
    await site.create()
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "CreateContainerError")
    assert "unable to find user daemon" in waiting(pod)["message"]


def test_accounts_may_be_missing_or_garbled(tmp_path):
    assert preparation._text(tmp_path, "etc/passwd") == ""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_bytes(b"\xff\xfe:x:1:1\n")
    assert "x:1:1" in preparation._text(tmp_path, "etc/passwd")


async def test_each_image_is_asked_for_once_with_its_policy(site, rootfs):
    containers = [
        a_container("a", "one:1", imagePullPolicy="Always"),
        a_container("b", "one:1", imagePullPolicy="Always"),
        a_container("c", "two:2", imagePullPolicy="Never"),
    ]
    init = [a_container("i", "three:3")]
    _, asked = await planned(site, rootfs, "web", *containers, initContainers=init)
    assert sorted(asked) == [
        ("one:1", "Always", []),
        ("three:3", "IfNotPresent", []),
        ("two:2", "Never", []),
    ]


async def test_an_image_that_is_mounted_is_asked_for_with_its_policy(site, rootfs):
    volumes = [{"name": "v", "image": {"reference": "models:1", "pullPolicy": "Always"}}]
    _, asked = await planned(site, rootfs, "web", a_container(image="busybox:1"), volumes=volumes)
    assert ("models:1", "Always", []) in asked


async def test_nothing_is_pulled_for_the_nodes_own_root(site, rootfs):
    notes = {"annotations": {"orlop.dev/runtime": "host"}}
    _, asked = await planned(site, rootfs, "web", a_container(image="busybox:1"), metadata=notes)
    assert asked == [("host", "IfNotPresent", [])]


async def test_pull_secrets_are_passed_on_and_missing_ones_are_told(site, rootfs):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}}
    await site.api.create(SECRET, secret, namespace="default")
    names = [{"name": "login"}, {"name": "nosuch"}]
    container = a_container(image="busybox:1")
    _, asked = await planned(site, rootfs, "web", container, imagePullSecrets=names)
    assert asked == [("busybox:1", "IfNotPresent", ["login"])]

    async def told():
        return [e for e in await site.events() if e[1] == "FailedToRetrieveImagePullSecret"]

    [(kind, _, message)] = await eventually(told)
    assert kind == "Warning"
    assert "(nosuch)" in message


async def test_limits_that_a_container_does_not_set_are_those_of_its_node(site, rootfs):
    env = [{"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]
    plan, _ = await planned(site, rootfs, "web", a_container(env=env))
    assert ["CPUS", "32"] in plan["containers"][0]["env"]


async def test_what_is_not_met_is_told_once_however_often_it_is_tried(site, rootfs):
    from orlop.errors import SubmitDeferred

    await site.restart(deferred=Backoff(0.02, 0.02))
    site.engine.refusal = SubmitDeferred("later")
    await site.create(hostUsers=True)
    await site.until(lambda pod: waiting(pod).get("reason") == "SubmitDeferred")
    await eventually(lambda: len(site.images.asked) > 5)
    events = [event for event in await site.events() if event[1] == "Unsupported"]
    assert len(events) == 1


async def test_certificates_that_the_cluster_trusts_are_read_for_the_volumes_that_want_them(site):
    block = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"
    body = {"metadata": {"name": "roots"}, "spec": {"trustBundle": block}}
    await site.api.create(CLUSTER_TRUST_BUNDLE, body)
    source = {"clusterTrustBundle": {"name": "roots", "path": "ca.pem"}}
    await site.create(volumes=[{"name": "v", "projected": {"sources": [source]}}])
    await site.submitted()
    plan = json.loads((site.folder() / "plan.json").read_text())
    (volume,) = [one for one in plan["volumes"] if one["name"] == "v"]
    assert [file["path"] for file in volume["files"]] == ["ca.pem"]


@pytest.mark.parametrize("kind", ["pipe", "device", "link", "upwards", "folder", "loop"])
def test_accounts_of_an_image_that_means_no_good_are_none(rootfs, tmp_path, kind):
    """They are read by the control plane itself, from whatever an image has there."""
    path = rootfs / "etc/passwd"
    path.unlink()
    (tmp_path / "secret").write_text("secret:x:7:7:::\n")
    targets = {
        "device": "/dev/zero",
        "link": str(tmp_path / "secret"),
        "upwards": "../../../../../../../.." + str(tmp_path / "secret"),
        "loop": "passwd",
    }
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(targets[kind])
    found = preparation._accounts(Image("app", "sha256:1", rootfs))
    assert (found.passwd, found.group) == ("", "video:x:44:web\n")


def test_of_a_large_file_of_accounts_the_beginning_is_read(rootfs):
    with (rootfs / "etc/passwd").open("w") as file:
        file.truncate(1 << 40)
    assert len(preparation._accounts(Image("app", "sha256:1", rootfs)).passwd) == 1 << 20
