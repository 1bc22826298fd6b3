"""What Slurm does to a job between its start and its end is on the pod, in Slurm's own word.

The ends themselves are in test_failures. Hold, release, suspend, resume and requeue change no
container's exit code, so only Slurm's answer can tell of them.
"""

from __future__ import annotations

from tests.cluster.spec import HEAD
from tests.e2e.site import Obj, Site, eventually, pod, terminated

JOB = "slurm.orlop.dev/job-id"


def allocated(site: Site, name: str) -> tuple[str, str, str]:
    """Status, reason and message of the condition that has Slurm's word."""
    conditions = site.pod(name)["status"].get("conditions", [])
    found: Obj = next((c for c in conditions if c["type"] == "orlop.dev/Allocated"), {})
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def says(site: Site, name: str, status: str, reason: str) -> str:
    """The condition's message once it has that status and reason."""

    def probe() -> str:
        found = allocated(site, name)
        return found[2] if found[:2] == (status, reason) else ""

    return eventually(probe, f"{name} is {status}, {reason}")


def scontrol(site: Site, verb: str, job: str) -> None:
    """As the administrator: only they may suspend."""
    site.cluster.run(HEAD, ["scontrol", verb, job])


def test_a_held_pod_says_so_and_runs_when_it_is_released(site: Site) -> None:
    hold = {"slurm.orlop.dev/hold": ""}
    site.apply(pod("held", "busybox", "echo ran", metadata={"annotations": hold}))
    assert "scontrol release" in says(site, "held", "False", "JobHeldUser")
    job = site.pod("held")["metadata"]["annotations"][JOB]
    eventually(lambda: any(r == "Queued" for r, _ in site.events("held")), "an event")
    site.run("scontrol", "release", job)
    assert terminated(site.wait_phase("held", "Succeeded"))["exitCode"] == 0


def test_another_reason_to_wait_is_seen(site: Site) -> None:
    hold = {"slurm.orlop.dev/hold": "", "slurm.orlop.dev/begin": "now+1hour"}
    site.apply(pod("waits", "busybox", "true", metadata={"annotations": hold}))
    says(site, "waits", "False", "JobHeldUser")
    job = site.pod("waits")["metadata"]["annotations"][JOB]
    site.run("scontrol", "release", job)
    assert "earliest start time" in says(site, "waits", "False", "BeginTime")
    scontrol(site, "hold", job)
    says(site, "waits", "False", "JobHeldAdmin")
    site.run("scancel", job)
    ended = site.wait_phase("waits", "Failed")
    assert ended["status"]["reason"] == "Cancelled", site.story("waits")


def test_a_slurm_job_follows_what_is_done_to_its_job(site: Site) -> None:
    script = "until [ -e end ]; do sleep 0.1; done"
    spec = {"script": f"#!/bin/sh\n{script}\n", "options": {"hold": ""}}
    about = {"apiVersion": "slurm.orlop.dev/v1", "kind": "SlurmJob"}
    site.apply({**about, "metadata": {"name": "batch"}, "spec": spec})

    def status(state: str, reason: str = "") -> Obj:
        def probe() -> Obj:
            found: Obj = site.get("slurmjobs.slurm.orlop.dev", "batch").get("status", {})
            is_so = found.get("state") == state and found.get("reason", "") in (reason, "None")
            return found if is_so else {}

        return eventually(probe, f"the job is {state}, {reason}")

    job = str(status("PENDING", "JobHeldUser")["jobId"])
    site.run("scontrol", "release", job)
    status("RUNNING")
    for verb, state in (("suspend", "SUSPENDED"), ("resume", "RUNNING")):
        scontrol(site, verb, job)
        status(state)
    site.kubectl("delete", "slurmjob.slurm.orlop.dev", "batch")


def test_a_suspended_pod_says_so_and_goes_on_when_it_is_resumed(site: Site) -> None:
    site.apply(pod("stopped", "busybox", "until [ -e /tmp/end ]; do sleep 0.1; done"))
    site.wait_phase("stopped", "Running")
    job = site.pod("stopped")["metadata"]["annotations"][JOB]
    scontrol(site, "suspend", job)
    assert "is suspended" in says(site, "stopped", "True", "Suspended")
    assert site.pod("stopped")["status"]["phase"] == "Running"
    scontrol(site, "resume", job)
    says(site, "stopped", "True", "Running")
    end = ["kubectl", "-n", site.namespace, "exec", "stopped", "--", "touch", "/tmp/end"]
    eventually(lambda: site.run(*end, check=False).returncode == 0, "it can be reached again")
    site.wait_phase("stopped", "Succeeded")


def test_a_requeued_pod_is_pending_again_and_keeps_its_count(site: Site) -> None:
    """Its job's number stays; what had run before is in its journal, and counts."""
    folder = site.home.parent / "requeued"
    site.run("sh", "-c", f"rm -rf {folder}; mkdir {folder}")
    script = "[ -e /seen/again ] && exit 0; touch /seen/once; exec sleep 600"
    manifest = pod("again", "busybox", script, metadata={"annotations": REQUEUE})
    manifest["spec"]["volumes"] = [{"name": "seen", "hostPath": {"path": str(folder)}}]
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "seen", "mountPath": "/seen"}]
    site.apply(manifest)
    site.wait_phase("again", "Running")
    eventually(lambda: (folder / "once").exists(), "it has begun")
    before = site.pod("again")["metadata"]
    site.run("touch", str(folder / "again"))
    site.run("scontrol", "requeue", before["annotations"][JOB])
    says(site, "again", "False", "Requeued")
    ended = site.wait_phase("again", "Succeeded", timeout=120)
    assert ended["metadata"]["uid"] == before["uid"]
    assert ended["metadata"]["annotations"][JOB] == before["annotations"][JOB]
    assert ended["status"]["containerStatuses"][0]["restartCount"] == 1


REQUEUE = {"slurm.orlop.dev/requeue": ""}
