"""Reads the plan of one pod as the agent needs it: `plan.json`, typed.

Read once at start, by `main`. It describes; how a container is started is composed by
`container/runtimes/` from what the node has.
"""

from __future__ import annotations

import os

from ..wellknown import END_TIME_MARK, HOST_IP_MARK, HOST_IPS_MARK
from .container import capabilities
from .container.container_state import Rule, Spec
from .linux.addresses import own_addresses
from .linux.fast_imports import dumps, loads, signal, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

VERSION = 1
# As JSON has them inside a string.
_HOST_IP, _HOST_IPS, _END_TIME = (
    dumps(mark)[1:-1].encode() for mark in (HOST_IP_MARK, HOST_IPS_MARK, END_TIME_MARK)
)


@value
class Mount:
    volume: str
    path: str
    read_only: bool
    sub_path: str
    all_read_only: str = ""  # Enabled, IfPossible: what is mounted below it too
    propagates: bool = False  # what the node mounts below it later is seen too


@value
class User:
    uid: int
    gid: int
    groups: list[int]


@value
class Container:
    name: str
    init: bool
    image: str
    rootfs: str  # empty: the node's own root
    argv: list[str]
    env: list[tuple[str, str]]
    cwd: str
    user: User | None  # None: root in an image, oneself on the node's own root
    read_only_root: bool
    capabilities: list[int]
    mounts: list[Mount]
    memory_limit: int
    cpu_limit: int  # thousandths of a core
    stdin: bool
    stdin_once: bool
    tty: bool
    message_path: str
    message_policy: str
    stop_signal: int
    restart_policy: str = ""  # its own; Always of an init container: it stays, a sidecar
    restart_rules: Sequence[dict[str, Any]] = ()
    probes: Mapping[str, dict[str, Any]] = {}  # startup, liveness, readiness: as the pod has them
    hooks: Mapping[str, dict[str, Any]] = {}  # postStart, preStop
    ephemeral: bool = False
    cores: int = 0  # that no other container of the pod runs on
    gpus: int = 0  # how many it asks for
    storage: Mapping[str, Any] = {}  # `limit` of what it may keep on disk; its words
    unmasked: bool = False  # its /proc hides nothing
    seccomp: Mapping[str, Any] | None = None  # a profile, or the name of one; None: not confined
    target: str = ""  # the container whose processes an ephemeral one sees

    def spec(self) -> Spec:
        """Return what the pod lifecycle needs to know of it."""
        rules = [Rule(r["exitCodes"]["operator"], r["exitCodes"]["values"])
                 for r in self.restart_rules]  # fmt: skip
        graces = {
            kind: float(probe.get("terminationGracePeriodSeconds") or -1)
            for kind, probe in self.probes.items()
        }
        return Spec(
            self.name,
            self.init,
            self.stop_signal,
            self.restart_policy,
            rules,
            graces,
            tuple(self.hooks),
            self.ephemeral,
        )

    env_files: list[dict[str, Any]] | None = None  # variables from files of the pod's own


@value
class Pod:
    namespace: str
    name: str
    uid: str
    node: str
    hostname: str
    fqdn: str  # its name in DNS; empty: none but by its address
    restart_policy: str
    grace: float
    deadline: float  # 0: none
    host_aliases: list[dict[str, Any]]
    shared: Sequence[str] = ()  # pids: among its containers; hostPids, hostIpc: with its node
    memory_limit: int = 0  # of all containers together
    cpu_limit: int = 0  # likewise, thousandths of a core
    sysctls: Sequence[dict[str, str]] = ()
    storage: Mapping[str, Any] = {}  # what it may, and what it must be able to keep on disk


@value
class Plan:
    cluster: str
    pod: Pod
    kubelet: dict[str, str]
    runtimes: list[str]
    scratch: str
    pass_env: list[str]
    volumes: list[dict[str, Any]]
    containers: list[Container]  # init containers first, in order
    revision: int  # raised by the kubelet with every change
    runtime_required: bool = False  # one of `runtimes`, or none at all
    runtime_setting: str = ""  # what the settings name for all pods
    network: dict[str, Any] | None = None  # its own, as the plan has it; None: the node's
    host_env: dict[str, list[str]] | None = None  # name -> [value, that on the node's network]
    resolver: dict[str, Any] | None = None  # what goes into resolv.conf; None: the node's
    group: str = ""  # the volume by which commands are started in other pods
    ranks: dict[str, Any] | None = None  # the container that runs once for every task, and how
    pids: int = 0  # processes that its containers may have together; 0: see process.most_processes
    logs: Mapping[str, int] = {}  # how much is kept of a run's, where that is not as the kubelet's


def read(path: str) -> Plan:
    """Return the plan in the file at `path`; raise ValueError with what is wrong with it."""
    with open(path, "rb") as file:
        raw = loads(_with_end(_with_addresses(file.read())))
    if raw.get("version") != VERSION:
        found = raw.get("version")
        raise ValueError(f"{path}: plan version {found}, this agent reads {VERSION}: `orlop up`")
    try:
        return _plan(raw)
    except KeyError as missing:
        raise ValueError(f"{path}: the plan has no {missing}") from missing


def _with_addresses(text: bytes) -> bytes:
    """Return the plan's JSON with the node's addresses where marks stand for them."""
    if _HOST_IP not in text and _HOST_IPS not in text:
        return text
    found = own_addresses(loads(text)["kubelet"].get("endpointFile", ""))
    return text.replace(_HOST_IP, found[0].encode()).replace(_HOST_IPS, ",".join(found).encode())


def _with_end(text: bytes) -> bytes:
    """Return the plan's JSON with the end of the job where a mark stands for it."""
    if _END_TIME not in text:
        return text
    from .pod.walltime import end_time

    return text.replace(_END_TIME, end_time().encode())


def _plan(raw: dict[str, Any]) -> Plan:
    return Plan(
        cluster=raw.get("cluster", ""),
        pod=_pod(raw["pod"]),
        kubelet=raw.get("kubelet") or {},
        runtimes=raw.get("runtimes") or [],
        scratch=raw.get("scratch") or "",
        pass_env=raw.get("passEnv") or [],
        volumes=raw.get("volumes") or [],
        revision=int(raw.get("revision") or 0),
        containers=[_container(c, True) for c in raw.get("initContainers") or []]
        + [_container(c, False) for c in raw["containers"]],
        runtime_required=bool(raw.get("runtimeRequired")),
        runtime_setting=raw.get("runtimeSetting") or "",
        network=raw.get("network"),
        host_env=raw.get("hostEnv") or {},
        resolver=raw.get("resolver"),
        group=raw.get("group") or "",
        ranks=raw.get("ranks"),
        pids=int(raw.get("pids") or 0),
        logs=raw.get("logs") or {},
    )


def lead(plan: Plan, folder: str, hostname: str) -> None:
    """Add what the node knows of a rank set; without Slurm a container runs but once."""
    if "SLURM_JOB_ID" not in os.environ:
        plan.ranks = None
    if plan.ranks is None:
        return
    plan.pod.shared = (*plan.pod.shared, "hostPids")
    is_wide = os.environ.get("SLURM_JOB_NUM_NODES", "1") != "1"
    # What init containers leave in an emptyDir must be there on every node.
    plan.ranks.update(folder=folder, hostname=hostname, disk=folder if is_wide else "")


def check_reach(plan: Plan, is_isolated: bool) -> None:
    """Let ranks go without the cluster's names where this node cannot give them."""
    if plan.ranks is not None and plan.ranks.get("network"):
        from .netd.kernel_check import problem

        if problem(is_isolated):
            plan.ranks["network"] = None


def _pod(raw: dict[str, Any]) -> Pod:
    grace = raw.get("terminationGracePeriodSeconds")
    return Pod(
        namespace=raw["namespace"],
        name=raw["name"],
        uid=raw["uid"],
        node=raw.get("node", ""),
        hostname=raw.get("hostname") or raw["name"],
        fqdn=raw.get("fqdn") or "",
        restart_policy=raw.get("restartPolicy") or "Always",
        grace=30.0 if grace is None else float(grace),
        deadline=float(raw.get("activeDeadlineSeconds") or 0),
        host_aliases=raw.get("hostAliases") or [],
        shared=tuple(raw.get("shared") or ()),
        memory_limit=int(raw.get("memoryLimit") or 0),
        cpu_limit=int(raw.get("cpuLimit") or 0),
        storage=raw.get("storage") or {},
        sysctls=raw.get("sysctls") or (),
    )


def _capabilities(raw: dict[str, Any]) -> list[int]:
    return capabilities.chosen(raw.get("add") or [], raw.get("drop") or [])


def _container(raw: dict[str, Any], init: bool) -> Container:
    return Container(
        name=raw["name"],
        init=init,
        image=raw.get("image", ""),
        rootfs=raw.get("rootfs") or "",
        argv=raw["argv"],
        env=[(name, value) for name, value in raw.get("env") or []],
        env_files=raw.get("envFiles") or [],
        cwd=raw.get("cwd") or "/",
        user=_user(raw.get("user")),
        read_only_root=bool(raw.get("readOnlyRoot")),
        capabilities=_capabilities(raw.get("capabilities") or {}),
        mounts=[_mount(m) for m in raw.get("mounts") or []],
        memory_limit=int(raw.get("memoryLimit") or 0),
        cpu_limit=int(raw.get("cpuLimit") or 0),
        stdin=bool(raw.get("stdin")),
        stdin_once=bool(raw.get("stdinOnce")),
        tty=bool(raw.get("tty")),
        message_path=raw.get("terminationMessagePath") or "/dev/termination-log",
        message_policy=raw.get("terminationMessagePolicy") or "File",
        stop_signal=signal_number(raw.get("stopSignal") or ""),
        restart_policy=raw.get("restartPolicy") or "",
        restart_rules=raw.get("restartPolicyRules") or (),
        probes=raw.get("probes") or {},
        hooks=raw.get("hooks") or {},
        ephemeral=bool(raw.get("ephemeral")),
        cores=int(raw.get("cores") or 0),
        gpus=int(raw.get("gpus") or 0),
        storage=raw.get("storage") or {},
        unmasked=bool(raw.get("unmasked")),
        seccomp=raw.get("seccomp"),
        target=raw.get("target") or "",
    )


def added_container(raw: dict[str, Any], kubelet: dict[str, str]) -> Container:
    """Return a container that the kubelet adds to a running pod; raise KeyError if it is none."""
    text = dumps({**raw, "ephemeral": True, "kubelet": kubelet}).encode()
    return _container(loads(_with_end(_with_addresses(text))), False)


def _user(raw: dict[str, Any] | None) -> User | None:
    if not raw:
        return None
    return User(raw.get("uid") or 0, raw.get("gid") or 0, raw.get("groups") or [])


def _mount(raw: dict[str, Any]) -> Mount:
    read_only = bool(raw.get("readOnly"))
    more = raw.get("recursiveReadOnly") or "", bool(raw.get("propagates"))
    return Mount(raw["volume"], raw["path"], read_only, raw.get("subPath") or "", *more)


def signal_number(name: str) -> int:
    """Return the number of a stop signal as images write it: TERM, SIGQUIT, 3, SIGRTMIN+3."""
    word = name.strip().upper()
    word = word[3:] if word.startswith("SIG") else word
    base, _, offset = word.partition("+")
    if not word:
        return int(signal.SIGTERM)
    if base.isdigit():
        return int(base)
    known = getattr(signal, "SIG" + base, None)
    return int(known) + int(offset or 0) if known is not None else int(signal.SIGTERM)
