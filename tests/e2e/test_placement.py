"""Where jobs of pods run, with what, and on whose account: on nodes of every kind.

One cluster with features, switches, GPUs of two makers and parts of some, other generic resources,
licences, limits and cores that Slurm binds to; most of what is asked for here shows in where a
pod runs and in what Slurm tells it there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.cluster.fixtures import StartRegistry, StartSlurm
from tests.cluster.spec import HEAD, Partition, Spec
from tests.e2e.conftest import open_site, own_namespace
from tests.e2e.site import Obj, Site, eventually, pod

pytestmark = pytest.mark.timeout(300)

SLURM, FEATURE = "slurm.orlop.dev/", "feature.slurm.orlop.dev/"
GPU, SWITCH = "gpu.slurm.orlop.dev/", "switch.slurm.orlop.dev/"
LONG = 120.0
WHOLE = ("nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm")
KINDS_OF_NODES = Spec(
    cpus=2,
    accounting=True,
    switches={"s1": "n1,n2", "s2": "n3,n4"},
    features={"n1": "intel,ib", "n2": "intel", "n3": "amd,ib", "n4": "amd,hugepages-2Mi"},
    partitions=(
        Partition("main", settings={"Default": "YES", "MaxTime": "INFINITE"}),
        Partition("small", nodes="n4", settings={"MaxTime": "5", "MaxNodes": "1"}),
    ),
    gres_lines=(
        "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env",
        "NodeName=n3 Name=gpu Type=mi210 File=/dev/dri/renderD[128-129] Flags=amd_gpu_env",
        "NodeName=n4 Name=gpu Type=a100_1g.5gb File=/dev/nvidia[0-1] Flags=nvidia_gpu_env",
        "NodeName=n3 Name=fpga Type=u280 Count=1",
    ),
    equipment={
        "n1": "Gres=gpu:a100:4 TmpDisk=1000",
        "n2": "Gres=gpu:a100:4 TmpDisk=1000",
        "n3": "Gres=gpu:mi210:2,fpga:u280:1 TmpDisk=1000",
        "n4": "Gres=gpu:a100_1g.5gb:2 TmpDisk=5000",
    },
    devices={
        "n1": WHOLE,
        "n2": WHOLE,
        "n3": ("kfd", "dri/renderD128", "dri/renderD129"),
        "n4": ("nvidia0", "nvidia1", "nvidiactl"),
    },
    settings={
        "GresTypes": "gpu,fpga",
        "Licenses": "matlab:1",
        "TaskPlugin": "task/affinity",
        "SelectTypeParameters": "CR_Core_Memory",
        "TrackWCKey": "yes",
        "AccountingStorageTRES": "gres/gpu",
        "AccountingStoreFlags": "job_comment",
    },
)
# As administrators have it: what single jobs, and all jobs together, may ask for.
LIMITS = """
sacctmgr -i add qos tight MaxWall=10 MaxTRESPerJob=cpu=1
sacctmgr -i add qos few MaxTRESPerJob=node=1
sacctmgr -i add qos group GrpTRES=cpu=2
sacctmgr -i modify user {user} where account=research set qos+=tight,few,group
sacctmgr -i modify user {user} where account=teaching set GrpTRES=gres/gpu=1
"""
CONFIGURED = {
    "idle_tick": 1.0,
    "namespaces": {
        "namespaces-are-accounts-by-configuration": {
            "flags": ["--account=teaching", "--wckey=spring"],
            "locked": ["--qos=high"],
            "max_time": "3",
            "max_nodes": 1,
        }
    },
    "priority_classes": {"patient": ["--nice=1000"]},
}


@pytest.fixture(scope="module")
def opened(
    slurm_with: StartSlurm, registry_on: StartRegistry, installed_orlop: Path
) -> Iterator[Site]:
    with ExitStack() as stack:
        cluster = slurm_with(KINDS_OF_NODES)
        cluster.run(HEAD, ["sh", "-ec", LIMITS.format(user=cluster.user)])
        yield open_site(cluster, registry_on, stack, slurm=CONFIGURED)


@pytest.fixture
def site(opened: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    yield from own_namespace(opened, request)


def asking(limits: Obj) -> Obj:
    return {"resources": {"limits": limits}}


def affine(key: str, operator: str, *values: str) -> Obj:
    one: Obj = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [one]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def apply_all(site: Site, made: list[Obj]) -> None:
    site.apply({"apiVersion": "v1", "kind": "List", "items": made})


SEES = (
    "echo $(cd /dev; ls -d nvidia[0-9]* dri/* 2>/dev/null)"
    " ${CUDA_VISIBLE_DEVICES+cuda $CUDA_VISIBLE_DEVICES}"
    " ${ROCR_VISIBLE_DEVICES+rocr $ROCR_VISIBLE_DEVICES}"
)
NVIDIA, AMD, MIG = "nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.5gb"
# What a pod asks for, the hosts that have it, and what it sees of GPUs there.
PLACED: dict[str, tuple[Obj, str, str]] = {
    "nvidia": ({"container": asking({NVIDIA: 1})}, "n1 n2", "nvidia? cuda 0"),
    "typed": (
        {"container": asking({NVIDIA: 2}), "nodeSelector": {f"{GPU}a100": "true"}},
        "n1 n2", "nvidia? nvidia? cuda 0,1",
    ),
    "part": ({"container": asking({MIG: 1})}, "n4", "nvidia? cuda 0"),
    "part-by-affinity": (
        {"container": asking({NVIDIA: 1}), "affinity": affine(f"{GPU}a100_1g.5gb", "In", "true")},
        "n4", "nvidia? cuda 0",
    ),
    "amd": ({"container": asking({AMD: 1})}, "n3", "dri/renderD12? rocr 0"),
    "fpga": ({"container": asking({f"{SLURM}gres-fpga.u280": 1})}, "n3", ""),
    "scratch": ({"container": asking({"ephemeral-storage": "2Gi"})}, "n4", ""),
    "huge": ({"container": asking({"hugepages-2Mi": "2Mi", "memory": "64Mi"})}, "n4", ""),
    "in": ({"affinity": affine(f"{FEATURE}amd", "In", "true")}, "n3 n4", ""),
    "not-in": ({"affinity": affine(f"{FEATURE}amd", "NotIn", "true")}, "n1 n2", ""),
    "lacks": ({"affinity": affine(f"{FEATURE}ib", "DoesNotExist")}, "n2 n4", ""),
    "at-switch": ({"affinity": affine(f"{SWITCH}s2", "Exists")}, "n3 n4", ""),
}  # fmt: skip


def test_pods_run_where_their_words_say_with_what_they_asked_for(site: Site) -> None:
    made = []
    for number, (name, (wish, _, _)) in enumerate(PLACED.items()):
        one = pod(name, "busybox", SEES, **wish)
        runtime = ("crun", "apptainer")[number % 2]
        one["metadata"].setdefault("annotations", {})["orlop.dev/runtime"] = runtime
        made.append(one)
    apply_all(site, made)
    for name, (_, hosts, sees) in PLACED.items():
        ended = site.wait_phase(name, "Succeeded", timeout=LONG)
        assert ended["metadata"]["annotations"][SLURM + "node-list"] in hosts.split(), name
        assert fnmatchcase(site.kubectl("logs", name).strip(), sees), name


LOOK = (
    'echo "$SLURM_PROCID $SLURM_LOCALID $SLURMD_NODENAME'
    " $(sed -n 's/^[CM].*s_allowed_list:.//p' /proc/self/status | tr '\\n' ' ')"
    ' $SLURM_CPU_BIND $SLURM_DISTRIBUTION ${CUDA_VISIBLE_DEVICES-none}"'
)
SHAPE = {"nodes": "2", "ntasks-per-node": "2"}
# Annotations of a rank set, and what plain srun is given for the same.
BOUND: dict[str, tuple[dict[str, str], str]] = {
    "free": ({"cpu-bind": "none", "mem-bind": "local"}, "--cpu-bind=none --mem-bind=local"),
    "mapped": (
        {"cpu-bind": "map_cpu:1,0", "distribution": "cyclic"},
        "--cpu-bind=map_cpu:1,0 --distribution=cyclic",
    ),
    "by-rank": ({"cpu-bind": "rank"}, "--cpu-bind=rank"),
    "hinted": ({"hint": "nomultithread"}, "--hint=nomultithread"),
}
# The same with GPUs, bound to cores by default.
WITH_GPUS: dict[str, tuple[Obj, dict[str, str], str]] = {
    "own-crun": ({NVIDIA: 1}, {}, "--gpu-bind=per_task:1"),
    "own-apptainer": ({NVIDIA: 1}, {}, "--gpu-bind=per_task:1"),
    "task-crun": ({}, {"gpus-per-task": "a100:1"}, "--gpu-bind=per_task:1"),
    "node-apptainer": ({}, {"gpus-per-node": "a100:2"}, ""),
    "shared-crun": ({NVIDIA: 1}, {"gpu-bind": "none"}, ""),
}


def test_ranks_have_the_cores_and_gpus_that_plain_srun_gives(site: Site) -> None:
    """Of each shape, in the same run."""
    there, gpus_there = {"constraint": "amd"}, {"constraint": "intel"}
    made = [ranks(name, {**there, **notes}) for name, (notes, _) in BOUND.items()]
    for name, (limits, notes, _) in WITH_GPUS.items():
        made.append(ranks(name, {**gpus_there, **notes}))
        made[-1]["spec"]["containers"][0]["resources"] = {"limits": limits}
    cores = srun(site, {name: options for name, (_, options) in BOUND.items()}, "-C", "amd")
    steps = {name: options for name, (_, _, options) in WITH_GPUS.items()}
    gpus = srun(site, steps, "-C", "intel", "--gres=gpu:a100:2")
    apply_all(site, made)
    plain = cores() | gpus()
    for one in made:
        site.wait_phase(named(one), "Succeeded", timeout=LONG)
        said = sorted(site.kubectl("logs", named(one)).splitlines())
        # What srun says itself is there too: newer ones, that nobody binds by rank any more.
        assert [line for line in said if not line.startswith("srun: ")] == plain[named(one)]
    words = [line.split() for line in plain["own-crun"]]
    assert [(word[3], word[-1]) for word in words] == [("0", "0"), ("1", "1")] * 2
    assert [line.split()[-1] for line in plain["node-apptainer"]] == ["0,1"] * 4


def ranks(name: str, notes: dict[str, str]) -> Obj:
    asked = {SLURM + option: value for option, value in {**SHAPE, **notes}.items()}
    asked["orlop.dev/runtime"] = "apptainer" if "apptainer" in name else "crun"
    return pod(name, "busybox", LOOK, metadata={"annotations": asked})


Said = dict[str, list[str]]


def srun(site: Site, steps: dict[str, str], *asked: str) -> Callable[[], Said]:
    """Plain steps in one job of that shape; answers what their tasks say, once it has ended."""
    shape = [f"--{option}={value}" for option, value in SHAPE.items()]
    files = {name: site.cluster.home / f"plain-{name}" for name in steps}
    script = site.cluster.home / "look.sh"
    site.run("tee", str(script), input=LOOK)
    lines = [f"srun {options} sh {script} > {files[name]}" for name, options in steps.items()]
    job = sbatch(site, *shape, *asked, input="\n".join(["#!/bin/sh", *lines]))

    def said() -> Said:
        state = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%T")
        eventually(lambda: "COMPLETED" in site.run(*state).stdout, "the plain job has ended", LONG)
        return {name: sorted(file.read_text().splitlines()) for name, file in files.items()}

    return said


# What is asked for, the event that answers, and words of it.
NEVER: dict[str, tuple[Obj, dict[str, str], str, str]] = {
    "wall-of-qos": ({}, {"qos": "tight", "time": "30"}, "CannotStart", "MaxWall|more run time"),
    "cpus-of-qos": ({"cpu": 2}, {"qos": "tight"}, "CannotStart", r"MaxTRES\)|more CPUs than"),
    "nodes-of-qos": ({}, {"qos": "few", "nodes": "2"}, "CannotStart", "nodes"),
    "group-of-qos": (
        {}, {"qos": "group", "nodes": "2", "ntasks": "4"},
        "CannotStart", r"it asks for 4 CPUs, and QOS group may have 2 at once \(GrpTRES\)",
    ),
    "gpus-of-account": (
        {NVIDIA: 2}, {"account": "teaching"},
        "CannotStart", r"2 GPUs, and you in account teaching may have 1 at once \(GrpTRES\)",
    ),
    "time-of-partition": ({}, {"partition": "small", "time": "10"}, "CannotStart", "longer than"),
    "nodes-of-partition": ({}, {"partition": "small", "nodes": "2"}, "CannotStart", "allows"),
    "no-account": ({}, {"account": "nosuch"}, "SubmitRejected", "accounts: research, teaching"),
    "no-qos": ({}, {"qos": "nosuch"}, "SubmitRejected", "your QOS: few, group, high"),
    "no-reservation": ({}, {"reservation": "nosuch"}, "SubmitRejected", "reservation is invalid"),
    "no-partition": ({}, {"partition": "nosuch"}, "FailedScheduling", "here are: main, small"),
    "no-such-node": ({NVIDIA: 5}, {}, "SubmitRejected", "no node has that much"),
    "no-licence": ({f"{SLURM}license-matlab": 2}, {}, "FailedScheduling", "Insufficient slurm"),
}  # fmt: skip


def test_a_pod_that_nothing_will_ever_admit_says_so_at_once(site: Site) -> None:
    """Also while all nodes are busy, and Slurm only says that others are first."""
    everything = {"nodes": "4", "exclusive": "", "ntasks-per-node": "1"}
    site.apply(annotated(pod("busy", "host", "exec sleep 600"), everything))
    site.wait_phase("busy", "Running", timeout=LONG)
    made = [
        annotated(pod(name, "busybox", "true", container=asking(limits)), notes)
        for name, (limits, notes, _, _) in NEVER.items()
    ]
    apply_all(site, made)

    def told(name: str) -> bool:
        _, _, reason, words = NEVER[name]
        return any(why == reason and re.search(words, said) for why, said in site.events(name))

    for name in NEVER:
        eventually(lambda: told(name), f"{name} says that it cannot be", LONG)  # noqa: B023
    assert all(one["status"]["phase"] == "Pending" for one in site.pods() if named(one) != "busy")


def named(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def annotated(made: Obj, notes: dict[str, str]) -> Obj:
    made["metadata"]["annotations"] = {SLURM + name: value for name, value in notes.items()}
    made["spec"]["terminationGracePeriodSeconds"] = 0
    return made


PATIENT = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "patient"},
    "value": 1,
}


BATCH = {
    "apiVersion": "slurm.orlop.dev/v1",
    "kind": "SlurmJob",
    "metadata": {"name": "batch"},
    "spec": {"script": "#!/bin/sh\n#SBATCH --comment='my own words'\ntrue\n"},
}
CHARGED = r"teaching\|high\|spring\|COMPLETED\|0:0\|"


def test_namespaces_are_accounts_by_configuration(site: Site) -> None:
    site.apply(PATIENT)
    licence = asking({f"{SLURM}license-matlab": 1})
    first = pod("first", "host", "until [ -e end ]; do sleep 0.1; done", container=licence)
    first["spec"]["containers"][0]["workingDir"] = str(site.cluster.home)
    site.run("rm", "-f", str(site.cluster.home / "end"))
    site.apply(annotated(first | {"spec": first["spec"] | {"priorityClassName": "patient"}}, {}))
    site.wait_phase("first", "Running", timeout=LONG)
    job = site.pod("first")["metadata"]["annotations"][SLURM + "job-id"]
    assert site.squeue("%a %q %P %l %w", "-j", job) == ["teaching high main 3:00 spring"]
    assert "Nice=1000 " in site.run("scontrol", "show", "job", job).stdout
    site.apply(annotated(pod("second", "busybox", "true", container=licence), {}))
    site.apply(BATCH)
    site.apply(annotated(pod("other", "busybox", "true"), {"qos": "low"}))
    site.apply(annotated(pod("wide", "busybox", "true"), {"nodes": "2"}))

    def told(name: str, words: str) -> bool:
        return any(words in said for _, said in site.events(name))

    for name, words in (
        ("second", "it waits for a licence"),
        ("other", "--qos=high is fixed for the namespace"),
        ("wide", "allows 1"),
    ):
        eventually(lambda: told(name, words), f"{name} is told: {words}", LONG)  # noqa: B023
    site.run("touch", str(site.cluster.home / "end"))
    for name in ("first", "second"):
        site.wait_phase(name, "Succeeded", timeout=LONG)
    batch = ("wait", "--for=condition=Complete", "slurmjobs.slurm.orlop.dev/batch")
    site.kubectl(*batch, f"--timeout={LONG:.0f}s", timeout=LONG + 10)
    number = status(site, "-n", site.namespace, "slurmjobs.slurm.orlop.dev", "batch")["jobId"]
    uid = site.pod("first")["metadata"]["uid"]
    expected = {
        job: rf"{site.namespace}/first\|{CHARGED}orlop:[^:]*:{uid}",
        number: rf"batch\|{CHARGED}orlop-job:.* my own words",
    }

    def accounted(job: str) -> bool:
        fields = "JobName,Account,QOS,WCKey,State,ExitCode,Comment"
        row = site.run("sacct", "-X", "-n", "-P", "-j", job, "-o", fields).stdout.strip()
        return re.fullmatch(expected[job], row) is not None

    for one in expected:
        eventually(lambda: accounted(one), f"sacct has all of {expected[one]}", LONG)  # noqa: B023
    site.kubectl("delete", "priorityclass", "patient")


HET = "#!/bin/sh\n#SBATCH -J het -n1\n#SBATCH hetjob\n#SBATCH -n1\nsleep 600\n"


def test_what_slurm_has_is_seen_as_it_changes_and_changed_by_nobody_else(site: Site) -> None:
    limit = ["sacctmgr", "--immediate", "modify", "qos", "low", "set"]
    admin(site, *limit, "MaxWall=42")
    jobs = {
        "held": sbatch(site, "-J", "held", "--hold", "--wrap", "sleep 600"),
        "many": sbatch(site, "-J", "many", "-a", "0-3%1", "-w", "n1", "--wrap", "sleep 600"),
        "het": sbatch(site, input=HET),
        "stopped": sbatch(site, "-J", "stopped", "-w", "n2", "--wrap", "sleep 600"),
    }
    watch = site.popen(
        "kubectl", "get", "slurmjobs", "-n", "slurm-queue", "-w", stdout=-1, text=True
    )
    eventually(lambda: shown(site, jobs["stopped"]).get("state") == "RUNNING", "it runs", LONG)
    admin(site, "scontrol", "suspend", jobs["stopped"])
    reserved = ("reservation=soon", "nodes=n3", "start=now+60", "duration=5", "users=root")
    admin(site, "scontrol", "create", *reserved, "flags=ignore_jobs")
    admin(site, "scontrol", "update", "PartitionName=small", "State=DRAIN")

    def is_as_slurm_has_it() -> bool:
        return (
            (shown(site, jobs["held"]).get("reason"), shown(site, jobs["het"]).get("nodes"))
            == ("JobHeldUser", 2)
            and shown(site, jobs["many"]).get("arrayTasks", {}).get("total") == 4
            and shown(site, jobs["stopped"]).get("state") == "SUSPENDED"
            and of_site(site, "slurmpartition", "small").get("availability") == "drain"
            and of_site(site, "slurmreservation", "soon").get("nodeList") == "n3"
            and of_site(site, "slurmqos", "low").get("maxWall") == "00:42:00"
        )

    eventually(is_as_slurm_has_it, "all is as Slurm has it", LONG)
    assert watch.stdout is not None
    row = next(line for line in watch.stdout if "stopped" in line and "SUSPENDED" in line)
    assert row.split()[:3] == [f"job-{jobs['stopped']}", jobs["stopped"], "stopped"]
    watch.kill()
    watch.communicate()
    admin(site, "scontrol", "update", "PartitionName=small", "State=UP")
    admin(site, "scontrol", "delete", "reservation=soon")
    admin(site, *limit, "MaxWall=-1")
    for argv in (
        ("delete", "slurmpartition", "small"),
        ("label", "slurmqos", "low", "mine=true"),
        ("patch", "slurmaccount", "research", "--type=merge", "-p", '{"status":{"maxJobs":"1"}}'),
    ):
        refused = site.run("kubectl", *argv, check=False)
        assert refused.returncode, argv
        assert "is read-only; `" in refused.stderr
    site.kubectl("create", "serviceaccount", "guest")
    guest = f"--as=system:serviceaccount:{site.namespace}:guest"
    role = ("--clusterrole=view", f"--serviceaccount={site.namespace}:guest")
    site.kubectl("create", "clusterrolebinding", site.namespace, *role)
    listed = site.kubectl("get", "slurmpartitions,slurmaccounts,slurmqos", "-o", "name", guest)
    assert "slurmqos.slurm.orlop.dev/low\n" in listed
    site.kubectl("delete", "clusterrolebinding", site.namespace)
    site.run("scancel", *jobs.values())


def admin(site: Site, *argv: str) -> None:
    site.cluster.run(HEAD, list(argv))


def sbatch(site: Site, *argv: str, input: str | None = None) -> str:
    return site.run("sbatch", "--parsable", "-o", "/dev/null", *argv, input=input).stdout.strip()


def shown(site: Site, job: str) -> Obj:
    return status(site, "-n", "slurm-queue", "slurmjob", f"job-{job}")


def of_site(site: Site, kind: str, name: str) -> Obj:
    return status(site, kind, name)


def status(site: Site, *argv: str) -> Obj:
    text = site.run("kubectl", "get", *argv, "-o", "json", "--ignore-not-found").stdout
    found: Obj = json.loads(text).get("status") or {} if text else {}
    return found
