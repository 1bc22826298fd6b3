"""A pod, a Job, a Deployment: each pod a Slurm job under its own name, spread by Slurm."""

from __future__ import annotations

from tests.e2e.site import Site, eventually, pod, terminated


def test_a_pod_runs_as_a_slurm_job_under_its_own_name(site: Site) -> None:
    site.apply(pod("hello", "busybox", "echo hello from $(hostname); sleep 3"))
    running = site.wait_phase("hello", "Running")
    job = running["metadata"]["annotations"]["slurm.orlop.dev/job-id"]
    name, user, node = site.squeue("%j|%u|%N", "-t", "all", "-j", job)[0].split("|")
    assert name == f"{site.namespace}/hello"
    assert user == site.cluster.user
    assert node == running["metadata"]["annotations"]["slurm.orlop.dev/node-list"]
    ended = site.wait_phase("hello", "Succeeded")
    assert terminated(ended)["exitCode"] == 0
    assert site.kubectl("logs", "hello") == "hello from hello\n"


def test_get_pods_wide_shows_the_compute_node_and_the_pods_own_address(site: Site) -> None:
    site.apply(pod("where", "busybox", "sleep 30", terminationGracePeriodSeconds=0))
    site.wait_phase("where", "Running")
    job_node = site.squeue("%N", "--name", f"{site.namespace}/where")[0]
    row = site.kubectl("get", "pod", "where", "-o", "wide", "--no-headers").split()
    assert job_node in row
    status = site.get("pod", "where")["status"]
    assert status["podIP"].startswith("10.244.")
    assert status["podIP"] in row
    assert status["hostIP"] == site.cluster.spec.addresses[job_node]
    site.kubectl("delete", "pod", "where")


def test_the_exit_code_of_a_failing_pod_is_its_own(site: Site) -> None:
    site.apply(pod("fails", "busybox", "exit 42"))
    ended = terminated(site.wait_phase("fails", "Failed"))
    assert (ended["exitCode"], ended["reason"]) == (42, "Error")


def test_a_job_of_20_completions_runs_8_at_a_time_over_all_nodes(site: Site) -> None:
    site.apply(f"""
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: twenty, namespace: {site.namespace}}}
        spec:
          completions: 20
          parallelism: 8
          template:
            spec:
              restartPolicy: Never
              containers:
              - name: main
                image: busybox
                command: [sh, -c, "sleep 1"]
                resources: {{requests: {{cpu: 4}}}}
    """)
    site.kubectl("wait", "--for=condition=complete", "job/twenty", "--timeout=100s", timeout=110)
    pods = site.pods("job-name=twenty")
    status = site.get("job", "twenty")["status"]
    assert status["succeeded"] == 20
    assert status.get("failed", 0) == 0
    assert len(pods) == 20
    assert {p["status"]["phase"] for p in pods} == {"Succeeded"}
    jobs = {p["metadata"]["annotations"]["slurm.orlop.dev/job-id"] for p in pods}
    assert len(jobs) == 20
    nodes = {p["metadata"]["annotations"]["slurm.orlop.dev/node-list"] for p in pods}
    assert nodes == set(site.cluster.spec.node_names)


def test_a_deployment_of_6_runs_heals_and_scales(site: Site) -> None:
    site.apply(f"""
        apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: web, namespace: {site.namespace}}}
        spec:
          replicas: 6
          selector: {{matchLabels: {{app: web}}}}
          template:
            metadata: {{labels: {{app: web}}}}
            spec:
              terminationGracePeriodSeconds: 1
              containers:
              - {{name: main, image: busybox, command: [sleep, "600"]}}
    """)
    site.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    names = site.squeue("%j %t", "-t", "running")
    assert len([n for n in names if n.startswith(f"{site.namespace}/web-")]) == 6
    victim = site.pods("app=web")[0]["metadata"]
    site.run("scancel", victim["annotations"]["slurm.orlop.dev/job-id"])

    def healed() -> bool:
        alive = [p for p in site.pods("app=web") if p["status"]["phase"] == "Running"]
        return len(alive) == 6 and victim["uid"] not in {p["metadata"]["uid"] for p in alive}

    eventually(healed, "six running pods again")
    site.kubectl("scale", "deployment/web", "--replicas=2")
    eventually(lambda: len(site.squeue("%i", "-t", "running")) == 2, "two jobs left")
    site.kubectl("delete", "deployment", "web")
    eventually(lambda: not site.squeue("%i"), "no jobs left")
    eventually(lambda: site.kubectl("get", "rs", "-o", "name") == "", "no ReplicaSet left")


def test_deleting_a_pod_gives_it_its_grace_and_ends_its_job(site: Site) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo ready; while true; do sleep 0.1; done"
    site.apply(pod("polite", "busybox", script))
    site.wait_phase("polite", "Running")
    eventually(lambda: "ready" in site.kubectl("logs", "polite"), "the trap is set")
    with site.popen("kubectl", "-n", site.namespace, "logs", "-f", "polite", stdout=-1) as follower:
        site.kubectl("delete", "pod", "polite", "--timeout=30s")
        said, _ = follower.communicate(timeout=20)
    assert b"bye" in said
    assert site.squeue("%i", "--name", f"{site.namespace}/polite") == []


def test_a_pod_that_ignores_term_is_killed_after_its_grace(site: Site) -> None:
    script = "trap '' TERM; while true; do sleep 0.1; done"
    site.apply(pod("stubborn", "busybox", script, terminationGracePeriodSeconds=1))
    site.wait_phase("stubborn", "Running")
    site.kubectl("delete", "pod", "stubborn", "--timeout=30s")
    assert site.squeue("%i", "--name", f"{site.namespace}/stubborn") == []


def test_deleting_a_queued_pod_takes_its_job_out_of_the_queue(site: Site) -> None:
    site.apply(
        pod(
            "queued",
            "busybox",
            "true",
            metadata={"annotations": {"slurm.orlop.dev/hold": ""}},
        )
    )
    eventually(lambda: site.squeue("%T", "--name", f"{site.namespace}/queued"), "it is queued")
    condition = eventually(
        lambda: [
            c
            for c in site.pod("queued")["status"].get("conditions", [])
            if c["type"] == "orlop.dev/Allocated" and c.get("reason") == "JobHeldUser"
        ],
        "Slurm's reason on the pod",
    )[0]
    assert condition["status"] == "False"
    assert "main" in condition["message"]
    site.kubectl("delete", "pod", "queued", "--timeout=20s")
    assert site.squeue("%i", "--name", f"{site.namespace}/queued") == []
