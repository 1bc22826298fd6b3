"""Probes, hooks, sidecars and what goes on without a control plane, on real Slurm."""

from __future__ import annotations

import os
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest

from tests.e2e.site import Obj, Site, container, eventually, pod
from tests.e2e.test_streams import read_until, terminal

RUNTIME = "orlop.dev/runtime"
# The first process of a namespace heeds only signals that it asks for.
WAITS = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


@pytest.fixture(params=["crun", "apptainer"])
def runtime(request: pytest.FixtureRequest) -> Obj:
    """Metadata of a pod of that runtime."""
    return {"annotations": {RUNTIME: request.param}}


def execs(script: str, **fields: Any) -> Obj:
    return {"exec": {"command": ["sh", "-c", script]}, "periodSeconds": 1, **fields}


def hook(script: str) -> Obj:
    return {"exec": {"command": ["sh", "-c", script]}}


def condition(pod: Obj, kind: str) -> Obj:
    conditions = pod["status"].get("conditions", [])
    found: Obj = next((c for c in conditions if c["type"] == kind), {})
    return found


def status(pod: Obj, name: str = "main") -> Obj:
    lists = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    each = [item for key in lists for item in pod["status"].get(key, [])]
    found: Obj = next((item for item in each if item["name"] == name), {})
    return found


def words(site: Site, name: str, reason: str) -> list[str]:
    return [message for found, message in site.events(name) if found == reason]


def until(site: Site, name: str, what: Any, why: str) -> Obj:
    def reached() -> Obj | None:
        found = site.pod(name)
        return found if what(found) else None

    return eventually(reached, why)


def test_probes_decide_what_is_ready_and_what_is_restarted(site: Site, runtime: Obj) -> None:
    serve = "sleep 1; mkdir /w; echo ok > /w/index.html; busybox httpd -h /w -p 127.0.0.1:$PORT;"
    probes = {
        "env": [{"name": "PORT", "value": "18080"}],
        "ports": [{"name": "web", "containerPort": 18080}],
        "startupProbe": {"tcpSocket": {"port": "web"}, "periodSeconds": 1, "failureThreshold": 30},
        "readinessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 1, "failureThreshold": 1},
        "livenessProbe": execs("test ! -e /sick", failureThreshold=1),
    }
    spec = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 2}
    site.apply(pod("web", "busybox", serve + WAITS, container=probes, metadata=runtime, **spec))
    site.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=40s")
    place = f"{site.pod('web')['status']['podIP']}:18080"
    refused = f"Startup probe failed: dial tcp {place}: connect: connection refused"
    assert refused in words(site, "web", "Unhealthy")
    site.kubectl("exec", "web", "--", "rm", "/w/index.html")
    unready = until(site, "web", lambda p: condition(p, "Ready")["status"] == "False", "unready")
    assert condition(unready, "Ready")["message"] == "containers with unready status: [main]"
    assert status(unready)["started"] is True
    site.kubectl("exec", "web", "--", "touch", "/sick")
    site.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=40s")
    assert status(site.pod("web"))["restartCount"] == 1
    killing = "Container main failed liveness probe, will be restarted"
    assert killing in words(site, "web", "Killing")
    failed = "Readiness probe failed: HTTP probe failed with statuscode: 404"
    assert failed in words(site, "web", "Unhealthy")


def test_sidecars_hooks_and_gates(site: Site, runtime: Obj) -> None:
    shared = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    side = container(
        "busybox",
        "trap 'sleep 0.5; echo side ends; exit 0' TERM; touch /v/side; sleep 60 & wait",
        restartPolicy="Always",
        startupProbe=execs("test -e /v/side"),
        **shared,
    )
    hooks = {
        "lifecycle": {
            "postStart": hook("touch /v/hooked"),
            "preStop": hook("echo stopping > /proc/1/fd/1"),
        }
    }
    script = "while [ ! -e /v/hooked ]; do sleep 0.05; done; ls /v; " + WAITS
    gated = {"readinessGates": [{"conditionType": "example.com/open"}]}
    manifest = pod(
        "whole", "busybox", script, metadata=runtime, container={**hooks, **shared},
        initContainers=[{**side, "name": "side"}], volumes=[{"name": "v", "emptyDir": {}}], **gated,
    )  # fmt: skip
    site.apply(manifest)
    closed = until(
        site, "whole", lambda p: condition(p, "ContainersReady").get("status") == "True", "ready"
    )
    assert condition(closed, "Ready")["reason"] == "ReadinessGatesNotReady"
    assert site.kubectl("get", "pod", "whole", "--no-headers").split()[1] == "2/2"
    opened = '{"status":{"conditions":[{"type":"example.com/open","status":"True"}]}}'
    site.kubectl("patch", "pod", "whole", "--subresource=status", "-p", opened)
    site.kubectl("wait", "--for=condition=Ready", "pod/whole", "--timeout=20s")
    follow = site.popen(
        "kubectl", "-n", site.namespace, "logs", "-f", "whole", "--all-containers", stdout=-1
    )
    site.kubectl("delete", "pod", "whole", "--timeout=30s")
    said = follow.communicate(timeout=20)[0].decode().split("\n")
    assert {"hooked", "side"} <= set(said)
    assert said.index("stopping") < said.index("side ends")


def test_a_pod_with_a_sidecar_completes(site: Site, runtime: Obj) -> None:
    side = {**container("busybox", WAITS, restartPolicy="Always"), "name": "side"}
    site.apply(pod("batch", "busybox", "exit 0", metadata=runtime, initContainers=[side]))
    ended = site.wait_phase("batch", "Succeeded")
    assert status(ended, "side")["state"]["terminated"]["exitCode"] == 0


def test_probes_and_restarts_go_on_without_a_control_plane(own_site: Site) -> None:
    """What runs in an exec breaks with it, the pod does not, and all is on it afterwards."""
    site = own_site
    fields = {"livenessProbe": execs("test ! -e /v/sick", failureThreshold=1)}
    fields["readinessProbe"] = execs("test -e /v/good", failureThreshold=1)
    fields["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    script = "touch /v/good; rm -f /v/sick; " + WAITS
    volumes = [{"name": "v", "emptyDir": {}}]
    site.apply(
        pod("on", "busybox", script, container=fields, volumes=volumes, restartPolicy="Always")
    )
    site.kubectl("wait", "--for=condition=Ready", "pod/on", "--timeout=40s")
    job = site.squeue("%i")
    session = site.popen(
        "kubectl", "exec", "on", "--", "sh", "-c",
        "touch /v/began; sleep 600", stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL,
    )  # fmt: skip
    eventually(
        lambda: site.run("kubectl", "exec", "on", "--", "ls", "/v/began", check=False).stdout,
        "the session has begun",
    )
    site.run(
        "kubectl", "exec", "on", "--", "sh", "-c", "(sleep 3; touch /v/sick) >/dev/null 2>&1 &"
    )
    site.kill()
    assert session.wait(timeout=20) != 0, "that session is broken"
    (folder,) = (site.home / "pods").glob("*_on_*")
    journal = folder / "journal"
    eventually(
        lambda: '"restart":1,"state":"running"' in journal.read_text(), "restarted meanwhile"
    )
    assert site.squeue("%i") == job, "the same job goes on"
    site.up()
    pod_now = until(site, "on", lambda p: status(p)["restartCount"] >= 1, "it is on the pod")
    assert status(pod_now)["lastState"]["terminated"]["exitCode"] == 0
    site.kubectl("wait", "--for=condition=Ready", "pod/on", "--timeout=20s")
    eventually(
        lambda: (
            "Container main failed liveness probe, will be restarted"
            in words(site, "on", "Killing")
        ),
        "the event of that time",
    )
    again = ("kubectl", "exec", "on", "--", "ls", "/v/good")
    eventually(lambda: site.run(*again, check=False).stdout, "its agent has dialled again")


def test_kubectl_debug_looks_into_a_running_pod(site: Site, runtime: Obj) -> None:
    script = "echo secret > /inside; " + WAITS
    site.apply(pod("sealed", "busybox", script, metadata=runtime, terminationGracePeriodSeconds=0))
    site.wait_phase("sealed", "Running")
    look = "cat /proc/1/root/inside; tr '\\0' ' ' < /proc/1/cmdline; id -u"
    asked = ["debug", "sealed", "-c", "look", "--image=busybox", "--target=main"]
    site.kubectl(*asked, "--profile=general", "--", "sh", "-c", look)
    done = until(
        site, "sealed", lambda p: "terminated" in status(p, "look").get("state", {}), "looked"
    )
    assert status(done, "look")["state"]["terminated"]["exitCode"] == 0
    said = site.kubectl("logs", "sealed", "-c", "look")
    assert said.startswith("secret\n")
    assert "trap" in said, "the processes of its target"
    assert status(done)["restartCount"] == 0
    attached = site.popen(
        "kubectl", "-n", site.namespace, "debug", "sealed", "-i", "-c", "talk", "--image=busybox",
        "--", "sh", "-c", "read line; echo heard $line", stdin=PIPE, stdout=PIPE, stderr=DEVNULL,
    )  # fmt: skip
    until(site, "sealed", lambda p: "running" in status(p, "talk").get("state", {}), "it waits")
    said = attached.communicate(b"you\n", timeout=30)[0].decode()
    assert "heard you" in said
    shell = ["debug", "-it", "sealed", "-c", "shell", "--image=busybox", "--", "sh"]
    with terminal(site, "kubectl", "-n", site.namespace, *shell) as (fd, _):
        until(site, "sealed", lambda p: "running" in status(p, "shell").get("state", {}), "it runs")
        os.write(fd, b"\n")
        read_until(fd, "# ", 30)
        os.write(fd, b"echo at $((40+2)); exit 5\n")
        read_until(fd, "at 42", 30)
    ended = until(
        site, "sealed", lambda p: "terminated" in status(p, "shell").get("state", {}), "it ended"
    )
    assert status(ended, "shell")["state"]["terminated"]["exitCode"] == 5
    missing = ["debug", "sealed", "-c", "gone", "--image=busybox:no-such-tag", "--", "true"]
    site.kubectl(*missing)
    found = until(
        site,
        "sealed",
        lambda p: status(p, "gone").get("state", {}).get("waiting", {}).get("message"),
        "says why",
    )
    assert status(found, "gone")["state"]["waiting"]["reason"] == "ErrImagePull"
    site.kubectl("delete", "pod", "sealed")


def test_a_pod_shares_processes_and_a_node_can_be_looked_at(site: Site, runtime: Obj) -> None:
    two = [{**container("busybox", WAITS), "name": "one"}, container("busybox", "sleep 0.5; ps")]
    manifest = pod("shared", "busybox", "", metadata=runtime, shareProcessNamespace=True)
    manifest["spec"]["containers"] = two
    site.apply(manifest)
    until(site, "shared", lambda p: "terminated" in status(p).get("state", {}), "it has looked")
    assert "trap 'exit 0' TERM" in site.kubectl("logs", "shared", "-c", "main")
    site.kubectl("delete", "pod", "shared")
    of_node = {"hostPID": True, "hostIPC": True}
    site.apply(pod("node", "busybox", "ps -o args", metadata=runtime, **of_node))
    site.wait_phase("node", "Succeeded")
    assert "slurmstepd" in site.kubectl("logs", "node")


def test_a_runtime_that_the_node_lacks_is_named_and_not_replaced(site: Site) -> None:
    asked = {"annotations": {RUNTIME: "singularity"}}
    site.apply(pod("picky", "busybox", "echo wrong", metadata=asked))
    failed = site.wait_phase("picky", "Failed")
    ended = status(failed)["state"]["terminated"]
    assert ended["reason"] == "StartError"
    assert "asks for singularity, which this node does not have" in ended["message"]


def test_a_job_cannot_be_resized(site: Site) -> None:
    site.apply(pod("fixed", "busybox", "sleep 60", terminationGracePeriodSeconds=0))
    wish = '{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"2"}}}]}}'
    argv = ["kubectl", "-n", site.namespace, "patch", "pod", "fixed", "--subresource=resize"]
    refused = site.run(*argv, "-p", wish, check=False)
    assert "those of its Slurm job, which cannot change" in refused.stderr
    site.kubectl("delete", "pod", "fixed")


def test_kubectl_run_passes_its_input_on_to_the_end(site: Site) -> None:
    """stdinOnce: with the client's input the container's ends, and with that the pod."""
    argv = ["kubectl", "-n", site.namespace, "run", "once", "-i", "--rm", "--restart=Never"]
    done = site.run(*argv, "--image=busybox", "--", "sort", input="b\na\n", timeout=60)
    assert done.stdout.startswith("a\nb\n")
