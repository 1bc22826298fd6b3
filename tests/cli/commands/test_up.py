"""`orlop up` and `down` as an unprivileged user runs them, on the local engine: real processes."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orlop.cli.home import record
from orlop.cli.home.home_lock import LEASE
from orlop.cli.home.record import Record
from orlop.settings import Paths
from tools.devroot import PROJECT

USER = "orlop-test"
Done = subprocess.CompletedProcess[str]


@dataclass
class Person:
    """An ordinary user with a home, who types commands."""

    home: Path
    path: str
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def paths(self) -> Paths:
        return Paths(self.home / ".orlop")

    def _how(self) -> dict[str, Any]:
        known = {"HOME": str(self.home), "PATH": self.path, "LANG": "C.UTF-8"}
        become = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
        return {"env": known, "cwd": self.home, "text": True, **become}

    def run(self, *argv: str) -> Done:
        return subprocess.run(argv, capture_output=True, timeout=60, check=False, **self._how())

    def popen(self, *argv: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **self._how()
        )
        self.started.append(child)
        return child

    def record(self) -> Record:
        known = record.read(self.paths)
        assert known is not None
        return known

    def kubectl(self, *args: str) -> Done:
        return self.run("kubectl", "--kubeconfig", str(self.paths.kubeconfig), *args)

    def kill(self) -> None:
        """kill -9, and the end of it."""
        process = os.pidfd_open(self.record().pid)
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [], 10)
        os.close(process)


@contextmanager
def someone(installed_orlop: Path) -> Iterator[Person]:
    """Not in pytest's folders, which others than root may not enter."""
    with tempfile.TemporaryDirectory(prefix="orlop-home-", ignore_cleanup_errors=True) as folder:
        person = Person(Path(folder), f"{installed_orlop}:{os.environ['PATH']}")
        give(person)
        try:
            yield person
        finally:
            person.run("orlop", "down")
            for child in person.started:
                child.kill()
                child.communicate()


def give(person: Person) -> None:
    """What root has written there becomes the person's own."""
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{USER}:{USER}", person.home], check=True)


@pytest.fixture
def person(installed_orlop: Path) -> Iterator[Person]:
    with someone(installed_orlop) as person:
        yield person


@pytest.fixture(scope="module")
def host(installed_orlop: Path) -> Iterator[Person]:
    """Someone whose cluster is up, for tests that only look at it."""
    with someone(installed_orlop) as person:
        said = up(person)
        assert said.returncode == 0, said.stderr
        yield person


def up(person: Person, *flags: str) -> Done:
    return person.run("orlop", "up", "--engine", "local", *flags)


def test_it_says_what_it_found_and_how_to_go_on(person):
    said = up(person)
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    for subject in ("engine", "runtimes", "home", "API server"):
        assert any(line.split()[:1] == [subject.split()[0]] for line in lines), subject
    assert lines[-1] == f"export KUBECONFIG={person.paths.kubeconfig}"


def test_what_it_says_can_be_pasted_into_a_shell(person):
    """Spaces and dollars in the name of a home are nobody's fault."""
    home = person.home / "my $orlop"
    said = person.run("env", f"ORLOP_HOME={home}", "orlop", "up", "--engine", "local")
    ask = 'kubectl get namespaces -o name; ORLOP_HOME="$1" orlop down'
    done = person.run("sh", "-c", f"{said.stdout.splitlines()[-1]}; {ask}", "sh", str(home))
    assert "namespace/default" in done.stdout, said.stderr + done.stderr


def test_several_at_once_start_one_and_all_succeed(person):
    tries = [person.popen("orlop", "up", "--engine", "local") for _ in range(3)]
    said = [child.communicate(timeout=60) for child in tries]
    assert [child.returncode for child in tries] == [0, 0, 0], said
    assert {out.splitlines()[-1] for out, _ in said} == {
        f"export KUBECONFIG={person.paths.kubeconfig}"
    }
    assert sum("ready after" in out for out, _ in said) == 1


def test_the_cluster_answers_kubectl_at_once(host):
    assert host.kubectl("get", "namespaces").returncode == 0


def test_the_pod_of_the_readme_is_one(host):
    line = re.search(r"\$ kubectl (run .+)", (PROJECT / "README.md").read_text())
    assert line is not None
    argv = shlex.split(line[1].replace(" -- ", " --dry-run=server -o json -- "))
    made = json.loads(host.kubectl(*argv).stdout)
    assert (made["kind"], made["metadata"]["name"]) == ("Pod", "hello")
    assert made["spec"]["containers"][0]["args"] == ["echo", "hello from a pod"]


def test_only_its_owner_can_read_the_home(host):
    for path in (host.paths.home, host.paths.kubeconfig, host.paths.pid, host.paths.log_file):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_nothing_of_the_terminal_is_kept(host):
    """A new session, no terminal, and none of the descriptors of whoever started it."""
    pid = host.record().pid
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    session, terminal = int(fields[3]), int(fields[4])
    assert session == pid
    assert terminal == 0
    targets = [os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()]
    assert [target for target in targets if target.startswith(("/dev/pts", "/dev/tty"))] == []


def test_a_second_up_says_so_and_changes_nothing(host):
    before = host.record()
    said = up(host)
    assert said.returncode == 0
    assert "already up" in said.stdout
    assert str(host.paths.kubeconfig) in said.stdout
    assert host.record() == before


@pytest.mark.parametrize(
    ("flags", "words"),
    [(["--foreground"], "already has a control plane"), (["--engine", "slurm"], "engine local")],
)
def test_another_one_of_another_kind_is_refused(host, flags, words):
    said = host.run("orlop", "up", *flags)
    assert said.returncode == 1
    assert words in said.stderr
    assert "orlop down" in said.stderr


def test_flags_of_sbatch_want_a_job(host):
    assert host.run("orlop", "up", "--flags", "--time=1").returncode == 2


def test_down_and_up_again_keep_the_port_and_the_objects(person):
    up(person)
    person.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    before = person.record()
    assert person.run("orlop", "down").returncode == 0
    assert person.record().is_stopped
    up(person)
    assert person.record().port == before.port
    assert person.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}").stdout == "b"


def test_one_that_was_killed_is_started_again(person):
    up(person)
    before = person.record()
    person.kill()
    assert person.run("orlop", "status").returncode == 3
    said = up(person)
    assert said.returncode == 0, said.stderr
    after = person.record()
    assert after.pid != before.pid
    assert after.port == before.port


def test_a_port_that_another_took_meanwhile_is_given_up(person):
    up(person)
    port = person.record().port
    person.run("orlop", "down")
    with socket.create_server(("0.0.0.0", port)):
        assert up(person).returncode == 0
        assert person.record().port != port
        assert person.kubectl("get", "namespaces").returncode == 0


def test_a_port_that_was_asked_for_and_is_taken_is_an_error(person):
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        said = up(person, "--port", str(port))
    assert said.returncode == 1
    assert f":{port}: Address already in use" in said.stderr


def test_one_on_another_host_that_answers_is_used(person, host):
    """The other host's record and kubeconfig, as a shared home shows them."""
    person.paths.run.mkdir(parents=True)
    theirs = host.record()
    elsewhere = Record("login9", theirs.pid, theirs.birth, theirs.started, theirs.url, theirs.port)
    record.write(person.paths, elsewhere)
    person.paths.kubeconfig.write_bytes(host.paths.kubeconfig.read_bytes())
    give(person)
    said = person.run("orlop", "up")
    assert said.returncode == 0
    assert "already up on login9" in said.stdout


def test_one_on_another_host_that_died_is_waited_for_and_replaced(person):
    person.paths.run.mkdir(parents=True)
    record.write(person.paths, Record("login9", 4711, "boot/1", url="https://127.0.0.1:1", port=1))
    then = time.time() - LEASE + 3
    os.utime(person.paths.pid, (then, then))
    give(person)
    said = up(person)
    assert said.returncode == 0, said.stderr
    assert "login9" in said.stdout
    assert "does not answer" in said.stdout
    assert person.record().is_of_this_host


def test_a_start_that_fails_shows_why_and_leaves_nothing_running(person):
    person.paths.home.mkdir()
    (person.paths.home / "pki").write_text("in the way")
    give(person)
    said = up(person)
    assert said.returncode == 1
    assert "pki" in said.stderr
    assert "orlop.log" in said.stderr
    assert person.run("orlop", "status").returncode == 3


def test_a_wrong_setting_is_said_before_anything_starts(person):
    person.paths.home.mkdir()
    person.paths.config.write_text("prot: 1\n")
    give(person)
    said = up(person)
    assert said.returncode == 1
    assert "prot" in said.stderr
    assert not person.paths.log.exists()


def test_in_the_foreground_it_logs_here_and_ends_by_an_interrupt(person):
    child = person.popen("orlop", "up", "--engine", "local", "--foreground")
    assert child.stderr is not None
    seen = []
    for line in child.stderr:
        seen.append(line)
        if "control plane is up" in line:
            break
    assert person.kubectl("get", "namespaces").returncode == 0, seen
    child.send_signal(signal.SIGINT)
    _, rest = child.communicate(timeout=20)
    assert child.returncode == 0, rest
    assert "control plane has stopped" in rest
    assert person.record().is_stopped


def test_status_as_json_says_where_it_runs(host):
    said = json.loads(host.run("orlop", "status", "--output", "json").stdout)
    assert said["controlPlane"]["pid"] == host.record().pid
    assert said["controlPlane"]["answers"]
