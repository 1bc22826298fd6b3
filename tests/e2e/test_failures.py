"""Every way to fail ends in the status and the words that the documentation promises."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.e2e.site import Obj, Site, eventually, pod, terminated


def annotated(name: str, script: str, annotations: dict[str, str], **spec: Any) -> Obj:
    return pod(name, "busybox", script, metadata={"annotations": annotations}, **spec)


def waiting(pod: Obj) -> Obj:
    statuses = pod["status"].get("containerStatuses") or [{}]
    state: Obj = statuses[0].get("state", {}).get("waiting", {})
    return state


def condition(pod: Obj, kind: str) -> Obj:
    conditions = pod["status"].get("conditions", [])
    found: Obj = next((c for c in conditions if c["type"] == kind), {})
    return found


def wait_reason(site: Site, name: str, *reasons: str) -> Obj:
    return eventually(
        lambda: next((p for p in [site.pod(name)] if waiting(p).get("reason") in reasons), None),
        f"{name} waits for {reasons}",
    )


@pytest.mark.timeout(200)
def test_a_pod_over_its_time_limit_failed_with_deadline_exceeded(site: Site) -> None:
    site.apply(annotated("slow", "sleep 600", {"slurm.orlop.dev/time": "5"}))
    running = site.wait_phase("slow", "Running")
    job = running["metadata"]["annotations"]["slurm.orlop.dev/job-id"]
    assert site.squeue("%l", "-j", job) == ["5:00"]
    site.cluster.expire(job)
    ended = site.wait_phase("slow", "Failed", timeout=150)
    assert ended["status"]["reason"] == "DeadlineExceeded"
    assert "time limit" in ended["status"]["message"].lower()


def test_scancel_ends_the_pod_truthfully(site: Site) -> None:
    site.apply(pod("cancelled", "busybox", "sleep 600"))
    running = site.wait_phase("cancelled", "Running")
    site.run("scancel", running["metadata"]["annotations"]["slurm.orlop.dev/job-id"])
    ended = site.wait_phase("cancelled", "Failed")
    disruption = condition(ended, "DisruptionTarget")
    assert (disruption["status"], disruption["reason"]) == ("True", "Cancelled")
    assert "scancel" in ended["status"]["message"] or "cancel" in ended["status"]["message"]


def test_a_wrong_image_name_says_so_and_takes_no_job(site: Site) -> None:
    site.apply(pod("noimage", "nosuch:1.0", "true"))
    seen = wait_reason(site, "noimage", "ErrImagePull", "ImagePullBackOff")
    assert "nosuch" in waiting(seen)["message"]
    eventually(lambda: [e for e in site.events("noimage") if e[0] == "Failed"], "an event")
    assert site.squeue("%i", "--name", f"{site.namespace}/noimage") == []
    site.kubectl("delete", "pod", "noimage", "--timeout=10s")


def test_a_wrong_command_says_which(site: Site) -> None:
    manifest = pod("nocommand", "busybox", "")
    manifest["spec"]["containers"][0]["command"] = ["/no/such/program"]
    site.apply(manifest)
    ended = terminated(site.wait_phase("nocommand", "Failed"))
    assert ended["exitCode"] in (127, 128)
    assert ended["reason"] == "StartError"
    assert "/no/such/program" in ended["message"]


@pytest.mark.parametrize(
    ("name", "annotations", "words"),
    [
        ("partition", {"slurm.orlop.dev/flags": "--partition=nosuch"}, "partition"),
        ("flag", {"slurm.orlop.dev/flags": "--no-such-flag"}, "no-such-flag"),
        ("memory", {"slurm.orlop.dev/mem": "900G"}, "node"),
    ],
    ids=["bad partition", "bad flag", "too much memory"],
)
def test_a_rejected_submission_waits_with_slurms_words(
    site: Site, name: str, annotations: dict[str, str], words: str
) -> None:
    site.apply(annotated(f"bad-{name}", "true", annotations))

    def told() -> bool:
        conditions = site.pod(f"bad-{name}")["status"].get("conditions", [])
        return any(words in c.get("message", "") for c in conditions if c["status"] == "False")

    eventually(told, f"a condition that says {words}")
    assert site.pod(f"bad-{name}")["status"]["phase"] == "Pending"
    eventually(lambda: any(words in m for _, m in site.events(f"bad-{name}")), "an event")
    assert site.squeue("%i", "--name", f"{site.namespace}/bad-{name}") == []
    site.kubectl("delete", "pod", f"bad-{name}", "--timeout=10s")


def test_a_mended_annotation_lets_a_rejected_pod_run(site: Site) -> None:
    site.apply(annotated("mended", "echo ok", {"slurm.orlop.dev/licenses": "nosuch"}))
    wait_reason(site, "mended", "SubmitRejected")
    site.kubectl("annotate", "pod", "mended", "slurm.orlop.dev/licenses-")
    site.wait_phase("mended", "Succeeded", timeout=30)


def test_a_missing_config_map_is_named_until_it_comes(site: Site) -> None:
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "a"}}}]
    site.apply(pod("config", "busybox", "echo $A", container={"env": env}))
    seen = wait_reason(site, "config", "CreateContainerConfigError")
    assert "late" in waiting(seen)["message"]
    site.kubectl("create", "configmap", "late", "--from-literal=a=now")
    site.wait_phase("config", "Succeeded", timeout=40)
    assert site.kubectl("logs", "config") == "now\n"


@pytest.mark.timeout(240)
def waits(site: Site, name: str) -> bool:
    """Whether a deleted pod says, in both places, that it goes when Slurm answers again."""
    said = condition(site.pod(name), "orlop.dev/EngineReachable").get("message", "")
    told = [message for reason, message in site.events(name) if reason == "FailedKillPod"]
    return all("goes when the engine answers again" in text for text in [said, *(told or [""])])


def test_slurmctld_down_changes_nothing_but_a_condition(own_site: Site) -> None:
    site = own_site
    site.apply(pod("through", "busybox", "sleep 20; echo done"))
    going = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
    site.apply(pod("going", "busybox", going, terminationGracePeriodSeconds=2))
    site.wait_phase("through", "Running")
    site.wait_phase("going", "Running")
    site.cluster.stop_slurmctld()
    try:
        site.apply(pod("later", "busybox", "echo later"))
        site.kubectl("delete", "pod", "going", "--wait=false")
        eventually(
            lambda: (
                condition(site.pod("through"), "orlop.dev/EngineReachable").get("status") == "False"
            ),
            "the pod says that Slurm does not answer",
            timeout=60,
        )
        assert site.pod("through")["status"]["phase"] == "Running"
        eventually(lambda: waits(site, "going"), "a deleted pod says what it waits for", 40)
        time.sleep(20)
        assert terminated(site.wait_phase("through", "Succeeded"))["exitCode"] == 0
        assert site.pod("later")["status"]["phase"] == "Pending"
        assert "slurm" in str(site.pod("later")["status"]).lower()
    finally:
        site.cluster.start_slurmctld()
    site.wait_phase("later", "Succeeded", timeout=90)
    site.kubectl("wait", "--for=delete", "pod/going", "--timeout=60s", timeout=70)
    assert site.kubectl("logs", "through") == "done\n"
    assert site.kubectl("logs", "later") == "later\n"


@pytest.mark.timeout(400)
def test_a_powered_off_node_is_node_lost(own_site: Site) -> None:
    site = own_site
    site.apply(annotated("lost", "sleep 600", {"slurm.orlop.dev/nodelist": "n3"}))
    gang = {"slurm.orlop.dev/gang": "g", "slurm.orlop.dev/gang-size": "2"}
    gang["slurm.orlop.dev/nodelist"] = "n3,n4"  # a member on each
    names = ["lost", "m0", "m1"]
    for name in names[1:]:
        site.apply(annotated(name, "sleep 600", gang))
    for name in names:
        site.wait_phase(name, "Running", timeout=90)
    site.cluster.power_off("n3")
    for name in names:
        ended = site.wait_phase(name, "Failed", timeout=120)
        assert ended["status"]["reason"] == "NodeLost", site.story(name)
        assert "failed under job" in ended["status"]["message"]
    assert "n3" in site.pod("lost")["status"]["message"]
    eventually(lambda: not site.squeue("%i"), "nothing is left of the gang", 60)
    site.cluster.power_on("n3")


@pytest.mark.timeout(240)
def test_a_container_over_its_memory_is_oom_killed_alone(limited_site: Site) -> None:
    site = limited_site
    manifest = pod(
        "hungry",
        "python",
        "python3 -c 'x = bytearray(200 << 20); print(len(x))'",
        container={"resources": {"limits": {"memory": "64Mi"}}},
    )
    side = {
        "name": "side",
        "image": "busybox",
        "command": ["sh", "-c", "sleep 4; echo alive"],
        "resources": {"limits": {"memory": "64Mi"}},
    }
    manifest["spec"]["containers"].append(side)
    site.apply(manifest)
    ended = site.wait_phase("hungry", "Failed", "Succeeded")
    hungry = terminated(ended)
    assert (hungry["exitCode"], hungry["reason"]) == (137, "OOMKilled")
    assert site.kubectl("logs", "hungry", "-c", "side") == "alive\n"


HUNGRY = """\
import os, sys, time
x = bytearray((300 << 20) * (os.environ.get('SLURM_PROCID', '0') == sys.argv[1]))
time.sleep(30)
"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("shape", [{}, {"nodes": "2", "ntasks": "2"}], ids=["alone", "a rank of 2"])
def test_a_job_over_its_memory_is_oom_killed(limited_site: Site, shape: dict[str, str]) -> None:
    site = limited_site
    options = {f"slurm.orlop.dev/{name}": value for name, value in {**shape, "mem": "80M"}.items()}
    manifest = annotated("job-hungry", "", options)
    main = manifest["spec"]["containers"][0]
    main["image"] = "python"
    main["command"] = ["python3", "-c", HUNGRY, "1" if shape else "0"]
    site.apply(manifest)
    ended = site.wait_phase("job-hungry", "Failed")
    assert terminated(ended)["reason"] == "OOMKilled"
    assert terminated(ended)["exitCode"] == 137


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("account", "your accounts: research, teaching"),
        ("qos", "your QOS: high, low, normal"),
        ("reservation", "reservation is invalid"),
    ],
)
def test_what_slurm_does_not_know_is_refused_with_what_one_has(
    accounted_site: Site, option: str, words: str
) -> None:
    site = accounted_site
    site.apply(annotated(option, "true", {f"slurm.orlop.dev/{option}": "nosuch"}))
    seen = wait_reason(site, option, "SubmitRejected")
    assert words in waiting(seen)["message"], waiting(seen)
    assert seen["status"]["phase"] == "Pending"
