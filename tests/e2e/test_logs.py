"""kubectl logs with all its flags: of a running pod live, of an ended one from its files."""

from __future__ import annotations

import re
import subprocess
import time

from tests.e2e.site import Site, eventually, pod


def test_a_followed_line_arrives_within_a_second_of_being_written(site: Site) -> None:
    script = "import time\nwhile True:\n  print(time.time(), flush=True)\n  time.sleep(0.5)"
    manifest = pod("clock", "python", "", terminationGracePeriodSeconds=0)
    manifest["spec"]["containers"][0]["command"] = ["python3", "-c", script]
    site.apply(manifest)
    site.wait_phase("clock", "Running")
    argv = ["kubectl", "-n", site.namespace, "logs", "-f", "clock"]
    delays = []
    with site.popen(*argv, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout
        for number, line in enumerate(follower.stdout):
            delays.append(time.time() - float(line))
            if number >= 8:
                follower.kill()
                break
    site.kubectl("delete", "pod", "clock")
    # The first lines were written before kubectl asked; those after it count.
    assert max(delays[-4:]) < 1.0, delays


def test_following_ends_when_the_container_does_and_loses_nothing(site: Site) -> None:
    script = "for i in $(seq 300); do echo line $i; done; sleep 1; echo last"
    site.apply(pod("many", "busybox", script))
    eventually(lambda: site.pod("many")["status"].get("containerStatuses"), "it has a status")
    site.wait_phase("many", "Running", "Succeeded")
    said = site.kubectl("logs", "-f", "many").splitlines()
    assert said == [*(f"line {i}" for i in range(1, 301)), "last"]


def test_the_logs_of_an_ended_pod_can_be_cut_and_stamped(site: Site) -> None:
    site.apply(pod("ended", "busybox", "echo one; sleep 2; echo two; echo three >&2; printf four"))
    site.wait_phase("ended", "Succeeded")
    assert site.kubectl("logs", "ended").split() == ["one", "two", "three", "four"]
    assert site.kubectl("logs", "--tail=2", "ended").split() == ["three", "four"]
    assert site.kubectl("logs", "--limit-bytes=3", "ended") == "one"
    stamped = site.kubectl("logs", "--timestamps", "ended").splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z ", line) for line in stamped)
    second = stamped[1].split()[0]
    assert site.kubectl("logs", f"--since-time={second}", "ended").split()[0] == "two"
    assert site.kubectl("logs", "--since=1h", "ended").split()[0] == "one"


def test_previous_shows_the_container_before_the_restart(site: Site) -> None:
    script = "echo run; sleep 0.2; exit 3"
    site.apply(pod("again", "busybox", script, restartPolicy="OnFailure"))

    def restarts() -> int:
        statuses = site.pod("again")["status"].get("containerStatuses") or [{}]
        count: int = statuses[0].get("restartCount", 0)
        return count

    eventually(lambda: restarts() >= 1, "one restart", timeout=40)
    assert site.kubectl("logs", "--previous", "again") == "run\n"
    site.kubectl("delete", "pod", "again", "--grace-period=1")


def test_each_container_has_its_own_log(site: Site) -> None:
    manifest = pod("two", "busybox", "echo main")
    side = {"name": "side", "image": "busybox", "command": ["sh", "-c", "echo side"]}
    manifest["spec"]["containers"].append(side)
    site.apply(manifest)
    site.wait_phase("two", "Succeeded")
    assert site.kubectl("logs", "two", "-c", "side") == "side\n"
    assert site.kubectl("logs", "two", "-c", "main") == "main\n"
    refused = site.run("kubectl", "-n", site.namespace, "logs", "two", "-c", "nosuch", check=False)
    assert refused.returncode != 0
    assert "nosuch" in refused.stderr
