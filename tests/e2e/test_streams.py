"""exec, attach, cp and port-forward with the real kubectl, on a real Slurm, in every runtime.

ORLOP_KUBECTLS may name further kubectl programs, separated by colons; old ones speak SPDY.
"""

from __future__ import annotations

import os
import pty
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.site import Site, eventually, pod

KUBECTLS = ["kubectl", *filter(None, os.environ.get("ORLOP_KUBECTLS", "").split(":"))]
RUNTIMES = ["crun", "apptainer", "host"]
WAITING = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done"


def start(site: Site, runtime: str = "crun", script: str = WAITING, **spec: Any) -> str:
    """A running pod; its name."""
    name = spec.pop("name", "target")
    image = "host" if runtime == "host" else spec.pop("image", "python")
    manifest = pod(name, image, script, **spec)
    if runtime != "host":
        manifest["metadata"]["annotations"] = {"orlop.dev/runtime": runtime}
    site.apply(manifest)
    site.wait_phase(name, "Running")
    eventually(lambda: "ready" in site.kubectl("logs", name), "the pod is ready")
    return str(name)


def run(site: Site, kubectl: str, *args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return site.run(kubectl, "-n", site.namespace, *args, check=False, **options)


def processes(marker: str) -> str:
    """Of all nodes: they are namespaces of this machine."""
    return subprocess.run(["pgrep", "-f", marker], capture_output=True, text=True).stdout


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_exec_has_output_errors_input_and_exit_code(site: Site, runtime: str) -> None:
    name = start(site, runtime)
    for kubectl in KUBECTLS:
        script = "cat; echo out; echo err >&2; exit 42"
        ended = run(site, kubectl, "exec", "-i", name, "--", "sh", "-c", script, input="in\n")
        assert (ended.returncode, ended.stdout) == (42, "in\nout\n"), (kubectl, ended)
        assert ended.stderr.startswith("err\n")
        assert "exit code 42" in ended.stderr
        assert run(site, kubectl, "exec", name, "--", "true").returncode == 0


@pytest.mark.parametrize("kubectl", KUBECTLS)
def test_20_megabytes_go_by_cp_both_ways(site: Site, kubectl: str) -> None:
    name = start(site)
    there, back = site.home.parent / "there", site.home.parent / "back"
    site.run("sh", "-c", f"head -c 20000000 /dev/urandom > {there}; rm -f {back}")
    assert run(site, kubectl, "cp", str(there), f"{name}:/tmp/there").returncode == 0
    inside = site.kubectl("exec", name, "--", "sha256sum", "/tmp/there").split()[0]
    assert run(site, kubectl, "cp", f"{name}:/tmp/there", str(back)).returncode == 0
    sums = site.run("sha256sum", str(there), str(back)).stdout.split()
    assert sums[0] == sums[2] == inside


def test_many_commands_run_at_once(site: Site) -> None:
    name = start(site)
    command = f"kubectl -n {site.namespace} exec {name} -- sh -c"
    script = f'for i in $(seq 30); do {command} "echo $i; exit $i" || echo code $? & done; wait'
    seen = site.run("sh", "-c", script, timeout=100).stdout.splitlines()
    assert sorted(seen) == sorted(w for i in range(1, 31) for w in (str(i), f"code {i}"))


@contextmanager
def terminal(site: Site, *argv: str) -> Iterator[tuple[int, subprocess.Popen[Any]]]:
    """A command on a terminal of its own."""
    ours, theirs = pty.openpty()
    command = site.popen(*argv, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        yield ours, command
    finally:
        command.kill()
        command.wait()
        os.close(ours)


def read_until(fd: int, words: str, timeout: float = 15.0) -> str:
    seen, until = "", time.monotonic() + timeout
    os.set_blocking(fd, False)
    while words not in seen:
        assert time.monotonic() < until, f"no {words!r} in {seen!r}"
        try:
            seen += os.read(fd, 65536).decode(errors="replace")
        except BlockingIOError:
            time.sleep(0.02)
    return seen


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("kubectl", KUBECTLS)
def test_a_terminal_has_the_size_of_ones_own(site: Site, runtime: str, kubectl: str) -> None:
    name = start(site, runtime)
    outer = f"stty rows 33 cols 111; exec {kubectl} -n {site.namespace} exec -it {name} -- sh"
    with terminal(site, "script", "-qec", f"sh -c {shlex.quote(outer)}", "/dev/null") as (fd, _):
        os.write(fd, b"echo at $((40+2))\n")
        read_until(fd, "at 42")
        os.write(fd, b"stty size; tty\n")
        read_until(fd, "33 111")
        os.write(fd, b"exit 7\n")
        read_until(fd, "exit code 7")


@pytest.mark.parametrize("kubectl", KUBECTLS)
def test_a_killed_client_leaves_no_process_behind(site: Site, kubectl: str) -> None:
    name = start(site)
    marker = f"7{time.monotonic_ns() % 10**8}"
    argv = [kubectl, "-n", site.namespace, "exec", "-i", name, "--", "sleep", marker]
    with site.popen(*argv, stdin=subprocess.PIPE):
        eventually(lambda: processes(f"^sleep {marker}"), "the command runs")
        for pid in processes(f"exec -i {name} -- sleep {marker}").split():
            os.kill(int(pid), signal.SIGKILL)
    eventually(lambda: not processes(f"^sleep {marker}"), "and is gone", timeout=10)
    assert site.kubectl("exec", name, "--", "echo", "still here") == "still here\n"


@contextmanager
def forwarded(site: Site, kubectl: str, name: str, port: int) -> Iterator[str]:
    """The local address of a forwarded port."""
    argv = [kubectl, "-n", site.namespace, "port-forward", f"pod/{name}", f":{port}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with site.popen(*argv, text=True, **pipes) as client:
        try:
            line = client.stdout.readline()
            assert "Forwarding from 127.0.0.1" in line, line
            yield line.split()[2]
        finally:
            client.kill()


@pytest.mark.parametrize("kubectl", KUBECTLS)
def test_ports_are_forwarded_two_at_once(site: Site, kubectl: str) -> None:
    serve = (
        "mkdir -p /tmp/www; cd /tmp/www; head -c 5000000 /dev/urandom > big; sha256sum big > sum;"
        "(python3 -m http.server 18081 >/dev/null 2>&1 &) ; (cd /tmp; python3 -m http.server 18082"
        f" > /dev/null 2>&1 &) ; sleep 1; {WAITING}"
    )
    name = start(site, script=serve)
    with (
        forwarded(site, kubectl, name, 18081) as one,
        forwarded(site, kubectl, name, 18082) as two,
    ):
        fetch = f"curl -s http://{one}/big & curl -sf -o /dev/null http://{two}/www/big; wait"
        got = site.run("sh", "-c", f"({fetch}) | sha256sum").stdout.split()[0]
        assert got == site.run("curl", "-s", f"http://{one}/sum").stdout.split()[0]
        many = (
            f"for i in $(seq 20); do curl -sf -o /dev/null http://{one}/sum & done; wait; echo ok"
        )
        assert site.run("sh", "-c", many).stdout == "ok\n"


def test_a_port_that_nobody_listens_to_is_refused_and_others_go_on(site: Site) -> None:
    name = start(site)
    with forwarded(site, "kubectl", name, 18099) as address:
        ended = site.run("curl", "-s", "--max-time", "5", f"http://{address}/", check=False)
        assert ended.returncode in (52, 56)


@pytest.mark.parametrize("kubectl", KUBECTLS)
def test_attach_speaks_to_the_main_process(site: Site, kubectl: str) -> None:
    script = "echo ready; while read line; do echo got $line; [ $line = end ] && exit 5; done"
    name = start(site, script=script, container={"stdin": True})
    ended = run(site, kubectl, "attach", "-i", name, input="hello\nend\n")
    assert "got hello\ngot end\n" in ended.stdout, ended
    assert site.wait_phase(name, "Failed")
    assert site.kubectl("logs", name) == "ready\ngot hello\ngot end\n"


def test_what_is_not_there_is_said_in_upstreams_words(site: Site) -> None:
    name = start(site)
    site.apply(pod("queued", "python", "true", nodeSelector={"no": "such"}))
    table = [
        (("exec", name, "-c", "x", "--", "true"), f"container x is not valid for pod {name}"),
        (("exec", "queued", "--", "true"), "pod queued does not have a host assigned"),
        (("exec", "nobody", "--", "true"), 'pods "nobody" not found'),
        (("exec", name, "--", "nosuch"), 'exec: "nosuch": executable file not found in $PATH'),
    ]
    for args, words in table:
        ended = run(site, "kubectl", *args)
        assert ended.returncode != 0
        assert words in ended.stderr, (args, ended.stderr)


def test_exec_is_as_quick_as_a_step(site: Site, record_property: Any) -> None:
    """Beside `srun --overlap`, which is what a user of Slurm has for this."""
    name = start(site)
    job = site.pod(name)["metadata"]["annotations"]["slurm.orlop.dev/job-id"]
    ways = {
        "kubectl exec": ["kubectl", "-n", site.namespace, "exec", name, "--", "true"],
        "srun --overlap": ["srun", f"--jobid={job}", "--overlap", "true"],
    }
    took = {}
    for way, argv in ways.items():
        began = time.monotonic()
        for _ in range(5):
            site.run(*argv)
        took[way] = (time.monotonic() - began) / 5
        record_property(way, took[way])
    print({way: f"{seconds * 1000:.0f} ms" for way, seconds in took.items()})
    assert took["kubectl exec"] < 3


def test_a_restart_of_the_control_plane_breaks_the_session_only(own_site: Site) -> None:
    name = start(own_site)
    argv = ["kubectl", "exec", name, "--", "sleep", "100"]
    with own_site.popen(*argv, stderr=subprocess.PIPE, text=True) as client:
        eventually(lambda: processes("^sleep 100$"), "the command runs")
        own_site.kill()
        assert client.wait(timeout=20) != 0
    own_site.up()

    def reached() -> bool:
        ended = own_site.run("kubectl", "exec", name, "--", "echo", "back", check=False)
        return ended.stdout == "back\n"

    eventually(reached, "commands can be run again")
    assert own_site.pod(name)["status"]["phase"] == "Running"


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_shell_of_its_own_can_be_talked_to(site: Site, runtime: str) -> None:
    """As `kubectl run -it` does: keys interrupt, and the end of the shell is the pod's."""
    fields = {"stdin": True, "stdinOnce": True, "tty": True}
    name = start(site, runtime, "echo ready; exec sh -i", container=fields)
    with terminal(site, "kubectl", "-n", site.namespace, "attach", "-it", name) as (fd, _):
        os.write(fd, b"echo at $((40+2))\n")
        read_until(fd, "at 42")
        os.write(fd, b"sleep 60\n")
        time.sleep(0.5)
        os.write(fd, b"\x03")
        os.write(fd, b"echo code $?\n")
        read_until(fd, "code 130")
        os.write(fd, b"exit 3\n")
        site.wait_phase(name, "Failed")
