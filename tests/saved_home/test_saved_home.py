"""A home that the Orlop before the great move (8b6c293) has left opens unchanged.

The home is unpacked as an ordinary user and opened by the present Orlop with the local engine, as
it was written: real processes, the real kubectl, the kubeconfig of then.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from orlop.pki import LEAF_LIFE
from tests.cli.commands.test_up import Person, give, someone, up
from tests.saved_home.make import HOME, INDEX

Obj = dict[str, Any]

# What a control plane writes at every start, or goes on writing.
WRITTEN = ("kubeconfig", "log/", "run/", "state.")

# Resources whose objects come and go by themselves.
MOVING = {"events", "events.events.k8s.io", "leases.coordination.k8s.io"}
# Definitions that have become stricter since: of how many pods there may be.
BROUGHT_UP_TO_DATE = {
    "jobsets.jobset.x-k8s.io",
    "leaderworkersets.leaderworkerset.x-k8s.io",
    "mpijobs.kubeflow.org",
    "pytorchjobs.kubeflow.org",
}
MADE_ANEW = {
    "v1beta1.metrics.k8s.io",  # with the server of that group, at every start
    "solver-launcher",  # a suspended launcher gets the template that an MPIJob has now
}
SERVERS = ("apiserver", "kubelet")
CLIENTS = ("admin", "apiserver-kubelet-client", "front-proxy-client")


def unpack(person: Person) -> None:
    person.paths.home.mkdir(mode=0o700)
    subprocess.run(["tar", "-xzpf", HOME, "-C", person.paths.home], check=True)
    give(person)


def digests(home: Path) -> dict[str, str]:
    """What is in each file of a home, but for those that every start writes."""
    files = {str(path.relative_to(home)): path for path in home.rglob("*") if path.is_file()}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in files.items()
        if not name.startswith(WRITTEN)
    }


@dataclass
class Opened:
    """A saved home whose cluster is up again, and what was there before."""

    person: Person
    kubeconfig: Path  # as it was, but for the address
    is_old: bool  # so that clients' certificates are renewed
    before: dict[str, str]

    def kubectl(self, *args: str) -> str:
        argv = ["kubectl", "--kubeconfig", str(self.kubeconfig), *args]
        done = self.person.run(*argv)
        assert done.returncode == 0, (args, done.stderr)
        return done.stdout

    def get(self, *args: str) -> Obj:
        found: Obj = json.loads(self.kubectl("get", *args, "-o", "json"))
        return found

    def without_user(self) -> Path:
        document = yaml.safe_load(self.kubeconfig.read_text())
        document["users"][0]["user"] = {}
        path = self.person.home / "kubeconfig-of-nobody"
        path.write_text(yaml.safe_dump(document))
        give(self.person)
        return path


def kubeconfig_of_then(person: Person) -> Path:
    """The saved kubeconfig with the address of now, which is another host's, kept elsewhere."""
    kept = person.home / "kubeconfig-of-then"
    document = yaml.safe_load(kept.read_text())
    document["clusters"][0]["cluster"]["server"] = person.record().url
    kept.write_text(yaml.safe_dump(document))
    give(person)
    return kept


def is_near_its_end(kubeconfig: Path) -> bool:
    """Whether the admin's certificate of then is, or would be, renewed at the next start."""
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    pem = base64.b64decode(user["client-certificate-data"])
    left = x509.load_pem_x509_certificate(pem).not_valid_after_utc - datetime.now(UTC)
    return left < LEAF_LIFE / 3 + timedelta(days=1)


@pytest.fixture(scope="module")
def opened(installed_orlop: Path) -> Iterator[Opened]:
    with someone(installed_orlop) as person:
        unpack(person)
        shutil.copy(person.paths.kubeconfig, person.home / "kubeconfig-of-then")
        before = digests(person.paths.home)
        said = up(person)
        assert said.returncode == 0, said.stderr
        kubeconfig = kubeconfig_of_then(person)
        is_old = is_near_its_end(kubeconfig)
        yield Opened(person, person.paths.kubeconfig if is_old else kubeconfig, is_old, before)
        person.run("orlop", "down", "--purge", "--yes")


def test_every_object_is_there_as_it_was(opened: Opened) -> None:
    index = [each for each in json.loads(INDEX.read_text()) if each["resource"] not in MOVING]
    resources = ",".join(sorted({each["resource"] for each in index}))
    listed = opened.get(resources, "--all-namespaces")["items"]
    found = {obj["metadata"]["uid"]: obj for obj in listed}
    assert len(index) > 100
    assert {each["name"] for each in index if each["uid"] not in found} <= MADE_ANEW
    rewritten = {
        each["name"]
        for each in index
        if each["uid"] in found
        if int(found[each["uid"]]["metadata"]["resourceVersion"]) != each["revision"]
    }
    nodes = {each["name"] for each in index if each["resource"] == "nodes"}
    others = {name for name in rewritten - nodes if not name.startswith("steady")}
    assert others == BROUGHT_UP_TO_DATE
    made = opened.get("configmap", "settings", "-n", "kept")
    assert (made["data"], made["binaryData"]) == ({"colour": "red"}, {"bytes": "AAEC/w=="})
    shelf = opened.get("shelves.example.com", "pantry", "-n", "kept")
    assert shelf["spec"] == {"boards": 3, "wood": "oak"}


def test_a_new_object_has_a_later_revision_than_all_of_then(opened: Opened) -> None:
    latest = max(each["revision"] for each in json.loads(INDEX.read_text()))
    opened.kubectl("-n", "kept", "create", "configmap", "later")
    made = opened.get("configmap", "later", "-n", "kept")
    assert int(made["metadata"]["resourceVersion"]) > latest


def test_a_token_of_then_is_good_for_what_its_role_allows(opened: Opened) -> None:
    secret = opened.get("secret", "reader-token", "-n", "kept")
    token = base64.b64decode(secret["data"]["token"]).decode()
    asked = ["kubectl", "--kubeconfig", str(opened.without_user()), "--token", token, "-n", "kept"]
    assert opened.person.run(*asked, "get", "configmap", "settings").returncode == 0
    refused = opened.person.run(*asked, "get", "secrets")
    assert "system:serviceaccount:kept:reader" in refused.stderr
    assert "forbidden" in refused.stderr


def test_logs_of_pods_that_ended_then_can_be_read(opened: Opened) -> None:
    assert opened.kubectl("-n", "kept", "logs", "told") == "line 1\nline 2\nline 3\n"
    assert opened.kubectl("-n", "kept", "logs", "job/ended") == "the job has ended\n"
    ended = opened.get("pod", "told", "-n", "kept")["status"]["containerStatuses"][0]
    assert ended["state"]["terminated"]["exitCode"] == 3


def test_what_ran_then_is_made_again(opened: Opened) -> None:
    opened.kubectl("-n", "kept", "rollout", "status", "deployment/steady", "--timeout=60s")
    said = opened.kubectl("-n", "kept", "logs", "deployment/steady")
    assert said == "keeping watch\n"


def test_no_file_is_rewritten_that_need_not_be(opened: Opened) -> None:
    """A server's certificate is made anew where the host has other names, others near their end."""
    after = digests(opened.person.paths.home)
    changed = {name for name, digest in opened.before.items() if after.get(name) != digest}
    renewable = {f"pki/{name}.{part}" for name in SERVERS for part in ("crt", "key")}
    if opened.is_old:
        renewable |= {f"pki/{name}.{part}" for name in CLIENTS for part in ("crt", "key")}
    lost_pods = {name for name in changed if name.startswith("pods/kept_steady-")}
    assert changed - renewable - lost_pods == set()
    note = next(opened.person.paths.home.glob("volumes/kept_data_*/data/note"))
    assert note.read_text() == "still here\n"


def test_it_can_be_backed_up_and_restored(opened: Opened) -> None:
    person, claimed = opened.person, opened.get("pvc", "data", "-n", "kept")
    assert person.run("orlop", "backup", "then.backup").returncode == 0
    opened.kubectl("-n", "kept", "delete", "pvc", "data", "--wait=false")
    assert person.run("orlop", "down").returncode == 0
    assert person.run("orlop", "restore", "then.backup").returncode == 0
    assert up(person).returncode == 0
    restored = opened.get("pvc", "data", "-n", "kept")
    assert restored["metadata"]["uid"] == claimed["metadata"]["uid"]
    assert restored["spec"]["volumeName"] == claimed["spec"]["volumeName"]
