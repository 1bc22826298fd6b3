"""What a site's administrators do to jobs that are already there: preemption, a QOS taken away."""

from __future__ import annotations

from tests.cluster.spec import HEAD
from tests.e2e.site import Obj, Site, eventually, pod

PREFIX = "slurm.orlop.dev/"
JOB = f"{PREFIX}job-id"
ALLOCATED = "orlop.dev/Allocated"


def sacctmgr(site: Site, *words: str) -> None:
    site.cluster.run(HEAD, ["sacctmgr", "--immediate", "modify", *words])


def jobs_of_low_give_way(site: Site, mode: str) -> None:
    """QOS `high` preempts `low`, whose jobs then end by `mode`."""
    sacctmgr(site, "qos", "high", "set", "preempt=low")
    sacctmgr(site, "qos", "low", "set", f"preemptmode={mode}")


def on_n4(name: str, script: str, **options: str) -> Obj:
    """A pod that takes all of one node's CPUs."""
    annotations = {f"{PREFIX}{key}": value for key, value in options.items()}
    manifest = pod(name, "busybox", script, metadata={"annotations": annotations})
    manifest["metadata"]["annotations"][f"{PREFIX}nodelist"] = "n4"
    manifest["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "8"}}
    return manifest


def condition(site: Site, name: str, kind: str) -> tuple[str, str]:
    conditions = site.pod(name)["status"].get("conditions", [])
    return next(((c["status"], c["reason"]) for c in conditions if c["type"] == kind), ("", ""))


def test_a_preempted_pod_has_failed_as_a_disruption(accounted_site: Site) -> None:
    site = accounted_site
    jobs_of_low_give_way(site, "cancel")
    site.apply(on_n4("victim", "exec sleep 600", qos="low"))
    site.wait_phase("victim", "Running")
    site.apply(on_n4("urgent", "true", qos="high"))
    ended = site.wait_phase("victim", "Failed")
    assert ended["status"]["reason"] == "PreemptionByScheduler", site.story("victim")
    assert condition(site, "victim", "DisruptionTarget") == ("True", "PreemptionByScheduler")
    site.wait_phase("urgent", "Succeeded")


def test_a_pod_that_is_preempted_by_requeue_runs_again(accounted_site: Site) -> None:
    site = accounted_site
    jobs_of_low_give_way(site, "requeue")
    script = "[ -e /seen/once ] && exit 0; touch /seen/once; exec sleep 600"
    victim = on_n4("victim", script, qos="low", requeue="")
    folder = site.home.parent / f"{site.namespace}-seen"
    site.run("sh", "-c", f"rm -rf {folder}; mkdir {folder}")
    victim["spec"]["volumes"] = [{"name": "seen", "hostPath": {"path": str(folder)}}]
    victim["spec"]["containers"][0]["volumeMounts"] = [{"name": "seen", "mountPath": "/seen"}]
    site.apply(victim)
    eventually(lambda: (folder / "once").exists(), "it has begun")
    job = site.pod("victim")["metadata"]["annotations"][JOB]
    site.apply(on_n4("urgent", "true", qos="high"))
    eventually(lambda: condition(site, "victim", ALLOCATED)[0] == "False", "it waits again")
    assert site.pod("victim")["status"]["phase"] == "Pending"
    site.wait_phase("urgent", "Succeeded")
    ended = site.wait_phase("victim", "Succeeded", timeout=120)
    assert ended["metadata"]["annotations"][JOB] == job
    assert ended["status"]["containerStatuses"][0]["restartCount"] == 1


def test_a_pod_whose_qos_is_taken_away_says_so(accounted_site: Site) -> None:
    site = accounted_site
    site.apply(on_n4("orphan", "true", qos="low", hold=""))
    held = ("False", "JobHeldUser")
    eventually(lambda: condition(site, "orphan", ALLOCATED) == held, "it is held")
    try:
        sacctmgr(site, "user", site.cluster.user, "set", "qos=normal,high")
        site.run("scontrol", "release", site.pod("orphan")["metadata"]["annotations"][JOB])
        lost = ("False", "InvalidQOS")
        eventually(lambda: condition(site, "orphan", ALLOCATED) == lost, "its QOS is not valid")
    finally:
        sacctmgr(site, "user", site.cluster.user, "set", "qos=normal,high,low")
