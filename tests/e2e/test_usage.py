"""`kubectl slurm usage` says of every kind of work what sacct says of its job, row by row."""

from __future__ import annotations

import re

from tests.e2e.site import Obj, Site, eventually, pod

LONG = 120.0
SHOWN = ("STATE", "ELAPSED", "CPUS", "CPU-TIME", "MAX-RSS")
WORK = "sleep 3; exit 42"  # Slurm looks at memory every two seconds


def ranks(name: str) -> Obj:
    notes = {"slurm.orlop.dev/nodes": "2", "slurm.orlop.dev/ntasks": "2"}
    return pod(name, "host", WORK, metadata={"annotations": notes})


def slurm_job(name: str) -> Obj:
    metadata, spec = {"name": name}, {"script": f"#!/bin/sh\nsrun -J part sh -c '{WORK}'\n"}
    made = {"apiVersion": "slurm.orlop.dev/v1", "kind": "SlurmJob"}
    return {**made, "metadata": metadata, "spec": spec}


def rows(site: Site, job: str) -> list[dict[str, str]]:
    """The job and its steps."""
    fields = "JobID,JobName,Account,State,ExitCode,Elapsed,AllocCPUS,TotalCPU,MaxRSS"
    text = site.run("sacct", "-n", "-P", "-j", job, "-o", fields).stdout
    found = [dict(zip(fields.split(","), line.split("|"), strict=True)) for line in text.split()]
    return found if found and all(row["State"] == "FAILED" for row in found) else []


def size(text: str) -> int:
    """`3008K`, `78M`."""
    return int(text[:-1] or 0) << 10 * "KMG".index(text[-1:] or "K")


def used(site: Site) -> dict[str, dict[str, str]]:
    """What the plugin prints, by pod and by the heads of its columns."""
    head, *lines = site.run("kubectl", "slurm", "usage", "-n", site.namespace).stdout.splitlines()
    starts = {match.group(): match.start() for match in re.finditer(r"\S+( \S+)*", head)}
    ends = [*list(starts.values())[1:], None]
    cells = zip(starts, starts.values(), ends, strict=True)
    columns = {name: slice(start, end) for name, start, end in cells}
    found = [{name: line[part].strip() for name, part in columns.items()} for line in lines]
    return {row["POD"]: row for row in found}


def test_usage_and_sacct_agree_on_a_pod_a_rank_set_and_a_slurm_job(accounted_site: Site) -> None:
    site = accounted_site
    site.apply(pod("single", "busybox", WORK))
    site.apply(ranks("both"))
    site.apply(slurm_job("batch"))
    jobs = {
        name: site.wait_phase(name, "Failed", timeout=LONG)["metadata"]["annotations"][
            "slurm.orlop.dev/job-id"
        ]
        for name in ("single", "both")
    }

    def ended() -> str:
        status: Obj = site.get("slurmjobs.slurm.orlop.dev", "batch").get("status") or {}
        return str(status["jobId"]) if status.get("phase") == "Failed" else ""

    jobs["batch-job"] = eventually(ended, "the SlurmJob has ended", LONG)
    steps = {"single": ["batch"], "both": ["batch", "main"], "batch-job": ["batch", "part"]}
    names = {"single": f"{site.namespace}/single", "both": f"{site.namespace}/both"}
    for name, job in jobs.items():
        found = eventually(lambda job=job: rows(site, job), f"sacct has the end of {name}", LONG)
        whole, *parts = found
        assert whole["JobName"] == names.get(name, "batch")
        assert {row["Account"] for row in found} == {"research"}
        assert [row["JobName"] for row in parts] == steps[name]
        assert {row["ExitCode"] for row in found} == {"42:0"}, found
        told = used(site)[name]
        assert told["JOB"] == job
        largest = max((row["MaxRSS"] for row in parts), key=size)
        expected = (whole["State"], whole["Elapsed"], whole["AllocCPUS"], whole["TotalCPU"])
        assert tuple(told[column] for column in SHOWN) == (*expected, largest)
        assert int(largest[:-1]) > 0
