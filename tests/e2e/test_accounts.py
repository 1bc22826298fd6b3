"""What a pod has used is on it in the end, and agrees with what Slurm's accounts say."""

from __future__ import annotations

import pytest

from orlop.slurm.query.sacct import cpu_seconds, size
from tests.e2e.site import Site, eventually, pod

PREFIX = "usage.orlop.dev/"
# Slurm looks at memory every two seconds.
HOLD = """
import time
held, until = bytearray(b"x") * (100 << 20), time.monotonic() + 6
while time.monotonic() < until: sum(range(10_000))
"""


def notes(site: Site, name: str) -> dict[str, str]:
    found = site.pod(name)["metadata"]["annotations"].items()
    return {key.removeprefix(PREFIX): text for key, text in found if PREFIX in key}


def agrees(site: Site, name: str) -> dict[str, str]:
    """What is on the pod, once it is Slurm's: as sacct and `kubectl slurm usage` have it."""
    eventually(lambda: notes(site, name).get("source") == "slurm", f"Slurm's word on {name}")
    job = site.pod(name)["metadata"]["annotations"]["slurm.orlop.dev/job-id"]
    argv = ("sacct", "-n", "-P", "-j", job, "-o", "ElapsedRaw,TotalCPU,MaxRSS,Elapsed")
    whole, *steps = [line.split("|") for line in site.run(*argv).stdout.splitlines()]
    largest = max((step[2] for step in steps), key=lambda text: size(text) or 0, default="")
    found = notes(site, name)
    assert float(found["elapsed-seconds"]) == float(whole[0])
    assert float(found["cpu-seconds"]) == cpu_seconds(whole[1])
    if largest:  # Slurm did not look at one that is over in a moment; then it is the agent's
        assert int(found["peak-memory-bytes"]) == size(largest)
    usage = site.run("kubectl", "slurm", "usage", name, "-n", site.namespace).stdout
    row = usage.splitlines()[1].split()
    assert (row[3], row[6], row[7]) == (whole[3], whole[1], largest or row[7])
    return found


@pytest.mark.timeout(300)
def test_what_a_pod_has_used_is_on_it_as_slurm_counted(accounted_site: Site) -> None:
    site = accounted_site
    site.apply(pod("burner", "python", f"exec python3 -c '{HOLD}'"))
    site.wait_phase("burner", "Succeeded", timeout=120)
    at_once = notes(site, "burner")  # the agent's
    assert float(at_once["cpu-seconds"]) > 0
    assert 100 << 20 <= int(at_once["peak-memory-bytes"]) < 1 << 30
    peak = int(agrees(site, "burner")["peak-memory-bytes"])
    assert 100 << 20 <= peak < 1 << 30


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
