"""What a pod has used is on it in the end, and agrees with what Slurm's accounts say."""

from __future__ import annotations

from tests.e2e.site import Site, eventually, pod

PREFIX = "usage.orlop.dev/"
BURN = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"


def test_what_a_pod_has_used_is_on_it_as_slurm_counted(accounted_site: Site) -> None:
    site = accounted_site
    site.apply(pod("burner", "busybox", BURN))
    site.wait_phase("burner", "Succeeded")

    def notes() -> dict[str, str]:
        found = site.pod("burner")["metadata"]["annotations"].items()
        return {name.removeprefix(PREFIX): text for name, text in found if PREFIX in name}

    assert float(notes()["cpu-seconds"]) > 0  # the agent's, at once
    eventually(lambda: notes()["source"] == "slurm", "Slurm's accounts are on it", timeout=90)
    assert {"elapsed-seconds", "cpu-seconds"} <= notes().keys()
    usage = site.run("kubectl", "slurm", "usage", "burner", "-n", site.namespace).stdout
    row = usage.splitlines()[1].split()
    hours, minutes, seconds = (float(part) for part in row[3].split(":"))
    assert (hours * 60 + minutes) * 60 + seconds == float(notes()["elapsed-seconds"])
