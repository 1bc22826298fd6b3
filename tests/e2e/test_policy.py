"""Whose account a pod is charged to, and pods that Slurm will never start, on a real Slurm."""

from __future__ import annotations

from tests.e2e.site import Site, eventually, pod

SLURM = "slurm.orlop.dev/"
URGENT = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent-by-annotation", "annotations": {SLURM + "qos": "high"}},
    "value": 1000,
}


def test_namespaces_are_accounts_and_impossible_pods_say_so_at_once(accounted_site: Site) -> None:
    site = accounted_site
    policy = {"account": "teaching", "partition": "short", "time": "5", "max-time": "4"}
    notes = [f"{SLURM}{name}={value}" for name, value in policy.items()]
    site.kubectl("annotate", "namespace", site.namespace, *notes)
    site.apply(URGENT)
    site.apply(pod("charged", "busybox", "sleep 600", priorityClassName="urgent-by-annotation",
                   terminationGracePeriodSeconds=0))  # fmt: skip
    site.apply(pod("greedy", "busybox", "true", container={
        "resources": {"limits": {"nvidia.com/gpu-h100": 1}}}))  # fmt: skip
    too_long = {"annotations": {SLURM + "time": "10"}}
    site.apply(pod("long", "busybox", "true", metadata=too_long))

    site.wait_phase("charged", "Running")
    jobs = site.squeue("%a %q %P %l", f"--name={site.namespace}/charged")
    assert jobs == ["teaching high short 4:00"]

    def told(name: str, reason: str, words: str) -> bool:
        return any(why == reason and words in said for why, said in site.events(name))

    eventually(lambda: told("greedy", "FailedScheduling", "Insufficient nvidia.com/gpu-h100"),
               "no partition has such a GPU")  # fmt: skip
    eventually(lambda: told("long", "SubmitRejected", "allows 4 min"), "the namespace has a limit")
    site.kubectl("delete", "priorityclass", "urgent-by-annotation")
