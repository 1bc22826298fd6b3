"""Pods and sites for the tests of this folder, with as little in them as a test needs."""

from __future__ import annotations

from typing import Any

from orlop.settings import SlurmSettings
from orlop.slurm.translate.job import JobSpec, Site, job_spec

SLURM = "slurm.orlop.dev/"


def container(requests: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": "main", "resources": {"requests": requests or {}}, **more}


def pod(*containers: dict[str, Any], annotations: Any = None, **spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "default", "name": "web-1", "uid": "6f1c"}
    metadata["annotations"] = annotations or {}
    return {"metadata": metadata, "spec": {"containers": list(containers), **spec}}


def site(settings: SlurmSettings | None = None, **more: Any) -> Site:
    more = {"path": "/usr/bin:/bin", "environment": {"HOME": "/home/ann"}} | more
    return Site(settings=settings or SlurmSettings(), cluster_uid="c0ffee", **more)


def spec_of(of: dict[str, Any], where: Site | None = None) -> JobSpec:
    command = ("/usr/bin/python3", "-I", "/home/ann/.orlop/run/agent.pyz", "/home/ann/pod")
    return job_spec(of, "main", "/home/ann/pod", command, where or site())


def options_of(of: dict[str, Any], where: Site | None = None) -> dict[str, str | None]:
    """The options of a pod's job without those that every job has."""
    always = {"job-name", "comment", "partition", "chdir", "output", "open-mode", "export"}
    found = dict(spec_of(of, where).options)
    return {name: value for name, value in found.items() if name not in {*always, "no-requeue"}}
