"""Runs the agent from start to end: claims the pod, enters its sandbox, runs it, cleans up.

Started in the job by AGENT_LAUNCH, or as `python -I agent.pyz <folder>`. Two processes: the outer
one, which the engine signals and whose exit code the job has, and the supervisor, first in a
process namespace of the pod's own so that all of the pod dies with it. Modules that are slow to
import come after the first containers run, or when somebody asks for what they do.
"""

from __future__ import annotations

import gc
import os
import sys
import time

from .. import wellknown
from . import plan
from .container.cgroups import Cgroups
from .container.container_setup import Workshop
from .linux import syscalls
from .linux.addresses import own_addresses
from .linux.fast_imports import signal, value
from .linux.process import close_on_exec, exit_of
from .plan import Plan
from .pod import claim, pod_lifecycle, sandbox
from .pod.journal import Journal
from .pod.sandbox import Sandbox
from .pod.scratch_dirs import (
    EPHEMERAL,
    NoRoom,
    Places,
    check_room,
    make_places,
    remove_places,
    sweep,
)
from .pod.supervisor import Supervisor
from .pod.volumes import VolumeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .exec.group_exec import Group
    from .netd.netd_supervisor import NetdSupervisor

# Conditions of the pod: what this node could not give it.
SANDBOXED = wellknown.DOMAIN + "/Sandboxed"
NETWORK = wellknown.DOMAIN + "/Network"
HOST_PORTS = wellknown.DOMAIN + "/HostPorts"
MEMORY_LIMITED = wellknown.DOMAIN + "/MemoryLimited"
CPU_LIMITED = wellknown.DOMAIN + "/CPULimited"
NO_CGROUPS = "NoContainerCgroups"
RUNTIME = wellknown.DOMAIN + "/Runtime"
NOT_OWN = "the pod is on its node's network, without an address or services of its own: "
NO_NAMES = "the pod is without names and services of the cluster: "
ON_NODE = "on its node's network, with names and services of the cluster"

DELIVERY_TIME = 3.0  # for the last records; the kubelet reads the journal otherwise
USAGE, BROKEN, REFUSED = 64, 70, 75  # as sysexits.h


class Job:
    """The job we are in, by the environment the engine gave us."""

    def __init__(self) -> None:
        environ = os.environ
        self.id = environ.get("ORLOP_JOB_ID") or _slurm_job(environ) or str(os.getpid())
        self.restart = int(environ.get("SLURM_RESTART_COUNT") or 0)
        self.node = environ.get("SLURMD_NODENAME") or os.uname().nodename
        self.step = environ.get("SLURM_STEP_ID", "")  # of a member of a gang
        self.is_member = "+" in self.id  # of a gang
        self.kill_wait = float(environ.get(wellknown.KILL_WAIT_ENV) or 0)
        self.warning = int(environ.get(wellknown.WARNING_ENV) or 0)
        self.term_after = float(environ.get(wellknown.TERM_AFTER_ENV) or 0)
        before = int(environ.get(wellknown.RESTARTS_ENV) or 0)
        environ[wellknown.RESTARTS_ENV] = str(before + self.restart)  # as containers see it


def _slurm_job(environ: Mapping[str, str]) -> str:
    """Return the job's number as its user names it: a task's own would also be its array's."""
    array, task = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else environ.get("SLURM_JOB_ID", "")


@value
class AgentContext:
    """The state that the two processes share."""

    plan: Plan
    job: Job
    folder: str
    journal: Journal
    sandbox: Sandbox
    places: Places
    cgroups: Cgroups
    network: NetdSupervisor | None
    network_lack: str | None  # what keeps the pod from a network of its own; None: it wants none


def main(argv: list[str]) -> int:
    """Run the pod whose folder is the argument; return its exit code."""
    if argv[1:2] == ["gang"]:
        from .pod.gang import lead

        gc.enable()  # it lives long, and forks nothing that it shares with
        return lead(argv)
    if len(argv) != 2:
        print("usage: python -I agent.pyz <pod folder>", file=sys.stderr)
        return USAGE
    folder = os.path.realpath(argv[1])  # a task of an array is given a link to it
    os.chdir("/")  # where the job was submitted may not exist, or not be for us, on this node
    close_on_exec()
    try:
        the_plan = plan.read(os.path.join(folder, wellknown.PLAN_FILE))
        job = Job()
        path = os.path.join(folder, wellknown.CLAIM_FILE)
        claim.take(path, job.id, job.restart, job.node, job.step)
    except (OSError, ValueError, claim.Claimed) as error:
        print(f"orlop agent: {error}", file=sys.stderr)
        return REFUSED
    journal = Journal(os.path.join(folder, wellknown.JOURNAL_FILE))
    ended = end_of(journal.records)
    if ended is not None:
        return ended
    diagnostics = _diagnostics(the_plan)
    plan.lead(the_plan, folder, os.uname().nodename)
    cgroups = Cgroups()  # before the agent is two processes: version 2 has it move
    cgroups.limit_pod(the_plan.pod.memory_limit, the_plan.pod.cpu_limit)
    box = sandbox.enter(the_plan.pod.hostname, the_plan.pod.shared)
    os.umask(0o022)  # the job's own is 077; containers of other uids must read what is made here
    try:
        places = make_places(the_plan, box)
    except OSError as error:
        print(f"orlop agent: no folder for the pod on this node: {error}", file=sys.stderr)
        return REFUSED
    plan.check_reach(the_plan, box.is_isolated)
    network, lack = _network(the_plan, box, diagnostics)
    return _keep(AgentContext(the_plan, job, folder, journal, box, places, cgroups, network, lack))


def _diagnostics(the_plan: Plan) -> tuple[int, int]:
    """Open, outside the sandbox, the sockets by which netd and the agent see whose a socket is."""
    if the_plan.network is None:
        return -1, -1
    from .netd.netd_supervisor import open_diagnostics

    return open_diagnostics(), open_diagnostics()


def _network(
    the_plan: Plan, box: Sandbox, diagnostics: tuple[int, int]
) -> tuple[NetdSupervisor | None, str | None]:
    """Return the pod's own network, and what prevents it; None: it wants the node's."""
    if the_plan.network is None:
        return None, None
    from .netd.kernel_check import problem

    lack = problem(box.is_isolated)
    if lack:  # then it has the node's, with the node's names
        lack = (NO_NAMES if the_plan.network.get("onNode") else NOT_OWN) + lack
        the_plan.network = the_plan.resolver = None
        return None, lack
    from .netd.netd_supervisor import NetdSupervisor

    return NetdSupervisor(the_plan, box, *diagnostics), ""


def end_of(records: list[dict[str, Any]]) -> int | None:
    """Return the exit code of a pod that is over; None if it is not, or may be requeued."""
    if not records or records[-1]["type"] != "finished":
        return None
    code = 0 if records[-1]["phase"] == "Succeeded" else 1
    for record in reversed(records):
        if record["type"] == "started":
            break
        if record["type"] == "terminating":
            return None if record["why"] == "signal" else code
        if record.get("condition") == wellknown.TIME_LIMIT and record["status"] == "True":
            return None if code else 0  # what fails once it is warned has met its limit
    return code


def active_since(records: list[dict[str, Any]]) -> float | None:
    """Return when the pod first ran; its deadline does not begin again with a requeue."""
    return next((record["time"] for record in records if record["type"] == "started"), None)


def _keep(course: AgentContext) -> int:
    """Fork the supervisor, pass signals on to it, wait for it, clean up after it."""
    held = {signal.SIGTERM, signal.SIGINT, *([course.job.warning] if course.job.warning else [])}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who ignores it, and its children, hears nothing
    signal.pthread_sigmask(signal.SIG_BLOCK, {*held, signal.SIGCHLD})  # until somebody can handle
    if course.sandbox.is_isolated and not course.sandbox.has_own_pids:
        from .linux import orphan_killer

        orphan_killer.watch()
    gc.freeze()  # a collection would write to, and so copy, every page that the two share
    pid = os.fork()
    if pid == 0:
        code = BROKEN
        try:
            code = _supervise(course)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    for number in held:
        signal.signal(number, lambda got, _: os.kill(pid, got))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
    sweep(course.places.base, course.sandbox.uid)
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    status = attend(pid, held)
    remove_places(course.places, course.sandbox)
    course.cgroups.remove_pod()
    return exit_of(status)[0]


def attend(pid: int, held: set[int]) -> int:
    """Pass signals on to a child until it ends; return its status.

    `held` are blocked, and SIGCHLD has been since before the child was there. A handler would not
    do: Python runs it between two of its own instructions, and what comes right before waitpid()
    would wait there as long as the child lives.
    """
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        got = signal.sigwait({*held, signal.SIGCHLD})
        if got != signal.SIGCHLD:
            os.kill(pid, got)


def _supervise(course: AgentContext) -> int:
    """Run as the pod's first process: start containers first, everything else after."""
    syscalls.die_with_parent(signal.SIGKILL)
    if course.sandbox.has_own_pids:
        syscalls.mount("proc", "/proc", "proc")
    else:
        syscalls.adopt_orphans()
    if course.plan.pod.sysctls:
        from .pod.sysctls import set_all

        try:
            set_all(course.plan.pod.sysctls, course.sandbox.has_own_ipc)
        except OSError as error:
            return _give_up(course, str(error), "SysctlForbidden")
    try:
        workshop = Workshop(
            course.plan, course.sandbox, course.places, course.cgroups, course.network
        )
        check_room(course.plan, course.places.disk)
    except (VolumeError, OSError) as error:
        return _give_up(course, str(error))
    except NoRoom as error:
        return _give_up(course, str(error), "OutOf" + EPHEMERAL)
    group = _group(course, workshop)
    machine = _life(course)
    supervisor = Supervisor(course.plan, machine, course.journal, workshop, course.folder)
    supervisor.watch_signals(course.job.kill_wait)
    if course.job.is_member:
        supervisor.watch_orders(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    supervisor.begin(lambda: _started(course, workshop.version()))
    for found in [*_conditions(course, workshop.runtime_lack()), *_host_ports(course)]:
        supervisor.record(found)
    return _run_with_uplink(course, supervisor, workshop, group)


def _group(course: AgentContext, workshop: Workshop) -> Group | None:
    """Return what starts commands in other pods; made before a container may look for it."""
    if not course.plan.group:
        return None
    from .exec.group_exec import UCX_DEVICES, Group, devices

    if course.network is not None and not course.network.is_node:
        addresses = own_addresses(course.plan.kubelet.get("endpointFile", ""))
        for container in course.plan.containers:
            if all(name != UCX_DEVICES for name, _ in container.env):
                container.env.append((UCX_DEVICES, devices(addresses[0])))
    return Group(workshop.volumes.path(course.plan.group))


def _run_with_uplink(
    course: AgentContext, supervisor: Supervisor, workshop: Workshop, group: Group | None
) -> int:
    from .connection.kubelet_connection import Identity, Uplink
    from .container import memory_limits
    from .container.stats import Stats
    from .exec import port_forward
    from .exec.processes import Execs
    from .exec.sessions import Sessions
    from .pod.disk_limits import Watch
    from .pod.live_updates import Updates

    job = course.job
    if course.network is not None:

        def lose(words: str) -> None:
            for record in lost_ports(words):
                supervisor.record(record)

        course.network.on_lost_port = lose
        without = NO_NAMES if course.network.is_node else NOT_OWN
        course.network.on_problem = lambda words: supervisor.record(
            condition(NETWORK, False, "NotSupported", without + words)
        )
    supervisor.execs = Execs(supervisor.run_of, supervisor.now, course.network, course.plan.ranks)
    stats = Stats(supervisor.all_runs, supervisor.now)
    uplink = Uplink(
        course.plan,
        Identity(job.id, job.restart, job.node),
        course.folder,
        course.journal,
        supervisor.post,
        supervisor.is_log_open,
        Sessions(supervisor, supervisor.execs, group),
        stats,
        Updates(course.plan, workshop.volumes, supervisor.call),
    )
    supervisor.on_records, supervisor.on_log = uplink.on_records, uplink.on_log
    if course.network is not None:
        if not course.network.is_node:
            port_forward.use(course.network)
        course.network.carried_by(uplink.carry)
    uplink.start()
    gc.enable()
    disk = os.path.join(course.places.disk, "run")
    logs = os.path.join(course.folder, wellknown.LOGS_DIR)
    Watch(course.plan, workshop.volumes, disk, logs, supervisor.post).start()
    if not course.cgroups.limits_memory:
        memory_limits.Watch(course.plan, stats, supervisor.call).start()
    code = supervisor.run()
    workshop.volumes.remove_elsewhere()
    uplink.finish(DELIVERY_TIME)
    return code


def _life(course: AgentContext) -> pod_lifecycle.Life:
    pod = course.plan.pod
    title = f"{pod.name}_{pod.namespace}({pod.uid})"
    since = active_since(course.journal.records) or time.time()
    job = course.job
    spec = pod_lifecycle.PodSpec(
        title, pod.restart_policy, pod.grace, pod.deadline, since, job.warning, job.term_after
    )
    machine = pod_lifecycle.Life(spec, [container.spec() for container in course.plan.containers])
    machine.remember(course.journal.records)
    return machine


def _started(course: AgentContext, runtime: str) -> dict[str, Any]:
    """Make the record that opens this job's part of the journal."""
    job = course.job
    head = {"type": "started", "job": job.id, "restart": job.restart, "node": job.node}
    addresses = own_addresses(course.plan.kubelet.get("endpointFile", ""))
    return {**head, "addresses": addresses, "runtime": runtime, "pid": os.getpid()}


def _conditions(course: AgentContext, runtime_lack: str) -> list[dict[str, Any]]:
    """List what this node does not give the pod, each as a condition."""
    found = [(RUNTIME, "NotFound", runtime_lack)] if runtime_lack else []
    if course.sandbox.problem:
        found.append((SANDBOXED, "UserNamespacesDenied", course.sandbox.problem))
    if course.network_lack:
        found.append((NETWORK, "NotSupported", course.network_lack))
    pod, containers = course.plan.pod, course.plan.containers
    has_memory = pod.memory_limit or any(one.memory_limit for one in containers)
    if has_memory and course.cgroups.memory_problem:
        found.append((MEMORY_LIMITED, NO_CGROUPS, course.cgroups.memory_problem))
    has_cpu = pod.cpu_limit or any(one.cpu_limit and not one.cores for one in containers)
    if has_cpu and course.cgroups.cpu_problem:
        found.append((CPU_LIMITED, NO_CGROUPS, course.cgroups.cpu_problem))
    conditions = [condition(kind, False, reason, words) for kind, reason, words in found]
    if any(record.get("condition") == wellknown.TIME_LIMIT for record in course.journal.records):
        conditions.append(condition(wellknown.TIME_LIMIT, False, "Requeued", ""))
    if course.network is not None and course.network.is_node:
        conditions.append(condition(NETWORK, True, "NodeAddress", ON_NODE))
    elif course.network is not None:
        conditions.append(condition(NETWORK, True, "OwnAddress", ""))
    return conditions


def _host_ports(course: AgentContext) -> list[dict[str, Any]]:
    """List which ports of the node the pod has, and which it does not get."""
    ports = course.network.host_ports if course.network is not None else None
    if ports is None:
        return []
    if not ports.problems:
        return [condition(HOST_PORTS, True, "Open", ports.words())]
    return lost_ports("; ".join(ports.problems))


def lost_ports(words: str) -> list[dict[str, Any]]:
    """Make records that say so, on the pod and in an event."""
    event = {"type": "event", "kind": "Warning", "reason": "HostPortNotOpened", "message": words}
    return [condition(HOST_PORTS, False, "NotOpened", words), event]


def condition(kind: str, status: bool, reason: str, message: str) -> dict[str, Any]:
    """Make a record of a condition for the journal."""
    head = {"type": "condition", "condition": kind, "status": str(status)}
    return {**head, "reason": reason, "message": message}


def _give_up(course: AgentContext, message: str, reason: str = "FailedMount") -> int:
    """Say why the pod cannot even begin, and end: an allocation is too dear to wait in."""
    now = time.time()
    head = {"type": "event", "kind": "Warning", "reason": reason}
    end = {"type": "finished", "phase": "Failed", "reason": reason}
    course.journal.append(_started(course, ""), now)
    course.journal.append({**head, "message": message}, now)
    course.journal.append({**end, "message": message}, now)
    course.journal.flush()
    return 1
