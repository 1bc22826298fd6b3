"""Every file in examples/ runs as its first comment says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.cluster.fixtures import StartRegistry
from tests.e2e.mpi_images import openmpi_image
from tests.e2e.site import Site, eventually

MPI_IMAGE = "mpioperator/mpi-pi:openmpi"

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(site: Site, example: Path, registry_on: StartRegistry) -> None:
    if MPI_IMAGE in example.read_text():
        registry_on(site.cluster).push(MPI_IMAGE, openmpi_image())
    site.apply(example.read_text())
    for obj in yaml.safe_load_all(example.read_text()):
        kind, name = obj["kind"], obj["metadata"]["name"]
        if kind == "Pod":
            site.wait_phase(name, "Succeeded", timeout=90)
        elif kind == "Job":
            site.kubectl(
                "wait", "--for=condition=complete", f"job/{name}", "--timeout=100s", timeout=110
            )
        elif kind == "JobSet":
            site.kubectl(
                "wait", "--for=condition=Completed", f"jobset/{name}", "--timeout=100s", timeout=110
            )
        elif kind in ("MPIJob", "PyTorchJob"):
            ended = f"--for=condition=Succeeded {kind.lower()}/{name} --timeout=100s"
            site.kubectl("wait", *ended.split(), timeout=110)
        elif kind == "Deployment":
            site.kubectl("rollout", "status", f"deployment/{name}", "--timeout=60s", timeout=70)
            eventually(
                lambda name=name: site.get("deployment", name)["status"].get("readyReplicas"),
                "ready replicas",
            )
        elif kind == "StatefulSet":
            site.kubectl("rollout", "status", f"statefulset/{name}", "--timeout=60s", timeout=70)
        elif kind == "SlurmJob":
            ended = f"--for=condition=Complete slurmjob/{name} --timeout=100s"
            site.kubectl("wait", *ended.split(), timeout=110)
