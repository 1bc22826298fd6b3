"""Workloads on a real Slurm while their control plane is killed again and again.

Run by `make soak`; `ORLOP_SOAK` is how many times as many rounds it takes, `ORLOP_SOAK_SEED`
repeats one. A round rolls a Deployment, runs an Indexed Job, makes a StatefulSet and services, and
kills -9 the control plane at random moments meanwhile. At its end nothing is there twice, and
nothing is missing.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cluster.commands import CommandFailed
from tests.cluster.fixtures import StartRegistry, StartSlurm
from tests.e2e.conftest import ACCOUNTED, open_site
from tests.e2e.site import Obj, Site, eventually

ROUNDS = 4 * int(os.environ.get("ORLOP_SOAK", "1"))
SEED = int(os.environ.get("ORLOP_SOAK_SEED", "0")) or random.SystemRandom().randrange(1 << 30)
COMPLETIONS, REPLICAS, MEMBERS, SERVICES = 30, 4, 3, 12
STORM = 40.0  # seconds
SETTLES = 240.0


@pytest.fixture
def site(
    new_slurm: StartSlurm, registry_on: StartRegistry, installed_orlop: Path
) -> Iterator[Site]:
    with ExitStack() as stack:
        yield open_site(new_slurm(ACCOUNTED), registry_on, stack)


@pytest.mark.timeout(7200)
def test_nothing_is_lost_or_doubled_over_many_deaths(site: Site) -> None:
    rng = random.Random(SEED)
    print(f"ORLOP_SOAK_SEED={SEED}")
    deaths = 0
    for number in range(ROUNDS):
        inside = _insist(lambda number=number: site.in_namespace(f"round-{number}"))
        with storm(site, rng) as killed:
            work(inside, rng)
        deaths += len(killed)
        site.up()
        check(inside)
        check_services(site)
        inside.kubectl("delete", "namespace", inside.namespace, "--timeout=120s", timeout=140)
        print(f"round {number}: {len(killed)} deaths, all is there once")
    assert deaths >= ROUNDS, "a storm without deaths shows nothing"


@contextmanager
def storm(site: Site, rng: random.Random) -> Iterator[list[float]]:
    """The control plane dies every few seconds, and is brought up again."""
    killed: list[float] = []
    failures: list[BaseException] = []
    is_over = threading.Event()
    pauses = [rng.uniform(0.2, 5.0) for _ in range(1000)]

    def rage() -> None:
        try:
            for pause in pauses:
                if is_over.wait(pause):
                    return
                site.kill()
                killed.append(time.time())
                site.up()
        except BaseException as error:
            failures.append(error)

    raging = threading.Thread(target=rage, name="storm")
    raging.start()
    try:
        yield killed
    finally:
        is_over.set()
        raging.join()
    if failures:
        raise failures[0]


def work(site: Site, rng: random.Random) -> None:
    """All sorts of wishes, each insisted upon until an API server has heard it."""
    began = time.monotonic()
    for manifest in (deployment(1), job(), stateful_set()):
        _insist(lambda manifest=manifest: site.apply(manifest))
    services = list(range(SERVICES))
    version = 1
    while time.monotonic() - began < STORM or services:
        if services:
            _insist(lambda: site.apply(service(services[-1])))
            services.pop()
        if rng.random() < 0.4:
            version += 1
            manifest = deployment(version)
            _insist(lambda manifest=manifest: site.apply(manifest))
        time.sleep(rng.uniform(0.0, 1.5))


def _insist(wish: Callable[[], object], timeout: float = 120.0) -> object:
    """A client that tries again while nobody answers."""
    end = time.monotonic() + timeout
    while True:
        try:
            return wish()
        except (CommandFailed, subprocess.TimeoutExpired):
            if time.monotonic() > end:
                raise
            time.sleep(0.3)


def check(site: Site) -> None:
    eventually(lambda: _settled(site), "all workloads are as wished", SETTLES)
    time.sleep(3)  # what comes twice may come late
    _check_deployment(site)
    _check_stateful_set(site)
    _check_job(site)


def _settled(site: Site) -> bool:
    done = site.get("job", "work")["status"].get("succeeded") == COMPLETIONS
    web = site.get("deployment", "web")
    status, generation = web["status"], web["metadata"]["generation"]
    rolled = (
        status.get("observedGeneration") == generation
        and status.get("updatedReplicas") == status.get("replicas") == REPLICAS
        and status.get("availableReplicas") == REPLICAS
    )
    members = site.get("statefulset", "db")["status"].get("readyReplicas") == MEMBERS
    return bool(done and rolled and members)


def _live(site: Site, selector: str) -> list[Obj]:
    pods = site.pods(selector)
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def _check_deployment(site: Site) -> None:
    pods = _live(site, "app=web")
    assert len(pods) == REPLICAS, [pod["metadata"]["name"] for pod in pods]
    wished = site.get("deployment", "web")["spec"]["template"]["spec"]["containers"][0]["env"]
    assert all(pod["spec"]["containers"][0]["env"] == wished for pod in pods)


def _check_stateful_set(site: Site) -> None:
    names = sorted(pod["metadata"]["name"] for pod in _live(site, "app=db"))
    assert names == [f"db-{number}" for number in range(MEMBERS)]


def _check_job(site: Site) -> None:
    status = site.get("job", "work")["status"]
    assert status["succeeded"] == COMPLETIONS
    assert status["completedIndexes"] == f"0-{COMPLETIONS - 1}"
    assert not status.get("failed")
    pods = site.pods("job-name=work")
    index = "batch.kubernetes.io/job-completion-index"
    counted = Counter(pod["metadata"]["annotations"][index] for pod in pods)
    assert counted == Counter(str(number) for number in range(COMPLETIONS))
    logs = [site.kubectl("logs", pod["metadata"]["name"]).split() for pod in pods]
    assert sorted(int(index) for (index,) in logs) == list(range(COMPLETIONS))
    jobs = site.run("sacct", "-X", "-n", "-P", "-o", "JobName%120").stdout.split()
    submitted = Counter(name for name in jobs if name.startswith(f"{site.namespace}/work-"))
    doubled = {name: count for name, count in submitted.items() if count > 1}
    assert not doubled


def check_services(site: Site) -> None:
    services = json.loads(site.kubectl("get", "services", "-A", "-o", "json"))["items"]
    named = [one for one in services if one["metadata"]["namespace"].startswith("round-")]
    assert len(named) >= SERVICES
    addresses = Counter(one["spec"]["clusterIP"] for one in services)
    ports = Counter(
        port["nodePort"]
        for one in services
        for port in one["spec"]["ports"]
        if port.get("nodePort")
    )
    assert max(addresses.values()) == 1, addresses
    assert max(ports.values()) == 1, ports


def deployment(version: int) -> Obj:
    return _workload("apps/v1", "Deployment", "web", REPLICAS, str(version))


def stateful_set() -> Obj:
    made = _workload("apps/v1", "StatefulSet", "db", MEMBERS, "1")
    made["spec"]["serviceName"] = "db"
    return made


def _workload(api: str, kind: str, name: str, replicas: int, version: str) -> Obj:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sleep", "3600"],
        "env": [{"name": "VERSION", "value": version}],
    }
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
            },
        },
    }


def job() -> Obj:
    script = "sleep $((JOB_COMPLETION_INDEX % 5)); echo $JOB_COMPLETION_INDEX"
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "work"},
        "spec": {
            "completions": COMPLETIONS,
            "parallelism": 8,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def service(number: int) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"s{number}"},
        "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
