"""Whose account a pod is charged to, and pods that Slurm will never start, on a real Slurm."""

from __future__ import annotations

from tests.cluster.spec import HEAD
from tests.e2e.site import Site, eventually, pod

SLURM = "slurm.orlop.dev/"
URGENT = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {
        "name": "urgent-by-annotation",
        "annotations": {SLURM + "qos": "high", SLURM + "nice": "7"},
    },
    "value": 1000,
}


def test_namespaces_are_accounts_and_impossible_pods_say_so_at_once(accounted_site: Site) -> None:
    site = accounted_site
    policy = {"account": "teaching", "partition": "short", "time": "5", "max-time": "4",
              "wckey": "spring", "reservation": "course"}  # fmt: skip
    notes = [f"{SLURM}{name}={value}" for name, value in policy.items()]
    site.kubectl("annotate", "namespace", site.namespace, *notes)
    site.apply(URGENT)
    reserve(site, "create", "reservation=course", "nodes=n1", "start=now", "duration=60",
            f"users={site.cluster.user}", "flags=ignore_jobs")  # fmt: skip
    site.apply(pod("charged", "busybox", "sleep 600", priorityClassName="urgent-by-annotation",
                   terminationGracePeriodSeconds=0))  # fmt: skip
    site.apply(pod("greedy", "busybox", "true", container={
        "resources": {"limits": {"nvidia.com/gpu-h100": 1}}}))  # fmt: skip
    too_long = {"annotations": {SLURM + "time": "10"}}
    site.apply(pod("long", "busybox", "true", metadata=too_long))

    site.wait_phase("charged", "Running")
    jobs = site.squeue("%a %q %P %l %w %v", f"--name={site.namespace}/charged")
    assert jobs == ["teaching high short 4:00 spring course"]
    told_job = site.run("scontrol", "show", "job", site.squeue("%i")[0]).stdout
    assert "Nice=7 " in told_job

    def told(name: str, reason: str, words: str) -> bool:
        return any(why == reason and words in said for why, said in site.events(name))

    eventually(lambda: told("greedy", "FailedScheduling", "Insufficient nvidia.com/gpu-h100"),
               "no partition has such a GPU")  # fmt: skip
    eventually(lambda: told("long", "SubmitRejected", "allows 4 min"), "the namespace has a limit")
    site.kubectl("delete", "pod", "charged")
    site.kubectl("delete", "priorityclass", "urgent-by-annotation")
    # Without any grace the pod goes at once, and its job a moment later.
    eventually(lambda: not site.squeue("%i"), "nobody uses the reservation")
    reserve(site, "delete", "reservation=course")


def reserve(site: Site, *words: str) -> None:
    """As an administrator."""
    site.cluster.run(HEAD, ["scontrol", *words])


def test_a_quota_mirrors_the_limits_of_the_account(accounted_site: Site) -> None:
    site = accounted_site
    limit = ["sacctmgr", "--immediate", "modify", "user", site.cluster.user]
    limit += ["where", "account=teaching", "set"]
    site.cluster.run(HEAD, [*limit, "GrpTRES=cpu=6", "MaxSubmitJobs=7"])
    try:
        notes = (f"{SLURM}account=teaching", f"{SLURM}mirror-quota=true")
        site.kubectl("annotate", "namespace", site.namespace, *notes)
        hard = {"pods": "7", "requests.cpu": "6"}

        def mirrored() -> bool:
            found = {one["metadata"]["name"]: one for one in site.get("quota")["items"]}
            return (found.get("slurm-limits") or {"spec": {}})["spec"].get("hard") == hard

        eventually(mirrored, "the quota says what sacctmgr says", 60)
    finally:
        site.cluster.run(HEAD, [*limit, "GrpTRES=cpu=-1", "MaxSubmitJobs=-1"])
