"""exec, attach, cp and port-forward with the real kubectl, on a real Slurm, in every runtime.

With a recent kubectl, which speaks WebSocket, and with Debian's old one, which speaks SPDY;
ORLOP_KUBECTLS may name further ones, separated by colons.
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

from tests.e2e.site import Obj, Site, eventually, pod
from tools.devroot import dev_root

NAMED = [path for path in os.environ.get("ORLOP_KUBECTLS", "").split(":") if path]
KUBECTLS = ["kubectl", str(dev_root().old_kubectl), *NAMED]
IDS = [os.path.basename(kubectl) for kubectl in KUBECTLS]
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


@pytest.mark.parametrize("runtime", RUNTIMES[:2])
def test_20_megabytes_go_by_cp_both_ways(site: Site, runtime: str) -> None:
    name = start(site, runtime)
    for kubectl in KUBECTLS:
        copied_both_ways(site, kubectl, name, 20_000_000)


def copied_both_ways(site: Site, kubectl: str, name: str, size: int) -> None:
    """There and back again, and the same on both sides."""
    there, back = site.home.parent / "there", site.home.parent / "back"
    site.run("sh", "-c", f"head -c {size} /dev/urandom > {there}; rm -f {back}")
    copied = run(site, kubectl, "cp", str(there), f"{name}:/tmp/there", timeout=200)
    assert copied.returncode == 0, (kubectl, copied)
    inside = site.kubectl("exec", name, "--", "sha256sum", "/tmp/there").split()[0]
    copied = run(site, kubectl, "cp", f"{name}:/tmp/there", str(back), timeout=200)
    assert copied.returncode == 0, (kubectl, copied)
    sums = site.run("sha256sum", str(there), str(back)).stdout.split()
    assert sums[0] == sums[2] == inside, kubectl


def test_many_commands_run_at_once(site: Site) -> None:
    run_at_once(site, start(site), 30)


def run_at_once(site: Site, name: str, count: int, timeout: float = 100) -> None:
    """So many commands by as many kubectls, each with an output and a code of its own."""
    command = f"kubectl -n {site.namespace} exec {name} -- sh -c"
    each = f'{command} "echo $i; exit $((i % 100 + 1))" || echo $i code $?'
    script = f"for i in $(seq {count}); do {each} & done; wait"
    seen = site.run("sh", "-c", script, timeout=timeout).stdout.splitlines()
    expected = [w for i in range(1, count + 1) for w in (str(i), f"{i} code {i % 100 + 1}")]
    assert sorted(seen) == sorted(expected)


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


def read_until(fd: int, words: str, timeout: float = 60.0) -> str:
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
def test_a_terminal_has_the_size_of_ones_own_and_follows_it(site: Site, runtime: str) -> None:
    name = start(site, runtime)
    for kubectl in KUBECTLS:
        follows_its_terminal(site, kubectl, name)


def follows_its_terminal(site: Site, kubectl: str, name: str) -> None:
    larger = site.home.parent / "larger"
    site.run("rm", "-f", str(larger))
    resize = f"(until [ -e {larger} ]; do sleep 0.1; done; stty rows 44 cols 99 < /dev/tty) &"
    session = f"exec {kubectl} -n {site.namespace} exec -it {name} -- sh"
    outer = f"stty rows 33 cols 111; {resize} {session}"
    with terminal(site, "script", "-qec", f"sh -c {shlex.quote(outer)}", "/dev/null") as (fd, _):
        os.write(fd, b"echo at $((40+2))\n")
        read_until(fd, "at 42")
        os.write(fd, b"stty size; tty\n")
        read_until(fd, "33 111")
        site.run("touch", str(larger))
        os.write(fd, b'until [ "$(stty size)" = "44 99" ]; do sleep 0.1; done\n')
        os.write(fd, b"echo now $((40+3))\n")
        read_until(fd, "now 43")
        os.write(fd, b"exit 7\n")
        read_until(fd, "exit code 7")


@pytest.mark.parametrize("kubectl", KUBECTLS, ids=IDS)
def test_a_killed_client_leaves_no_process_behind(site: Site, kubectl: str) -> None:
    name = start(site)
    marker = f"7{time.monotonic_ns() % 10**8}"
    argv = [kubectl, "-n", site.namespace, "exec", "-i", name, "--", "sleep", marker]
    with site.popen(*argv, stdin=subprocess.PIPE):
        eventually(lambda: processes(f"^sleep {marker}"), "the command runs")
        for pid in processes(f"exec -i {name} -- sleep {marker}").split():
            os.kill(int(pid), signal.SIGKILL)
    eventually(lambda: not processes(f"^sleep {marker}"), "and is gone")
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


def test_ports_are_forwarded_two_at_once(site: Site) -> None:
    serve = (
        "mkdir -p /tmp/www; cd /tmp/www; head -c 5000000 /dev/urandom > big; sha256sum big > sum;"
        "(python3 -m http.server 18081 >/dev/null 2>&1 &) ; (cd /tmp; python3 -m http.server 18082"
        f" > /dev/null 2>&1 &) ; sleep 1; {WAITING}"
    )
    name = start(site, script=serve)
    for kubectl in KUBECTLS:
        serves_both(site, kubectl, name)


def serves_both(site: Site, kubectl: str, name: str) -> None:
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


DATABASE = "exec redis-server --port 16379 --bind 127.0.0.1 --save '' --dir /tmp"
WEBSOCKETS = """
from aiohttp import web

async def echo(request):
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        await socket.send_bytes(message.data[::-1])
    return socket

app = web.Application()
app.router.add_get("/echo", echo)
web.run_app(app, host="127.0.0.1", port=18083, print=None)
"""
TALK = """
import asyncio, os, sys
import aiohttp

async def main():
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(f"http://{sys.argv[1]}/echo", max_msg_size=0) as socket:
            for size in (0, 1, 125, 70_000, 3_000_000):
                said = os.urandom(size)
                await socket.send_bytes(said)
                assert (await socket.receive_bytes()) == said[::-1], size
    print("heard all")

asyncio.run(main())
"""


def test_a_database_and_websockets_are_forwarded(site: Site) -> None:
    """Both keep a connection and speak in turns, which a page that is fetched does not."""
    servers = [("database", ["sh", "-c", DATABASE]), ("websockets", ["python", "-c", WEBSOCKETS])]
    manifest = pod("servers", "host", "")
    manifest["spec"]["containers"] = [
        {"name": name, "image": "host", "command": command} for name, command in servers
    ]
    site.apply(manifest)
    site.wait_phase("servers", "Running")
    for kubectl in KUBECTLS:
        with (
            forwarded(site, kubectl, "servers", 16379) as database,
            forwarded(site, kubectl, "servers", 18083) as websockets,
        ):
            keeps_values(site, database)
            talk = ("python", "-c", TALK, websockets)
            eventually(lambda at=talk: "heard all" in site.run(*at, check=False).stdout, kubectl)


def keeps_values(site: Site, address: str) -> None:
    client = ["redis-cli", "-h", "127.0.0.1", "-p", address.rpartition(":")[2]]
    eventually(lambda: site.run(*client, "ping", check=False).stdout == "PONG\n", "it is up")
    value = "x" * 100_000
    said = "".join(f"SET key{n} {value}\n" for n in range(50)) + "STRLEN key49\nDBSIZE\n"
    answers = site.run(*client, input=said).stdout.splitlines()
    assert answers == ["OK"] * 50 + ["100000", "50"]
    site.run(*client, "flushall")


@pytest.mark.parametrize("kubectl", KUBECTLS, ids=IDS)
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


def test_exec_takes_a_moment_and_is_measured_beside_a_step(
    site: Site, record_property: Any
) -> None:
    """`srun --overlap`, which a user of Slurm has for this, is quicker: kubectl asks twice."""
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


def watched(site: Site, runtime: str) -> Obj:
    """A pod that restarts, or becomes ready, when a file in the user's home says so."""
    shared = site.home.parent / f"shared-{runtime}"
    site.run("mkdir", "-p", str(shared))
    main = "echo ready; until [ -e /shared/end ]; do sleep 0.1; done; rm /shared/end; exit 7"
    manifest = pod(runtime, "python", main, restartPolicy="Always")
    manifest["metadata"]["annotations"] = {"orlop.dev/runtime": runtime}
    probe = {"exec": {"command": ["test", "-e", "/shared/well"]}, "periodSeconds": 1}
    steady = {"name": "steady", "image": "python", "command": ["sh", "-c", WAITING]}
    containers = [*manifest["spec"]["containers"], {**steady, "readinessProbe": probe}]
    mount = {"name": "shared", "mountPath": "/shared"}
    manifest["spec"]["containers"] = [{**each, "volumeMounts": [mount]} for each in containers]
    manifest["spec"]["volumes"] = [{"name": "shared", "hostPath": {"path": str(shared)}}]
    return manifest


def status_of(site: Site, pod_name: str, container: str) -> Obj:
    statuses = site.pod(pod_name)["status"].get("containerStatuses", [])
    return next((one for one in statuses if one["name"] == container), {})


RESTARTED = '"name":"main","init":false,"restart":1,"state":"running"'


def journal_of(site: Site, name: str) -> str:
    [folder] = (site.home / "pods").glob(f"*_{name}_*")
    return (folder / "journal").read_text()


def test_a_restart_of_the_control_plane_breaks_the_session_only(own_site: Site) -> None:
    """Probes and restarts go on while nobody is there, and are on the pod afterwards."""
    site, names = own_site, RUNTIMES[:2]
    for name in names:
        site.apply(watched(site, name))
    for name in names:
        site.wait_phase(name, "Running")
        eventually(lambda at=name: "ready" in site.kubectl("logs", at, "-c", "steady"), name)
    sleeps = {name: f"7{time.monotonic_ns() % 10**8}" for name in names}
    clients = [
        site.popen("kubectl", "exec", name, "-c", "steady", "--", "sleep", seconds)
        for name, seconds in sleeps.items()
    ]
    for seconds in sleeps.values():
        eventually(lambda at=seconds: processes(f"^sleep {at}"), "the command runs")
    site.kill()
    for client in clients:
        assert client.wait(timeout=60) != 0
    for seconds in sleeps.values():
        eventually(lambda at=seconds: not processes(f"^sleep {at}"), "its command goes, too")
    for name in names:
        site.run("touch", *(f"{site.home.parent}/shared-{name}/{file}" for file in ("end", "well")))
        eventually(lambda at=name: RESTARTED in journal_of(site, at), "restarted without us", 60)
    site.up()
    for name in names:
        back = ["kubectl", "exec", name, "-c", "main", "--", "echo", "back"]
        eventually(lambda at=back: site.run(*at, check=False).stdout == "back\n", "exec again")
        eventually(lambda at=name: status_of(site, at, "steady").get("ready"), "ready", 60)
        main = status_of(site, name, "main")
        assert main["restartCount"] == 1
        assert main["lastState"]["terminated"]["exitCode"] == 7
        assert status_of(site, name, "steady")["restartCount"] == 0


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
