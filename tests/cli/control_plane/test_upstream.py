"""`orlop up --control-plane upstream`: a real etcd, and in kube-apiserver's place a double.

kube-apiserver itself is in no registry that tests may use. The double refuses flags that are not
the original's and serves Orlop's API over them, so that what is tested is all but the original.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orlop import pki
from orlop.cli.control_plane.upstream import programs
from orlop.cli.control_plane.upstream_commands import Plan, apiserver_command, etcd_command
from orlop.errors import ConfigError
from orlop.settings import UpstreamSettings
from tests.cli.commands.test_up import Person, give, someone
from tools.devroot import dev_root

HERE = Path(__file__).parent.parent
POD = """
apiVersion: v1
kind: Pod
metadata: {name: hello}
spec:
  restartPolicy: Never
  containers: [{name: main, image: host, command: [echo, hello from a pod]}]
"""


@pytest.fixture
def person(installed_orlop: Path) -> Iterator[Person]:
    """Someone with etcd and kube-apiserver on their PATH."""
    with someone(installed_orlop) as person:
        programs = person.home / "bin"
        programs.mkdir()
        shutil.copy(dev_root().etcd, programs / "etcd")
        shutil.copy(HERE / "kube_apiserver_double.py", programs / "double.py")
        script = f'#!/bin/sh\nexec {installed_orlop}/python {programs}/double.py "$@"\n'
        (programs / "kube-apiserver").write_text(script)
        (programs / "kube-apiserver").chmod(0o755)
        person.path = f"{programs}:{person.path}"
        give(person)
        yield person


def up(person: Person) -> subprocess.CompletedProcess[str]:
    return person.run("orlop", "up", "--engine", "local", "--control-plane", "upstream")


def test_everything_else_stays_as_it_is(person: Person) -> None:
    said = up(person)
    log = person.paths.log / "kube-apiserver.log"
    assert said.returncode == 0, said.stderr + (log.read_text() if log.exists() else "")
    (person.home / "pod.yaml").write_text(POD)
    os.chmod(person.home / "pod.yaml", 0o644)
    assert person.kubectl("create", "-f", "pod.yaml").returncode == 0
    wait = ["wait", "pod/hello", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=50s"]
    done = person.kubectl(*wait)
    assert done.returncode == 0, done.stderr + person.kubectl("get", "pod", "-o", "yaml").stdout
    assert person.kubectl("logs", "hello").stdout == "hello from a pod\n"
    assert "serving" in log.read_text()
    assert person.run("orlop", "down").returncode == 0
    assert left(person) == []
    assert up(person).returncode == 0  # the same state, at the same port
    assert person.kubectl("get", "pod", "hello", "-o", "name").stdout == "pod/hello\n"


def test_the_programs_die_with_the_control_plane_and_it_with_them(person: Person) -> None:
    assert up(person).returncode == 0
    etcd = next(pid for pid, words in left(person) if words[0].endswith("/etcd"))
    os.kill(etcd, signal.SIGKILL)
    until_none_is_left(person)
    assert "etcd ended with" in person.paths.log_file.read_text()
    assert up(person).returncode == 0
    person.kill()
    until_none_is_left(person)


def left(person: Person) -> list[tuple[int, list[str]]]:
    """Processes of the two programs that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if {f"{person.home}/bin/etcd", f"{person.home}/bin/double.py"}.intersection(words[:2]):
            found.append((int(folder.name), words))
    return found


def until_none_is_left(person: Person) -> None:
    deadline = time.monotonic() + 40
    while left(person):
        assert time.monotonic() < deadline, left(person)
        time.sleep(0.1)


def test_a_program_that_is_missing_is_named_with_its_remedy() -> None:
    with pytest.raises(ConfigError, match=r"no /nowhere/etcd on PATH.*upstream\.etcd"):
        programs(UpstreamSettings(etcd="/nowhere/etcd"))


def test_etcd_trusts_nobody_whom_the_api_server_trusts(tmp_path: Path) -> None:
    keys, own = pki.Pki(tmp_path / "pki"), pki.Pki(tmp_path / "etcd" / "pki")
    plan = Plan(tmp_path / "etcd", keys, own, "0.0.0.0", 6443, 2379, 2380, flags=["--v=2"])
    etcd, server = etcd_command(plan), apiserver_command(plan)
    assert not [word for word in etcd if str(keys.folder) in word]
    assert "--client-cert-auth" in etcd
    assert all("127.0.0.1" in word for word in etcd if "-urls=" in word)
    assert f"--client-ca-file={keys.ca}" in server
    assert "--anonymous-auth=false" in server
    assert server[-1] == "--v=2"
