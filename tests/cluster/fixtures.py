"""pytest fixtures over the test cluster; tests/conftest.py names this module in pytest_plugins.

`slurm` is shared by all tests of a worker and must be left as it was found; `slurm_with` shares
clusters of another spec the same way; `new_slurm` starts one for a test that breaks things.
`registry` is on the head of `slurm`; `registry_on` starts one on any cluster's head, and
`loopback_registry` needs no cluster. `rootless_slurm` is the kind that one user runs alone.
Without root those of a cluster skip, all for one reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tools import wheel
from tools.devroot import DevRoot, dev_root

from .cluster import SlurmCluster, sweep
from .programs import SYSTEM_PATH
from .registry import Registry
from .rootless import RootlessSlurm, sweep_rootless
from .spec import Spec
from .storage import ALL

KEEP = "ORLOP_KEEP_CLUSTERS"
NEEDS_ROOT = "a Slurm of several nodes needs root: run the tests as root or with sudo"

CLUSTERS = frozenset({"namespaces_of_root", "rootless_slurm"})

StartSlurm = Callable[[Spec], SlurmCluster]
StartRegistry = Callable[[SlurmCluster], Registry]


@pytest.fixture(scope="session")
def namespaces_of_root() -> None:
    """Nodes are made of namespaces, which only root may give an address and mounts."""
    if os.geteuid() == 0:
        attempt = ["unshare", "--mount", "--net", "--pid", "--fork", "true"]
        if subprocess.run(attempt, capture_output=True, check=False).returncode == 0:
            return
    pytest.skip(NEEDS_ROOT)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Lets all that need root be skipped in one line of the summary, not one for every test."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and NEEDS_ROOT in report.longrepr[2]:
        report.longrepr = ("tests on Slurm", None, f"Skipped: {NEEDS_ROOT}")  # type: ignore[assignment]
    return report


@pytest.fixture(scope="session")
def orlop_dev_root() -> DevRoot:
    return dev_root()


@pytest.fixture(scope="session")
def installed_orlop(orlop_dev_root: DevRoot) -> Path:
    """The bin folder of Orlop as users have it, made from the sources as they are now.

    It is first but one in the PATH of a cluster's users: whoever runs `orlop` there asks for this.
    """
    return wheel.refresh(orlop_dev_root) / "bin"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever stands on a real Slurm can be left out by `-m "not slurm"`."""
    for item in items:
        if CLUSTERS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("slurm")


@pytest.fixture(scope="session")
def cluster_folders(namespaces_of_root: None, orlop_dev_root: DevRoot) -> Callable[[], Path]:
    """Names folders for clusters, never one twice, whatever other test runs do meanwhile."""
    sweep(orlop_dev_root.clusters)
    count = 0

    def folder() -> Path:
        nonlocal count
        count += 1
        return orlop_dev_root.clusters / f"test-{os.getpid()}-{count}"

    return folder


def start(folder: Path, spec: Spec, dev: DevRoot, stack: ExitStack) -> SlurmCluster:
    cluster = SlurmCluster(folder, spec, dev)
    cluster.start()
    stack.callback(cluster.stop, keep=KEEP in os.environ)
    return cluster


@pytest.fixture(scope="session")
def slurm_with(
    cluster_folders: Callable[[], Path], orlop_dev_root: DevRoot
) -> Iterator[StartSlurm]:
    """A cluster of the given spec, the same one for every test of this worker that asks for it."""
    running: dict[str, SlurmCluster] = {}
    with ExitStack() as stack:

        def slurm_of(spec: Spec) -> SlurmCluster:
            key = json.dumps(spec.to_json(), sort_keys=True)
            if key not in running:
                running[key] = start(cluster_folders(), spec, orlop_dev_root, stack)
            return running[key]

        yield slurm_of


@pytest.fixture(scope="session")
def slurm(slurm_with: StartSlurm) -> SlurmCluster:
    """Four nodes, no accounting."""
    return slurm_with(Spec())


@pytest.fixture
def new_slurm(cluster_folders: Callable[[], Path], orlop_dev_root: DevRoot) -> Iterator[StartSlurm]:
    """Starts clusters for one test, which may cut power and stop daemons as it likes."""
    with ExitStack() as stack:
        yield lambda spec: start(cluster_folders(), spec, orlop_dev_root, stack)


@pytest.fixture(scope="session")
def rootless_slurm(orlop_dev_root: DevRoot) -> Iterator[RootlessSlurm]:
    """Slurm of one ordinary user: of the test user where root runs the tests, else of whoever."""
    if shutil.which("slurmctld", path=SYSTEM_PATH) is None:
        pytest.skip(NEEDS_ROOT)
    sweep_rootless(orlop_dev_root.clusters)
    folder = orlop_dev_root.clusters / f"rootless-{os.getpid()}"
    with RootlessSlurm(folder, dev=orlop_dev_root) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def registry_on(orlop_dev_root: DevRoot) -> Iterator[StartRegistry]:
    """The registry of a cluster, on its head; it ends with the cluster."""
    running: dict[Path, Registry] = {}
    with ExitStack() as stack:

        def registry_of(cluster: SlurmCluster) -> Registry:
            if cluster.root not in running:
                registry = running[cluster.root] = Registry.on_head(cluster)
                registry.start(ALL.prepared(orlop_dev_root))
                stack.callback(registry.stop)
            return running[cluster.root]

        yield registry_of


@pytest.fixture(scope="session")
def registry(slurm: SlurmCluster, registry_on: StartRegistry) -> Registry:
    return registry_on(slurm)


@pytest.fixture(scope="session")
def loopback_registry(
    orlop_dev_root: DevRoot, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """A registry on this machine's loopback, for tests without a cluster."""
    registry = Registry.on_loopback(tmp_path_factory.mktemp("registry") / "data")
    registry.start(ALL.prepared(orlop_dev_root))
    yield registry
    registry.stop()
