"""The image cache over a real registry: pulled once, whole or not at all."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orlop.errors import ImageError
from orlop.runtime.images import Image, Images
from orlop.settings import ImageSettings
from tests.cluster import oci
from tests.cluster.oci import LayerBuilder
from tests.cluster.registry import Registry
from tools.devroot import TEST_USER

SOURCE = Path(__file__).parents[3] / "src"


@pytest.fixture
def images(tmp_path: Path, loopback_registry: Registry) -> Images:
    settings = ImageSettings(insecure_registries=[loopback_registry.address])
    return Images(tmp_path / "images", settings, {}, tmp_path)


def requests_of(registry: Registry) -> list[str]:
    """What the registry was asked for, from its own log."""
    text = (registry.folder / "log").read_text()
    return re.findall(r'"GET /v2/(\S+) HTTP', text)


def new_image(*layers: oci.Layer, **config: object) -> oci.Image:
    """An image that no other test has: a layer with a number of its own in it."""
    own = LayerBuilder().file("own", os.urandom(16).hex()).build()
    return oci.Image((*layers, own), config)


def temporary(images: Images) -> list[Path]:
    return list((images.root / "tmp").iterdir())


# What an image is


async def test_an_image_is_a_root_folder_and_what_its_maker_wants_run(
    images: Images, loopback_registry: Registry
):
    name = loopback_registry.name("busybox:entry")
    image = await images.ensure(name)
    assert image.reference == name
    assert image.digest == loopback_registry.digest("busybox:entry")
    assert image.rootfs is not None
    assert (image.rootfs / "bin/busybox").stat().st_mode & 0o111
    assert image.entrypoint == ["/bin/echo", "entrypoint"]
    assert image.cmd == ["default", "words"]
    assert image.env["GREETING"] == "hello world"
    assert image.env["COLON"] == "a=b:c"


@pytest.mark.parametrize(
    ("tag", "user", "working_dir"),
    [("nonroot", "1234", "/home/app"), ("named-user", "app:staff", ""), ("latest", "", "")],
)
async def test_user_and_folder_of_an_image(
    images: Images, loopback_registry: Registry, tag, user, working_dir
):
    image = await images.ensure(loopback_registry.name(f"busybox:{tag}"))
    assert (image.user, image.working_dir) == (user, working_dir)


@pytest.mark.parametrize("tag", ["docker", "multiarch", "layers", "latest"])
async def test_images_of_every_kind_run(images: Images, loopback_registry: Registry, tag):
    image = await images.ensure(loopback_registry.name(f"busybox:{tag}"))
    assert image.rootfs is not None
    busybox = image.rootfs / "bin/busybox"
    answer = subprocess.run([busybox, "echo", "runs"], capture_output=True, text=True, check=True)
    assert answer.stdout == "runs\n"


async def test_the_stop_signal_is_known(images: Images, loopback_registry: Registry):
    loopback_registry.push("stop:latest", new_image(StopSignal="SIGINT"))
    assert (await images.ensure(loopback_registry.name("stop"))).stop_signal == "SIGINT"


async def test_the_folder_is_named_by_the_digest_and_closed_to_others(
    images: Images, loopback_registry: Registry
):
    image = await images.ensure(loopback_registry.name("busybox"))
    assert image.rootfs == images.root / image.digest.replace(":", "-") / "rootfs"
    assert image.rootfs.parent.stat().st_mode & 0o077 == 0


# Once


async def test_a_second_pod_costs_no_request(images: Images, loopback_registry: Registry):
    name = loopback_registry.name("busybox")
    first = await images.ensure(name)
    before = requests_of(loopback_registry)
    assert await images.ensure(name) == first
    assert requests_of(loopback_registry) == before


async def test_many_pods_at_once_pull_once(images: Images, loopback_registry: Registry):
    loopback_registry.push("once:latest", new_image())
    name = loopback_registry.name("once")
    found = await asyncio.gather(*(images.ensure(name) for _ in range(50)))
    assert len({image.digest for image in found}) == 1
    asked = [request for request in requests_of(loopback_registry) if request.startswith("once/")]
    assert len(asked) == len(set(asked)) == 3  # manifest, configuration, layer


async def test_all_who_wait_for_one_pull_see_how_far_it_is(
    images: Images, loopback_registry: Registry
):
    loopback_registry.push("watched:latest", new_image())
    seen: list[list[tuple[int, int]]] = [[] for _ in range(3)]
    pulls = (
        images.ensure(
            loopback_registry.name("watched"), progress=lambda *at, own=own: own.append(at)
        )
        for own in seen
    )
    await asyncio.gather(*pulls)
    assert all(own and own[-1][0] == own[-1][1] for own in seen)


async def test_many_pods_with_a_bad_name_ask_once(images: Images, loopback_registry: Registry):
    name = loopback_registry.name("nobody-has-this")
    results = await asyncio.gather(
        *(images.ensure(name) for _ in range(20)), return_exceptions=True
    )
    assert all(isinstance(result, ImageError) for result in results)
    asked = [r for r in requests_of(loopback_registry) if r.startswith("nobody-has-this/")]
    assert len(asked) <= 1


async def test_after_a_failure_it_is_tried_again(images: Images, loopback_registry: Registry):
    name = loopback_registry.name("later")
    with pytest.raises(ImageError):
        await images.ensure(name)
    loopback_registry.push("later:latest", new_image())
    assert (await images.ensure(name)).rootfs


async def test_two_names_of_one_image_share_its_root(images: Images, loopback_registry: Registry):
    image = new_image()
    for name in ("one:latest", "two:latest"):
        loopback_registry.push(name, image)
    one, two = await asyncio.gather(
        *(images.ensure(loopback_registry.name(name)) for name in ("one", "two"))
    )
    assert one.rootfs == two.rootfs


PULL = """
import asyncio, sys
from pathlib import Path
from orlop.runtime.images import Images
from orlop.settings import ImageSettings

root, name = sys.argv[1:]
settings = ImageSettings(insecure_registries=[name.partition("/")[0]])
image = asyncio.run(Images(Path(root), settings, {}, Path(root)).ensure(name))
print(image.digest, flush=True)
"""


def puller(images: Images, name: str, *through: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    argv = [*through, sys.executable, "-c", PULL, str(images.root), name]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(argv, env=env, text=True, **pipes)


async def test_processes_pull_once_between_them(images: Images, loopback_registry: Registry):
    loopback_registry.push("shared:latest", new_image())
    children = [puller(images, loopback_registry.name("shared")) for _ in range(4)]
    digests = {child.communicate(timeout=60)[0] for child in children}
    assert [child.returncode for child in children] == [0, 0, 0, 0]
    assert len(digests) == 1
    asked = [request for request in requests_of(loopback_registry) if request.startswith("shared/")]
    assert len(asked) == 3


async def test_a_puller_killed_in_the_middle_leaves_nothing_behind(
    images: Images, loopback_registry: Registry
):
    layers = [LayerBuilder().file(f"big{n}", os.urandom(10_000_000)).build() for n in range(3)]
    loopback_registry.push("killed:latest", new_image(*layers))
    name = loopback_registry.name("killed")
    child = puller(images, name)
    slug = images.root / "tmp"
    async with asyncio.timeout(30):
        while not list(slug.glob("*/rootfs/big*")):  # noqa: ASYNC110  what another process does
            await asyncio.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert temporary(images)
    assert not list(images.root.glob("sha256-*"))
    image = await images.ensure(name)
    assert image.rootfs is not None
    assert (image.rootfs / "big2").stat().st_size == 10_000_000
    assert temporary(images) == []


async def test_what_others_left_is_swept_and_what_they_do_is_not(
    images: Images, loopback_registry: Registry
):
    from orlop.runtime.images.locks import FileLock

    for name in ("tmp", "locks"):
        (images.root / name).mkdir(parents=True)
    for name in ("dead", "alive"):
        (images.root / "tmp" / name / "rootfs").mkdir(parents=True)
    async with FileLock(images.root / "locks" / "alive"):
        await images.ensure(loopback_registry.name("busybox"))
        assert [path.name for path in temporary(images)] == ["alive"]


async def test_a_cancelled_pull_ends_its_child_and_cleans_up(
    images: Images, loopback_registry: Registry
):
    layer = LayerBuilder().file("big", os.urandom(30_000_000)).build()
    loopback_registry.push("cancelled:latest", new_image(layer))
    name = loopback_registry.name("cancelled")
    async with asyncio.TaskGroup() as group:
        pull = group.create_task(images.ensure(name))
        async with asyncio.timeout(30):
            while not list(images.root.glob("tmp/*/rootfs")):  # noqa: ASYNC110  a child makes it
                await asyncio.sleep(0.002)
        pull.cancel()
    assert pull.cancelled()
    assert temporary(images) == []
    assert (await images.ensure(name)).rootfs


def test_a_disk_that_takes_no_more_is_told(images: Images, loopback_registry: Registry):
    layer = LayerBuilder().file("big", os.urandom(3_000_000)).build()
    loopback_registry.push("full:latest", new_image(layer))
    child = puller(images, loopback_registry.name("full"), "prlimit", "--fsize=1000000")
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "File too large; check space, quota and permissions of" in errors
    assert temporary(images) == []


# Policies


async def test_if_not_present_keeps_what_a_tag_was(images: Images, loopback_registry: Registry):
    name = loopback_registry.name("moving")
    loopback_registry.push("moving:latest", new_image(Cmd=["old"]))
    await images.ensure(name)
    loopback_registry.push("moving:latest", new_image(Cmd=["new"]))
    assert (await images.ensure(name)).cmd == ["old"]


async def test_always_asks_what_a_tag_is_now(images: Images, loopback_registry: Registry):
    name = loopback_registry.name("always")
    loopback_registry.push("always:latest", new_image(Cmd=["old"]))
    old = await images.ensure(name, policy="Always")
    loopback_registry.push("always:latest", new_image(Cmd=["new"]))
    new = await images.ensure(name, policy="Always")
    assert (old.cmd, new.cmd) == (["old"], ["new"])
    assert old.rootfs is not None
    assert old.rootfs.exists()
    assert (await images.ensure(name)).cmd == ["new"]


async def test_always_fetches_no_layer_that_is_here(images: Images, loopback_registry: Registry):
    name = loopback_registry.name("busybox")
    await images.ensure(name)
    before = len(requests_of(loopback_registry))
    await images.ensure(name, policy="Always")
    (asked,) = requests_of(loopback_registry)[before:]
    assert "/manifests/" in asked


async def test_never_asks_no_registry(images: Images, loopback_registry: Registry):
    name = loopback_registry.name("busybox")
    before = requests_of(loopback_registry)
    with pytest.raises(ImageError, match="use IfNotPresent once") as caught:
        await images.ensure(name, policy="Never")
    assert caught.value.reason == "ErrImageNeverPull"
    assert requests_of(loopback_registry) == before
    pulled = await images.ensure(name)
    assert await images.ensure(name, policy="Never") == pulled


async def test_a_name_with_a_digest_is_that_image_for_ever(
    images: Images, loopback_registry: Registry
):
    digest = loopback_registry.push("pinned:latest", new_image(Cmd=["pinned"]))
    loopback_registry.push("pinned:latest", new_image(Cmd=["moved"]))
    name = loopback_registry.name(f"pinned@{digest}")
    image = await images.ensure(name)
    assert (image.cmd, image.digest) == (["pinned"], digest)


# Without a registry


async def test_host_is_no_image(images: Images):
    assert await images.ensure("host") == Image("host", "", None)
    assert not images.root.exists()


async def test_a_folder_is_a_root(images: Images, tmp_path: Path):
    (tmp_path / "root").mkdir()
    image = await images.ensure(str(tmp_path / "root"))
    assert (image.rootfs, image.digest) == (tmp_path / "root", "")


@pytest.mark.parametrize(("name", "found"), [("gone", "nothing"), ("image.sif", "a file")])
async def test_what_is_no_folder_is_told(images: Images, tmp_path: Path, name, found):
    (tmp_path / "image.sif").write_text("x")
    with pytest.raises(ImageError, match=f"found {found}") as caught:
        await images.ensure(str(tmp_path / name))
    assert caught.value.reason == "InvalidImageName"


async def test_an_oci_layout_is_an_image(
    images: Images, loopback_registry: Registry, tmp_path: Path
):
    """Filled by skopeo, as a user would."""
    layout = tmp_path / "layout"
    for tag in ("latest", "entry"):
        source = f"docker://{loopback_registry.name('busybox')}:{tag}"
        argv = ["skopeo", "copy", "-q", "--src-tls-verify=false", source, f"oci:{layout}:{tag}"]
        subprocess.run(argv, check=True)
    image = await images.ensure(f"{layout}:entry")
    assert image.entrypoint == ["/bin/echo", "entrypoint"]
    assert image.rootfs is not None
    assert (image.rootfs / "bin/busybox").exists()
    assert (await images.ensure(str(layout))).cmd == ["sh"]
    with pytest.raises(ImageError, match="holds entry, latest"):
        await images.ensure(f"{layout}:nosuch")


async def test_a_layout_that_lost_a_layer_is_told(images: Images, tmp_path: Path):
    import json

    image = new_image()
    blobs = tmp_path / "layout/blobs/sha256"
    blobs.mkdir(parents=True)
    (tmp_path / "layout/oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    for blob in [*image.blobs()[1:], image.manifest()]:
        (blobs / oci.digest(blob).removeprefix("sha256:")).write_bytes(blob)
    index = {"manifests": [{"digest": oci.digest(image.manifest()), "size": 1}]}
    (tmp_path / "layout/index.json").write_text(json.dumps(index))
    with pytest.raises(ImageError, match="lacks its layer"):
        await images.ensure(str(tmp_path / "layout"))


# Failures


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("Upper", "InvalidImageName", "lower case"),
        ("{registry}/nosuch", "ErrImagePull", "has no image"),
        ("{registry}/busybox:nosuch", "ErrImagePull", "check its name and tag"),
        ("127.0.0.1:9/busybox", "ErrImagePull", "cannot be reached"),
    ],
)
async def test_what_cannot_be_had_says_why(
    images: Images, loopback_registry: Registry, name, reason, words
):
    with pytest.raises(ImageError) as caught:
        await images.ensure(name.format(registry=loopback_registry.address))
    assert caught.value.reason == reason
    assert words in caught.value.message


async def test_an_image_that_cannot_be_unpacked_is_told_and_leaves_nothing(
    images: Images, loopback_registry: Registry
):
    evil = LayerBuilder().file("../../evil", "x").build()
    loopback_registry.push("evil:latest", new_image(evil))
    with pytest.raises(ImageError, match=r"could not be unpacked: .* leads out of the image"):
        await images.ensure(loopback_registry.name("evil"))
    assert temporary(images) == []
    assert not list(images.root.glob("sha256-*"))


async def test_a_cache_that_cannot_be_written_is_told(loopback_registry: Registry, tmp_path: Path):
    (tmp_path / "file").write_text("")
    images = Images(tmp_path / "file", ImageSettings(), {}, tmp_path)
    with pytest.raises(ImageError, match="check space, quota and permissions"):
        await images.ensure(loopback_registry.name("busybox"))


async def test_a_folder_that_lost_its_configuration_is_pulled_again(
    images: Images, loopback_registry: Registry
):
    name = loopback_registry.name("busybox")
    image = await images.ensure(name)
    assert image.rootfs is not None
    (image.rootfs.parent / "image.json").unlink()
    assert await images.ensure(name) == image


# Quick, and out of the way


async def test_progress_is_told_and_reaches_its_end(images: Images, loopback_registry: Registry):
    layer = LayerBuilder().file("big", os.urandom(3_000_000)).build()
    loopback_registry.push("progress:latest", new_image(layer))
    told: list[tuple[int, int]] = []
    await images.ensure(
        loopback_registry.name("progress"), progress=lambda done, total: told.append((done, total))
    )
    assert len(told) > 3
    assert told[-1][0] == told[-1][1] > 3_000_000


async def test_the_loop_goes_on_while_a_large_image_is_unpacked(
    images: Images, loopback_registry: Registry
):
    async def longest_pause() -> float:
        longest, last = 0.0, time.monotonic()
        while not done.is_set():
            await asyncio.sleep(0.005)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
        return longest

    done = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(longest_pause())
        started = time.monotonic()
        image = await images.ensure(loopback_registry.name("python"))
        seconds = time.monotonic() - started
        done.set()
    assert image.rootfs is not None
    assert sum(1 for _ in image.rootfs.rglob("*")) > 1000
    assert watch.result() < seconds / 2  # unpacking in the loop would take nearly all of it


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_can_do_all_of_it(loopback_registry: Registry, installed_orlop: Path):
    entry = pwd.getpwnam(TEST_USER)
    home = Path("/tmp") / f"orlop-images-{os.getpid()}"
    home.mkdir()
    os.chown(home, entry.pw_uid, entry.pw_gid)
    try:
        code = PULL + "\nprint((image.rootfs / 'bin/busybox').stat().st_uid)"
        python = str(installed_orlop / "python")
        argv = [python, "-c", code, str(home / "images"), loopback_registry.name("busybox")]
        ids = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        env = {"PATH": "/usr/bin:/bin", "HOME": str(home)}
        answer = subprocess.run(
            argv, capture_output=True, text=True, env=env, cwd=home, check=False, **ids
        )
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout.split()[-1] == str(entry.pw_uid)
    finally:
        subprocess.run(["rm", "-rf", str(home)], check=True)


# Room


async def test_images_that_no_pod_holds_make_room_for_the_next(
    tmp_path: Path, loopback_registry: Registry
):
    settings = ImageSettings(limit="1Ki", insecure_registries=[loopback_registry.address])
    images = Images(tmp_path / "images", settings, {}, tmp_path)
    pod = tmp_path / "pods" / "default_web_1"
    pod.mkdir(parents=True)
    for number in range(3):
        loopback_registry.push(f"room:{number}", new_image())
    held = await images.ensure(loopback_registry.name("room:0"), holder=pod)
    unheld = await images.ensure(loopback_registry.name("room:1"))
    last = await images.ensure(loopback_registry.name("room:2"))
    assert [image.rootfs.exists() for image in (held, unheld, last)] == [True, False, True]
    again = await images.ensure(loopback_registry.name("room:1"))
    assert again == unheld
    assert again.rootfs.exists()
