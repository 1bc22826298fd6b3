"""Both runtimes, and the node's own root, run the same manifests with the same results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.site import Site, pod, terminated

NASTY = {
    "QUOTES": 'it\'s "quoted"',
    "NEWLINES": "one\ntwo\n",
    "DOLLARS": "$HOME `id` $(hostname) ${x}",
    "SPACES": "  two  ",
    "EMPTY": "",
    "UNICODE": "größe ✓",
    "BACKSLASH": "a\\nb\\",
}
RUNTIMES = ["crun", "apptainer"]


def run(site: Site, runtime: str, name: str, script: str, **spec: Any) -> dict[str, Any]:
    manifest = pod(f"{name}-{runtime}", spec.pop("image", "python"), script, **spec)
    manifest["metadata"].setdefault("annotations", {})["orlop.dev/runtime"] = runtime
    site.apply(manifest)
    return site.wait_phase(f"{name}-{runtime}", "Succeeded", "Failed")


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_codes_are_exact(site: Site, runtime: str, code: int) -> None:
    ended = run(site, runtime, f"exit{code}", f"exit {code}", image="busybox")
    assert terminated(ended)["exitCode"] == code
    assert ended["status"]["phase"] == ("Succeeded" if code == 0 else "Failed")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_signal_is_128_and_its_number(site: Site, runtime: str) -> None:
    ended = run(site, runtime, "signal", "sh -c 'kill -9 $$$$'; exit $?", image="busybox")
    assert terminated(ended)["exitCode"] == 137


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_env_arrives_to_the_byte(site: Site, runtime: str) -> None:
    script = "python3 -c 'import os, json; print(json.dumps(dict(os.environ)))'"
    # $$ is Kubernetes' own escape; $(VAR) of an unknown variable stays as it is.
    env = [{"name": key, "value": value} for key, value in NASTY.items()]
    run(site, runtime, "env", script, container={"env": env})
    seen = json.loads(site.kubectl("logs", f"env-{runtime}"))
    assert {key: seen.get(key) for key in NASTY} == NASTY
    assert seen["HOSTNAME"] == f"env-{runtime}"
    assert "SLURM_JOB_ID" in seen
    assert "ORLOP_HOME" not in seen


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_read_only_mount_is_read_only(site: Site, runtime: str) -> None:
    name = f"settings-{runtime}"
    site.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"colour": "blue\n"},
        }
    )
    script = "cat /config/colour; touch /config/x 2>&- || echo refused; touch /scratch/x && echo ok"
    mounts = [
        {"name": "config", "mountPath": "/config", "readOnly": True},
        {"name": "scratch", "mountPath": "/scratch"},
    ]
    volumes = [
        {"name": "config", "configMap": {"name": name}},
        {"name": "scratch", "emptyDir": {}},
    ]
    run(
        site,
        runtime,
        "mount",
        script,
        image="busybox",
        container={"volumeMounts": mounts},
        volumes=volumes,
    )
    said = site.kubectl("logs", f"mount-{runtime}").splitlines()
    assert said[0] == "blue"
    assert said[-2:] == ["refused", "ok"]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_non_root_uid_is_that_uid(site: Site, runtime: str) -> None:
    context = {"runAsUser": 1234, "runAsNonRoot": True}
    script = "id -u; touch /data/x && stat -c %u /data/x"
    run(
        site,
        runtime,
        "uid",
        script,
        image="busybox",
        container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        volumes=[{"name": "data", "emptyDir": {}}],
        securityContext=context,
    )
    assert site.kubectl("logs", f"uid-{runtime}").splitlines() == ["1234", "1234"]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_without_a_uid_the_container_is_root_of_its_own_world(site: Site, runtime: str) -> None:
    run(site, runtime, "root", "id -u; touch /etc/new && echo writable", image="busybox")
    assert site.kubectl("logs", f"root-{runtime}").splitlines() == ["0", "writable"]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_init_containers_hand_over_by_an_empty_dir(site: Site, runtime: str) -> None:
    mount = [{"name": "shared", "mountPath": "/shared"}]
    first = {
        "name": "first",
        "image": "busybox",
        "command": ["sh", "-c", "echo prepared > /shared/word"],
        "volumeMounts": mount,
    }
    run(
        site,
        runtime,
        "init",
        "cat /shared/word; pwd",
        image="busybox",
        initContainers=[first],
        volumes=[{"name": "shared", "emptyDir": {}}],
        container={"volumeMounts": mount, "workingDir": "/shared"},
    )
    assert site.kubectl("logs", f"init-{runtime}") == "prepared\n/shared\n"


def test_a_sif_runs_in_every_runtime(site: Site) -> None:
    """Built by apptainer from the registry: entry point and variables come with it."""
    target = site.home.parent / "entry.sif"
    registry = site.config["images"]["default_registry"]
    build = ["apptainer", "build", "--force", "--no-https", str(target)]
    site.run(*build, f"docker://{registry}/busybox:entry", timeout=120)
    for runtime in RUNTIMES:
        manifest = pod(f"sif-{runtime}", str(target), "")
        del manifest["spec"]["containers"][0]["command"]
        manifest["metadata"]["annotations"] = {"orlop.dev/runtime": runtime}
        site.apply(manifest)
    for runtime in RUNTIMES:
        site.wait_phase(f"sif-{runtime}", "Succeeded")
        assert site.kubectl("logs", f"sif-{runtime}") == "entrypoint default words\n"


def test_an_image_that_is_also_one_file_is_read_from_that(site: Site) -> None:
    """What only the file has is seen: the folder beside it is not what runs."""
    site.apply(pod("first", "busybox:layers", "true"))
    site.wait_phase("first", "Succeeded")
    [folder] = (site.home / "pods").glob("*_first_*")
    root = Path(json.loads((folder / "plan.json").read_text())["containers"][0]["rootfs"])
    squashed, copy = root.parent / "image.sqfs", site.home.parent / "copy"
    make = f"cp -a {root} {copy}; echo one file > {copy}/mark"
    site.run("sh", "-c", f"{make}; mksquashfs {copy} {squashed} -all-root -quiet -no-progress")
    try:
        script = "cat /mark; id -u; echo written > /mark && cat /mark"
        for runtime in RUNTIMES:
            run(site, runtime, "squashed", script, image="busybox:layers")
            lines = site.kubectl("logs", f"squashed-{runtime}").splitlines()
            assert lines == ["one file", "0", "written"], (runtime, lines)
        user = {"runAsUser": 1234}
        run(site, "crun", "other", "cat /mark", image="busybox:layers", securityContext=user)
        assert site.kubectl("logs", "other-crun") == "one file\n"
    finally:
        site.run("rm", "-rf", str(squashed), str(copy))


def test_the_image_host_runs_in_the_nodes_own_root_as_its_owner(site: Site) -> None:
    site.apply(pod("host", "host", "cat /etc/debian_version; id -u"))
    ended = site.wait_phase("host", "Succeeded", "Failed")
    assert terminated(ended)["exitCode"] == 0, site.story("host")
    uid = site.run("id", "-u").stdout
    assert site.kubectl("logs", "host") == Path("/etc/debian_version").read_text() + uid
