"""Probes, hooks and sidecars of whole pods, by the real agent with every runtime."""

from __future__ import annotations

import socket

import pytest

from .pods import container


def execs(script, **fields):
    return {"exec": {"command": ["/bin/sh", "-c", script]}, "periodSeconds": 1, **fields}


def volume(*containers):
    """Containers that share /data."""
    return [{**c, "mounts": [{"volume": "v", "path": "/data"}]} for c in containers]


# The first process of a namespace heeds only signals that it asks for.
WAITS = "trap 'exit 143' TERM; while :; do sleep 0.05; done"
SHARED = {"volumes": [{"name": "v", "kind": "emptyDir"}]}


def messages(pod, reason):
    return [r["message"] for r in pod.records("event") if r["reason"] == reason]


def health(pod, name="c"):
    records = [r for r in pod.records("health") if r["name"] == name]
    return [(r["started"], r["ready"]) for r in records]


def test_an_exec_probe_makes_a_container_ready_and_unready(make_pod, runtime):
    script = "sleep 0.3; touch /data/ready; sleep 1.5; rm /data/ready; exec sleep 30"
    probe = execs("echo looking; test -e /data/ready", failureThreshold=1)
    (main,) = volume(container(script=script, probes={"readiness": probe}))
    pod = make_pod(main, runtime=runtime, **SHARED).start()
    pod.wait_for(lambda: health(pod)[:2] == [(True, True), (True, False)])
    assert pod.records_of("running")[0]["ready"] is False
    assert messages(pod, "Unhealthy")[0] == "Readiness probe failed: looking\n"


def test_a_failed_liveness_probe_restarts_the_container(make_pod, runtime):
    script = "trap 'echo stopped; exit 0' TERM; while :; do sleep 0.1; done"
    probe = execs("exit 3", failureThreshold=1)
    main = container(script=script, probes={"liveness": probe})
    pod = make_pod(main, runtime=runtime, spec={"restartPolicy": "Always"}).start()
    pod.wait_for(lambda: len(pod.records_of("running")) == 2)
    assert pod.lines() == ["stopped"]
    assert messages(pod, "Killing")[0] == "Container c failed liveness probe, will be restarted"
    assert messages(pod, "Unhealthy")[0] == "Liveness probe failed: exit code 3"


def test_a_probes_own_grace_is_kept(make_pod):
    probe = execs("exit 1", failureThreshold=1, terminationGracePeriodSeconds=1)
    main = container(script="trap '' TERM; while :; do sleep 0.1; done", probes={"liveness": probe})
    pod = make_pod(main, spec={"terminationGracePeriodSeconds": 300}).start()
    assert pod.wait() == 137


def test_a_probe_that_takes_too_long_has_failed_and_is_ended(make_pod, runtime):
    probe = execs("echo $$ > /data/pid; exec sleep 60", timeoutSeconds=1, failureThreshold=1)
    (main,) = volume(container(script=WAITS, probes={"liveness": probe}))
    pod = make_pod(main, runtime=runtime, **SHARED).run()
    (words,) = messages(pod, "Unhealthy")
    assert words.endswith("timed out after 1s")
    assert pod.code == 143


def test_a_chatty_probe_is_read_to_its_end_and_told_in_part(make_pod):
    probe = execs("yes | head -c 300000; exit 1", failureThreshold=1, timeoutSeconds=10)
    pod = make_pod(container(script=WAITS, probes={"liveness": probe})).run()
    (words,) = messages(pod, "Unhealthy")
    assert len(words) == len("Liveness probe failed: ") + 10 * 1024


def test_a_probe_that_cannot_be_run_says_so_and_ends_nothing(make_pod):
    probe = {"exec": {"command": ["/no/such"]}, "periodSeconds": 1, "failureThreshold": 1}
    pod = make_pod(container(script="sleep 2.5", probes={"liveness": probe})).run()
    assert pod.code == 0
    assert "errored and resulted in unknown state" in messages(pod, "Unhealthy")[0]
    assert '"/no/such": no such file' in messages(pod, "Unhealthy")[0]


def test_a_port_of_the_pod_is_probed(make_pod, runtime):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    probes = {
        "startup": {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 30},
        "readiness": {"httpGet": {"port": port, "path": "/index.html"}, "periodSeconds": 1},
    }
    script = f"sleep 0.5; mkdir /tmp/w{port}; cd /tmp/w{port}; echo hi > index.html; "
    serve = f"exec busybox httpd -f -p 127.0.0.1:{port}"
    pod = make_pod(container(script=script + serve, probes=probes), runtime=runtime).start()
    pod.wait_for(lambda: (True, True) in health(pod))
    assert health(pod) == [(True, False), (True, True)]
    refused = f"Startup probe failed: dial tcp 127.0.0.1:{port}: connect: connection refused"
    assert messages(pod, "Unhealthy")[0] == refused


def test_hooks_run_after_the_start_and_before_the_stop(make_pod, runtime):
    hooks = {
        "postStart": execs("echo after the start >> /data/story"),
        "preStop": execs("echo before the stop >> /data/story"),
    }
    script = "trap 'echo stopped >> /data/story; cat /data/story; exit 0' TERM; "
    script += "while :; do sleep 0.1; done"
    (main,) = volume(container(script=script, hooks=hooks))
    pod = make_pod(main, runtime=runtime, **SHARED).start()
    pod.wait_for(lambda: pod.records_of("running"))
    pod.process.terminate()
    pod.wait()
    assert pod.lines() == ["after the start", "before the stop", "stopped"]


def test_a_failed_hook_after_the_start_ends_the_container(make_pod):
    hooks = {"postStart": execs("echo secret; exit 4")}
    pod = make_pod(container(script=WAITS, hooks=hooks)).run()
    assert pod.code == 143
    assert messages(pod, "FailedPostStartHook") == ["PostStartHook failed: exit code 4"]
    assert messages(pod, "Killing") == ["FailedPostStartHook"]


@pytest.mark.parametrize(
    ("hook", "least"),
    [({"sleep": {"seconds": 1}}, 1.0), (execs("sleep 60"), 2.0)],
    ids=["sleep", "too long"],
)
def test_a_hook_before_the_stop_has_the_grace_and_no_more(make_pod, hook, least):
    main = container(script=WAITS, hooks={"preStop": hook})
    pod = make_pod(main, spec={"terminationGracePeriodSeconds": 2}).start()
    pod.wait_for(lambda: pod.records_of("running"))
    pod.process.terminate()
    assert pod.wait() == 143
    (begun,) = pod.records("terminating")
    took = pod.status()["finishedAt"] - begun["time"]
    assert least - 0.1 <= took < 20
    assert messages(pod, "FailedPreStopHook") == []


def test_sidecars_start_first_and_end_last(make_pod, runtime):
    def named(name, after="while :; do sleep 0.05; done", **more):
        say = f"trap 'echo {name} ends >> /data/story; exit 0' TERM; "
        say += f"echo {name} begins >> /data/story; {after}"
        return container(name, script=say, **more)

    started = {"startup": execs("grep -q 'one begins' /data/story", failureThreshold=30)}
    one, two = volume(
        named("one", restartPolicy="Always", probes=started),
        named("two", restartPolicy="Always"),
    )
    (main,) = volume(named("main", "echo main ends >> /data/story; exit 0"))
    pod = make_pod(
        main, init=[one, two], runtime=runtime,
        volumes=[{"name": "v", "kind": "hostPath", "path": str(pod_folder(make_pod)), "type": ""}],
    ).run()  # fmt: skip
    assert pod.code == 0
    ends = [r["name"] for r in pod.records("container") if r["state"] == "terminated"]
    assert ends == ["main", "two", "one"]
    begins = [r["name"] for r in pod.records("container") if r["state"] == "running"]
    assert begins == ["one", "two", "main"]
    assert pod.records("finished")[0]["phase"] == "Succeeded"


def pod_folder(make_pod):
    """A folder that outlives the pod's own volumes; of the user's."""
    return make_pod(container()).folder
