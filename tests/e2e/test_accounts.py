"""What a pod has used is on it in the end, and agrees with what Slurm's accounts say."""

from __future__ import annotations

from tests.e2e.site import Site, eventually, pod

PREFIX = "usage.orlop.dev/"
BURN = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"


def notes(site: Site, name: str) -> dict[str, str]:
    found = site.pod(name)["metadata"]["annotations"].items()
    return {key.removeprefix(PREFIX): text for key, text in found if PREFIX in key}


def agrees(site: Site, name: str) -> None:
    """What is on the pod, once it is Slurm's, and what `kubectl slurm usage` shows are the same."""
    eventually(lambda: notes(site, name).get("source") == "slurm", f"Slurm's word on {name}")
    assert {"elapsed-seconds", "cpu-seconds"} <= notes(site, name).keys()
    usage = site.run("kubectl", "slurm", "usage", name, "-n", site.namespace).stdout
    row = usage.splitlines()[1].split()
    hours, minutes, seconds = (float(part) for part in row[3].split(":"))
    assert (hours * 60 + minutes) * 60 + seconds == float(notes(site, name)["elapsed-seconds"])


def test_what_a_pod_has_used_is_on_it_as_slurm_counted(accounted_site: Site) -> None:
    site = accounted_site
    site.apply(pod("burner", "busybox", BURN))
    site.wait_phase("burner", "Succeeded")
    assert float(notes(site, "burner")["cpu-seconds"]) > 0  # the agent's, at once
    agrees(site, "burner")


def test_pods_that_end_around_the_control_planes_end_are_accounted_for(
    accounted_site: Site,
) -> None:
    """One while there is none; one so shortly before that the accounts did not have it yet."""
    site = accounted_site
    folder = site.home.parent / site.namespace
    site.run("sh", "-c", f"rm -rf {folder}; mkdir {folder}")
    unseen = pod("unseen", "busybox", "until [ -e /told/end ]; do sleep 0.1; done")
    unseen["spec"]["volumes"] = [{"name": "told", "hostPath": {"path": str(folder)}}]
    unseen["spec"]["containers"][0]["volumeMounts"] = [{"name": "told", "mountPath": "/told"}]
    site.apply(unseen)
    site.wait_phase("unseen", "Running")
    site.apply(pod("seen", "busybox", "true"))
    site.wait_phase("seen", "Succeeded")
    site.kill()
    site.run("touch", str(folder / "end"))
    eventually(lambda: not site.squeue("%i"), "both jobs are over")
    site.up()
    site.wait_phase("unseen", "Succeeded")
    for name in ("seen", "unseen"):
        agrees(site, name)
