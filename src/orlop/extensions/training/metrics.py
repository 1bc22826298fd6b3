"""Counts jobs of kubeflow.org, under the names that their operators' metrics have.

Counted by the controllers of MPIJobs and PyTorchJobs when a condition is new; shown at /metrics.
Counters begin anew with the process, as those of any controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...metrics import PROCESS, Counter
from .status import News

_MPI, _TRAINING = "mpi_operator_", "training_operator_"
_OF = ("job_namespace", "framework")

MPI_JOBS: Mapping[str, Counter] = {
    "Created": PROCESS.counter(f"{_MPI}jobs_created_total", "Counts number of MPI jobs created"),
    "Succeeded": PROCESS.counter(
        f"{_MPI}jobs_successful_total", "Counts number of MPI jobs successful"
    ),
    "Failed": PROCESS.counter(f"{_MPI}jobs_failed_total", "Counts number of MPI jobs failed"),
}
MPI_JOB_INFO = PROCESS.gauge(f"{_MPI}job_info", "Information about MPIJob", "launcher", "namespace")
TRAINING_JOBS: Mapping[str, Counter] = {
    "Created": PROCESS.counter(
        f"{_TRAINING}jobs_created_total", "The total number of created jobs", *_OF
    ),
    "Succeeded": PROCESS.counter(
        f"{_TRAINING}jobs_successful_total", "The total number of successful jobs", *_OF
    ),
    "Failed": PROCESS.counter(
        f"{_TRAINING}jobs_failed_total", "The total number of failed jobs", *_OF
    ),
    "Restarting": PROCESS.counter(
        f"{_TRAINING}jobs_restarted_total", "The total number of restarted jobs", *_OF
    ),
}


def count(counters: Mapping[str, Counter], news: Iterable[News], *labels: str) -> None:
    """Count each condition that has become so once."""
    for one in news:
        if one.about in counters:
            counters[one.about].add(*labels)
