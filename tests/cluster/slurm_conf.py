"""Writes slurm.conf, gres.conf and cgroup.conf of a test cluster.

Called once when a cluster starts; pure functions from a spec and a folder to text. The settings
make Slurm quick to start jobs and quick to notice failures, as no real site would dare to.
"""

from __future__ import annotations

from pathlib import Path

from .spec import HEAD, HEAD_ADDRESS, Spec

# Quick to start: no gathering of submissions, no pause between two scheduling passes.
SCHEDULER = "batch_sched_delay=0,sched_min_interval=0,bf_interval=5,bf_yield_sleep=1000"
GPU_NODES = 2
CLUSTER_NAME = "orlop"


def base_settings(root: Path, munge_socket: Path) -> dict[str, str]:
    """What both kinds of cluster, that of root and that of one user, have in common."""
    return {
        "ClusterName": CLUSTER_NAME,
        "AuthType": "auth/munge",
        # A requeued job waits until its credential expires, 120 s by default.
        "AuthInfo": f"socket={munge_socket},cred_expire=5",
        "StateSaveLocation": f"{root}/state",
        "SlurmctldPidFile": f"{root}/slurmctld.pid",
        "SlurmctldLogFile": f"{root}/log/slurmctld.log",
        "SlurmdLogFile": f"{root}/log/slurmd-%n.log",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "MpiDefault": "none",
        "MailProg": "/bin/true",
        "ReturnToService": "2",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_Memory",
        # Without a default every job takes a node's whole memory.
        "DefMemPerCPU": "100",
        # Nodes claim more CPUs than the machine has.
        "SlurmdParameters": "config_overrides",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": SCHEDULER,
        "KillWait": "5",
        "SlurmdTimeout": "60",
        "MaxJobCount": "50000",
        "MaxArraySize": "20001",
    }


def settings(root: Path, spec: Spec) -> dict[str, str]:
    socket = root / "munge" / "socket"
    lines = base_settings(root, socket) | {
        "SlurmctldHost": f"{HEAD}({HEAD_ADDRESS})",
        "SlurmUser": "slurm",
        "SlurmdSpoolDir": "/var/spool/slurmd",
        "SlurmdPidFile": "/run/slurmd.pid",
        "AccountingStorageType": "accounting_storage/none",
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": "task=2",
    }
    if spec.accounting:
        lines |= {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": HEAD_ADDRESS,
            # Connections to slurmdbd ignore AuthInfo and look for the socket here.
            "AccountingStoragePass": str(socket),
            # As most sites: an unknown account or QOS is refused when the job is submitted.
            "AccountingStorageEnforce": "associations,limits,qos",
            # By QOS, once sacctmgr is told which preempts which.
            "PreemptType": "preempt/qos",
            "PreemptMode": "CANCEL",
        }
    if spec.rest:
        lines |= {
            "AuthAltTypes": "auth/jwt",
            "AuthAltParameters": f"jwt_key={root}/etc/jwt.key",
        }
    if spec.cgroups:
        lines |= {
            "ProctrackType": "proctrack/cgroup",
            "TaskPlugin": "task/cgroup",
            "JobAcctGatherType": "jobacct_gather/cgroup",
        }
    if spec.gpus or spec.gres:
        lines["GresTypes"] = ",".join([*(["gpu"] if spec.gpus else []), *spec.gres])
    if spec.switches:
        lines["TopologyPlugin"] = "topology/tree"
    return lines | dict(spec.settings)


def slurm_conf(root: Path, spec: Spec) -> str:
    lines = [f"{key}={value}" for key, value in settings(root, spec).items()]
    lines += [_node_line(spec, name) for name in spec.node_names]
    for partition in spec.partitions:
        words = [f"PartitionName={partition.name}", f"Nodes={partition.nodes}", "State=UP"]
        lines.append(" ".join(words + [f"{k}={v}" for k, v in partition.settings.items()]))
    return "\n".join(lines) + "\n"


def _node_line(spec: Spec, name: str) -> str:
    words = [f"NodeName={name}", f"NodeAddr={spec.addresses[name]}"]
    words += [f"CPUs={spec.cpus}", f"RealMemory={spec.memory}"]
    if spec.scratch:
        words.append(f"TmpDisk={spec.scratch}")
    if features := spec.features.get(name):
        words.append(f"Features={features}")
    gres = [f"{kind}:{count}" for kind, count in spec.gres.items()]
    if spec.gpus and name in spec.node_names[:GPU_NODES]:
        gres.insert(0, f"gpu:fake:{spec.gpus}")
    if gres:
        words.append(f"Gres={','.join(gres)}")
    words += spec.equipment.get(name, "").split()
    return " ".join([*words, "State=UNKNOWN"])


def gres_conf(spec: Spec) -> str:
    lines = [f"Name={kind} Count={count}\n" for kind, count in spec.gres.items()]
    lines += [f"{line}\n" for line in spec.gres_lines]
    if spec.gpus:
        nodes = ",".join(spec.node_names[:GPU_NODES])
        files = f"/dev/nvidia[0-{spec.gpus - 1}]"
        lines.append(f"NodeName={nodes} Name=gpu Type=fake File={files}\n")
    return "".join(lines)


def topology_conf(spec: Spec) -> str:
    """All leaf switches hang from one, so that jobs may span them."""
    lines = [f"SwitchName={name} Nodes={nodes}\n" for name, nodes in spec.switches.items()]
    return "".join([*lines, f"SwitchName=top Switches={','.join(spec.switches)}\n"])


# slurmd loads a plugin for cgroups even if it uses none, and that of version 2, which a modern
# machine would make it choose, fails without systemd; that of version 1 does nothing unasked.
NO_CGROUPS = "CgroupPlugin=cgroup/v1\n"


def cgroup_conf(version: int) -> str:
    lines = [
        f"CgroupPlugin=cgroup/v{version}",
        "ConstrainCores=no",  # nodes claim cores the machine does not have
        "ConstrainRAMSpace=yes",
        "ConstrainSwapSpace=no",
        "ConstrainDevices=yes",
    ]
    if version == 2:
        lines.append("IgnoreSystemd=yes")
    return "\n".join(lines) + "\n"
