"""The agent's whole course: claim the pod, enter its sandbox, run it, clean up.

Started in the job as `python -I agent.pyz <folder>`. Two processes: the keeper, which the engine
signals and whose exit code the job has, and the supervisor, first in a process namespace of the
pod's own so that all of the pod dies with it. Modules that are slow to import come after the
first containers run.
"""

from __future__ import annotations

import os
import sys

from .. import wellknown
from . import claim, life, plan, sandbox, syscalls
from .addresses import own_addresses
from .journal import Journal
from .lean import signal
from .plan import Plan
from .process import exit_of
from .supervisor import Supervisor
from .workshop import Places, Workshop, make_places, remove_places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DELIVERY_TIME = 3.0  # for the last records; the kubelet reads the journal otherwise
REFUSED = 75  # EX_TEMPFAIL: this job is not the one that runs the pod


def main(argv: list[str]) -> int:
    """Run the pod whose folder is the argument; its exit code."""
    if len(argv) != 2:
        print("usage: python -I agent.pyz <pod folder>", file=sys.stderr)
        return 64
    folder = os.path.abspath(argv[1])
    try:
        the_plan = plan.read(os.path.join(folder, wellknown.PLAN_FILE))
        job = Job()
        claim.take(os.path.join(folder, wellknown.CLAIM_FILE), job.id, job.restart, job.node)
    except (OSError, ValueError, claim.Claimed) as error:
        print(f"orlop agent: {error}", file=sys.stderr)
        return REFUSED
    journal = Journal(os.path.join(folder, wellknown.JOURNAL_FILE))
    ended = _end_of(journal.records)
    return ended if ended is not None else _keep(the_plan, job, journal, folder)


class Job:
    """The job we are in, by the environment the engine gave us."""

    def __init__(self) -> None:
        environ = os.environ
        self.id = environ.get("ORLOP_JOB_ID") or environ.get("SLURM_JOB_ID") or str(os.getpid())
        self.restart = int(environ.get("SLURM_RESTART_COUNT") or 0)
        self.node = environ.get("SLURMD_NODENAME") or os.uname().nodename


def _end_of(records: list[dict[str, Any]]) -> int | None:
    """The exit code of a pod that is over; None for one that is not, or was requeued."""
    if not records or records[-1]["type"] != "finished":
        return None
    why = [record["why"] for record in records if record["type"] == "terminating"]
    if why and why[-1] == "signal":
        return None
    return 0 if records[-1]["phase"] == "Succeeded" else 1


def _keep(the_plan: Plan, job: Job, journal: Journal, folder: str) -> int:
    """Enter the sandbox, fork the supervisor into it, wait for it and clean up after it."""
    box = sandbox.enter(the_plan.pod.hostname)
    places = make_places(the_plan, box)
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            code = _supervise(the_plan, job, journal, folder, box, places)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: os.kill(pid, got))
    _, status = os.waitpid(pid, 0)
    code, _ = exit_of(status)
    remove_places(places, box)
    return code


def _supervise(
    the_plan: Plan,
    job: Job,
    journal: Journal,
    folder: str,
    box: sandbox.Sandbox,
    places: Places,
) -> int:
    """The pod's first process: containers first, everything else after."""
    syscalls.die_with_parent(signal.SIGKILL)
    if box.has_own_pids:
        syscalls.mount("proc", "/proc", "proc")
    else:
        syscalls.adopt_orphans()
    machine = _life(the_plan, journal)
    workshop = Workshop(the_plan, box, places)
    from . import runtimes

    runtime = runtimes.choose(the_plan.runtimes, places.memory)
    supervisor = Supervisor(the_plan, machine, journal, workshop, lambda _: runtime, folder)
    supervisor.watch_signals()
    supervisor.begin(lambda: _started(job, the_plan, runtime.version()))
    from .uplink import Identity, Uplink

    identity = Identity(job.id, job.restart, job.node)
    uplink = Uplink(the_plan, identity, folder, journal, supervisor.post, supervisor.is_log_open)
    supervisor.on_records, supervisor.on_log = uplink.on_records, uplink.on_log
    uplink.start()
    code = supervisor.run()
    uplink.finish(DELIVERY_TIME)
    return code


def _started(job: Job, the_plan: Plan, runtime: str) -> dict[str, Any]:
    """The record that opens this job's part of the journal."""
    head = {"type": "started", "job": job.id, "restart": job.restart, "node": job.node}
    addresses = own_addresses(the_plan.kubelet.get("endpointFile", ""))
    return {**head, "addresses": addresses, "runtime": runtime, "pid": os.getpid()}


def _life(the_plan: Plan, journal: Journal) -> life.Life:
    pod = the_plan.pod
    import time

    title = f"{pod.name}_{pod.namespace}({pod.uid})"
    spec = life.PodSpec(title, pod.restart_policy, pod.grace, pod.deadline, time.time())
    specs = [life.Spec(c.name, c.init, c.stop_signal) for c in the_plan.containers]
    machine = life.Life(spec, specs)
    machine.remember(journal.records)
    return machine
