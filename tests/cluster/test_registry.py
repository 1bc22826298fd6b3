"""The registry serves what real tools understand, and real runtimes run it inside Slurm jobs."""

from __future__ import annotations

import json
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from tests.cluster.cluster import SlurmCluster
from tests.cluster.fixtures import StartRegistry, StartSlurm
from tests.cluster.images import NON_ROOT_UID, base_layer
from tests.cluster.oci import Image, LayerBuilder, digest
from tests.cluster.registry import Registry
from tests.cluster.spec import HEAD, Spec


def bundle_config(uid: int) -> dict[str, object]:
    """A bundle for crun, with the user as root in a user namespace of its own."""
    mapping = [{"containerID": 0, "hostID": uid, "size": 1}]
    script = "id -u; cat /etc/hostname; exit 42"
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["/bin/sh", "-c", script],
            "cwd": "/",
            "env": ["PATH=/bin"],
        },
        "root": {"path": "rootfs"},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("user", "mount", "pid")],
            "uidMappings": mapping,
            "gidMappings": mapping,
        },
    }


def skopeo(registry: Registry, cluster: SlurmCluster, image: str, *words: str) -> str:
    argv = ["skopeo", "inspect", "--tls-verify=false", *words, f"docker://{registry.name(image)}"]
    return cluster.run("n1", argv, user=cluster.user).stdout


@pytest.mark.parametrize(
    ("image", "config"),
    [
        ("busybox:latest", {"Cmd": ["sh"]}),
        ("busybox:docker", {"Cmd": ["sh"]}),
        ("busybox:multiarch", {"Cmd": ["sh"]}),
        ("busybox:entry", {"Entrypoint": ["/bin/echo", "entrypoint"], "Cmd": ["default", "words"]}),
        ("busybox:nonroot", {"User": str(NON_ROOT_UID), "WorkingDir": "/home/app"}),
        ("python:latest", {"Cmd": ["python3"]}),
    ],
)
def test_skopeo_reads_every_image(
    slurm: SlurmCluster, registry: Registry, image: str, config: dict[str, object]
) -> None:
    found = json.loads(skopeo(registry, slurm, image, "--config"))["config"]
    assert found | config == found
    assert json.loads(skopeo(registry, slurm, image))["Digest"] == registry.digest(image)


def test_an_image_that_is_not_there_is_reported(registry: Registry) -> None:
    with pytest.raises(LookupError, match="no busybox:nosuch"):
        registry.digest("busybox:nosuch")


def test_a_test_can_push_an_image_of_its_own(slurm: SlurmCluster, registry: Registry) -> None:
    layer = LayerBuilder().file("hello", "hi\n").build()
    pushed = registry.push("mine:v1", Image((base_layer(), layer), {"Cmd": ["cat", "/hello"]}))
    assert json.loads(skopeo(registry, slurm, "mine:v1"))["Digest"] == pushed


def test_what_is_pushed_to_one_registry_is_in_no_other(
    registry: Registry, new_slurm: StartSlurm, registry_on: StartRegistry
) -> None:
    other = registry_on(new_slurm(Spec(nodes=1)))
    other.push("only:here", Image((base_layer(),)))
    with pytest.raises(LookupError):
        registry.digest("only:here")


def test_the_loopback_registry_needs_no_cluster(loopback_registry: Registry) -> None:
    name = loopback_registry.name("python:latest")
    inspect = ["skopeo", "inspect", "--tls-verify=false", f"docker://{name}"]
    answer = subprocess.run(inspect, capture_output=True, check=True)
    assert json.loads(answer.stdout)["Digest"] == loopback_registry.digest("python:latest")


def test_the_same_files_make_the_same_layer() -> None:
    first, second = (LayerBuilder().folder("a").file("a/b", "c").build() for _ in range(2))
    assert digest(first.blob) == digest(second.blob)


def test_whiteouts_stand_in_a_layer_under_their_special_names() -> None:
    layer = LayerBuilder().without("data/gone").nothing_below("empty").build()
    with tarfile.open(fileobj=BytesIO(layer.tar)) as tar:
        assert tar.getnames() == ["data/.wh.gone", "empty/.wh..wh..opq"]


def unpack(registry: Registry, cluster: SlurmCluster, image: str, folder: Path) -> None:
    """By skopeo and tar, as the user: one layer is all these tests need."""
    script = f"""
        set -e; mkdir -p {folder}/rootfs; cd {folder}
        skopeo copy -q --src-tls-verify=false docker://{registry.name(image)} dir:{folder}/image
        for layer in $(skopeo inspect dir:{folder}/image | grep -o 'sha256:[0-9a-f]*' | tail -1)
        do tar -C rootfs -xzf image/${{layer#sha256:}}; done
    """
    cluster.run("n1", ["sh", "-c", script], user=cluster.user)


def test_real_crun_runs_busybox_in_a_job_as_the_user(
    slurm: SlurmCluster, registry: Registry
) -> None:
    bundle = slurm.home / "bundle"
    unpack(registry, slurm, "busybox:latest", bundle)
    uid = int(slurm.run("n1", ["id", "-u"], user=slurm.user).stdout)
    (bundle / "config.json").write_text(json.dumps(bundle_config(uid)))
    crun = ["crun", "--cgroup-manager=disabled", "run", "--bundle", str(bundle), "one"]
    result = slurm.run(HEAD, ["srun", "-wn2", *crun], user=slurm.user, check=False)
    assert (result.stdout, result.returncode) == ("0\nimage\n", 42), result.stderr


def test_real_apptainer_runs_busybox_in_a_job_as_the_user(
    slurm: SlurmCluster, registry: Registry
) -> None:
    image = f"docker://{registry.name('busybox:layers')}"
    script = ["/bin/sh", "-c", "id -un; cat /data/link; ls /opaque; exit 42"]
    apptainer = ["apptainer", "-q", "exec", "--no-https", "--no-home", image, *script]
    result = slurm.run(HEAD, ["srun", "-wn3", *apptainer], user=slurm.user, check=False)
    assert (result.stdout, result.returncode) == (f"{slurm.user}\na file\nnew\n", 42), result.stderr


def test_real_apptainer_runs_python_in_a_job_as_the_user(
    slurm: SlurmCluster, registry: Registry
) -> None:
    folder = slurm.home / "python"
    build = ["apptainer", "-q", "build", "--no-https", "--sandbox", str(folder)]
    slurm.run("n1", [*build, f"docker://{registry.name('python:latest')}"], user=slurm.user)
    script = ["python3", "-c", "import asyncio, ssl, sys; print(sys.version_info[:2])"]
    result = slurm.run(
        HEAD, ["srun", "apptainer", "-q", "exec", str(folder), *script], user=slurm.user
    )
    assert result.stdout == "(3, 11)\n"


@pytest.mark.parametrize(
    "runtimes", [("crun",), ("apptainer",), ("apptainer", "crun"), ()], ids="+".join
)
def test_a_cluster_has_the_runtimes_of_its_spec_and_no_others(
    new_slurm: StartSlurm, runtimes: tuple[str, ...]
) -> None:
    cluster = new_slurm(Spec(nodes=1, runtimes=runtimes))
    find = "for p in apptainer bwrap crun podman runc singularity; do command -v $p; done; true"
    for where in (["sh", "-c", find], ["srun", "sh", "-c", find]):
        found = cluster.run(HEAD, where, user=cluster.user).stdout.split()
        assert sorted(Path(path).name for path in found) == list(runtimes)
