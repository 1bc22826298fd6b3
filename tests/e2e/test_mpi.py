"""Rank sets: one manifest, many ranks, started by srun inside their containers on every node."""

from __future__ import annotations

import os
import re
from collections import Counter

import pytest

from tests.cluster import openmpi
from tests.e2e.site import Obj, Site, eventually, pod, terminated
from tests.e2e.test_services import service, until_ready, workload
from tests.e2e.test_streams import read_until, terminal

SLURM = "slurm.orlop.dev/"
RUNTIMES = ("crun", "apptainer")
LONG = 100.0


def ranks(name: str, image: str, *command: str, runtime: str = "", **notes: str) -> Obj:
    """A pod on two nodes; annotations by their names."""
    made = pod(name, image, "")
    made["spec"]["containers"][0]["command"] = list(command)
    annotations = {SLURM + key.replace("_", "-"): value for key, value in notes.items()}
    annotations.setdefault(SLURM + "nodes", "2")
    if runtime:
        annotations["orlop.dev/runtime"] = runtime
    made["metadata"]["annotations"] = annotations
    return made


def on_nodes(log: str) -> Counter[str]:
    """How many ranks said that they are on each node."""
    return Counter(re.findall(r"^rank \d+ of \d+ on (\S+)$", log, re.MULTILINE))


@pytest.mark.parametrize("image", ["openmpi", "mpich"])
def test_8_ranks_on_each_of_2_nodes_work_out_pi_in_either_runtime(site: Site, image: str) -> None:
    for runtime in RUNTIMES:
        site.apply(ranks(f"pi-{runtime}", image, "pi", runtime=runtime, ntasks="16"))
    for runtime in RUNTIMES:
        site.wait_phase(f"pi-{runtime}", "Succeeded", timeout=LONG)
        log = site.kubectl("logs", f"pi-{runtime}")
        assert "pi 3.141593\n" in log
        assert sorted(on_nodes(log).values()) == [8, 8]
        assert sorted(re.findall(r"rank (\d+) of 16", log), key=int) == [str(n) for n in range(16)]


def test_ranks_of_intel_mpi_find_each_other_wherever_slurm_has_put_them(site: Site) -> None:
    """It reads Slurm's variables, by which 3 and 2 ranks, or ranks in turn, are not understood."""
    shapes = {"crun": {"ntasks": "5"}, "apptainer": {"ntasks": "6", "distribution": "cyclic"}}
    for runtime, shape in shapes.items():
        site.apply(ranks(f"pi-{runtime}", "intelmpi", "pi", runtime=runtime, **shape))
    for runtime, shape in shapes.items():
        site.wait_phase(f"pi-{runtime}", "Succeeded", timeout=LONG)
        log = site.kubectl("logs", f"pi-{runtime}")
        assert "pi 3.141593\n" in log
        assert sorted(on_nodes(log).values()) == [int(shape["ntasks"]) // 2, 3]


def test_an_mpirun_of_the_image_starts_as_many_as_there_are_tasks(site: Site) -> None:
    # The image has no ssh, which Open MPI looks for whether it needs it or not.
    command = ("mpirun", *openmpi.started_by("sh"), *openmpi.ON_FEW_CORES, "pi")
    shape = {"nodes": "1", "ntasks": "5", "mpi": "container"}
    for runtime in RUNTIMES:
        launcher = ranks(f"mpirun-{runtime}", "openmpi", *command, runtime=runtime, **shape)
        launcher["spec"]["securityContext"] = {"runAsUser": 1000}  # Open MPI's will not be root
        site.apply(launcher)
    for runtime in RUNTIMES:
        site.wait_phase(f"mpirun-{runtime}", "Succeeded", timeout=LONG)
        log = site.kubectl("logs", f"mpirun-{runtime}")
        assert sorted(re.findall(r"rank (\d) of 5", log)) == list("01234")


@pytest.mark.parametrize("nodes", [1, 2])
def test_mpi_flags_of_earlier_systems_start_as_many_as_there_are_tasks(
    site: Site, nodes: int
) -> None:
    launcher = pod("knoc", "openmpi", "")
    launcher["spec"]["containers"][0]["command"] = ["pi"]
    if nodes == 1:
        launcher["spec"]["securityContext"] = {"runAsUser": 1000}
    alone = (*openmpi.started_by("sh"), *openmpi.ON_FEW_CORES)
    flags = " ".join(alone) if nodes == 1 else "--bind-to none"
    launcher["metadata"]["annotations"] = {
        "slurm-job.knoc.io/flags": f"--nodes={nodes} --ntasks-per-node={4 // nodes}",
        "slurm-job.knoc.io/mpi-flags": flags,
    }
    site.apply(launcher)
    site.wait_phase("knoc", "Succeeded", timeout=LONG)
    log = site.kubectl("logs", "knoc")
    assert sorted(re.findall(r"rank (\d) of 4", log)) == list("0123")
    assert sorted(on_nodes(log).values()) == [4 // nodes] * nodes


CALLS = """\
cd /tmp
FOO=bar srun --ntasks-per-node=1 -n2 sh -c 'echo $FOO $PWD on $SLURMD_NODENAME'
srun -n1 --output=/tmp/x true; echo code $?
srun true : -n1 hostname; echo code $?
mpirun pi
exec mpirun pi exit 3 7
"""


def test_srun_and_mpirun_of_an_image_reach_every_node_of_its_job(site: Site) -> None:
    shape = {"nodes": "2", "ntasks": "4", "ntasks_per_node": "2", "mpi": "container"}
    for runtime in RUNTIMES:
        command = ("sh", "-c", CALLS)
        site.apply(ranks(f"wide-{runtime}", "openmpi", *command, runtime=runtime, **shape))
    for runtime in RUNTIMES:
        ended = site.wait_phase(f"wide-{runtime}", "Failed", timeout=LONG)
        log = site.kubectl("logs", f"wide-{runtime}")
        assert terminated(ended)["exitCode"] == 7
        assert len(set(re.findall(r"^bar /tmp on (n\d)$", log, re.MULTILINE))) == 2
        assert "srun: error: --output=/tmp/x is not allowed in a container: " in log
        assert log.count("code 1\n") == 2
        assert "pi 3.141593\n" in log
        assert sorted(on_nodes(log).values()) == [4, 4]  # of two runs


def test_intels_mpiexec_reaches_every_node_of_its_job(site: Site) -> None:
    shape = {"ntasks": "4", "ntasks_per_node": "2", "mpi": "container"}
    site.apply(ranks("intel", "intelmpi", "mpiexec", "pi", **shape))
    site.wait_phase("intel", "Succeeded", timeout=LONG)
    log = site.kubectl("logs", "intel")
    assert "pi 3.141593\n" in log
    assert sorted(on_nodes(log).values()) == [2, 2]


def test_what_a_container_has_started_by_srun_ends_with_it(site: Site) -> None:
    command = ("sh", "-c", "srun -n2 sh -c 'echo here; exec sleep 9876'")
    shape = {"ntasks": "2", "mpi": "container"}
    site.apply(ranks("ends", "busybox", *command, **shape))
    site.wait_phase("ends", "Running", timeout=LONG)
    eventually(lambda: site.kubectl("logs", "ends") == "here\nhere\n", "both tasks run", LONG)
    found = [node for node in ("n1", "n2", "n3", "n4") if _sleeps(site, node)]
    assert len(found) == 2
    site.kubectl("delete", "pod", "ends", timeout=LONG)
    eventually(lambda: not any(_sleeps(site, node) for node in found), "nothing is left", LONG)


def test_what_a_container_leaves_behind_ends_with_its_own_process(site: Site) -> None:
    command = ("sh", "-c", "srun -n2 sh -c 'echo here; exec sleep 9877' & sleep 2; exit 3")
    site.apply(ranks("left", "busybox", *command, ntasks="2", mpi="container"))
    assert terminated(site.wait_phase("left", "Failed", timeout=LONG))["exitCode"] == 3


def _sleeps(site: Site, node: str) -> bool:
    return site.run("pgrep", "-xf", "sleep 9876", node=node, check=False).returncode == 0


def test_32_ranks_run_where_there_are_16_cpus(site: Site) -> None:
    site.apply(ranks("many", "mpich", "pi", ntasks="32", overcommit="true"))
    site.wait_phase("many", "Succeeded", timeout=LONG)
    log = site.kubectl("logs", "many")
    assert "pi 3.141593\n" in log
    assert sum(on_nodes(log).values()) == 32


def test_a_rank_that_fails_ends_the_pod_and_is_named(site: Site) -> None:
    site.apply(ranks("exits", "mpich", "pi", "exit", "3", "7", ntasks="4", label="true"))
    site.apply(ranks("dies", "mpich", "pi", "kill", "1", "9", ntasks="4"))
    site.apply(ranks("lacks", "mpich", "nosuch", ntasks="4"))
    ended = {name: site.wait_phase(name, "Failed", timeout=LONG) for name in ("exits", "dies")}
    exits, dies = (terminated(one) for one in ended.values())
    assert exits["exitCode"] == 7
    assert re.fullmatch(r"rank 3 on node n\d: exited with code 7", exits["message"])
    assert (dies["exitCode"], dies["signal"]) == (137, 9)
    assert re.fullmatch(r"rank 1 on node n\d: ended by signal 9 \(Killed\)", dies["message"])
    assert ("RankFailed", f"container main: {exits['message']}") in site.events("exits")
    assert "\n3: rank 3 of 4 on" in "\n" + site.kubectl("logs", "exits")
    shown = site.run("kubectl", "slurm", "rank-logs", "exits", "3", "-n", site.namespace).stdout
    assert re.fullmatch(r"3: rank 3 of 4 on n\d\n", shown), shown
    lacks = terminated(site.wait_phase("lacks", "Failed", timeout=LONG))
    assert lacks["message"] == 'exec: "nosuch": executable file not found in $PATH'


WAITS = """\
trap 'echo rank $SLURM_PROCID was told; sleep 1; exit 0' TERM
cat /data/said
echo $(id -u) $(hostname) > /data/$SLURM_PROCID
while true; do sleep 0.1; done
"""


@pytest.mark.parametrize("image", ["busybox", "host"])
def test_one_pod_has_init_sidecars_volumes_probes_exec_and_an_end_for_all_ranks(
    site: Site, image: str
) -> None:
    mounted = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    probe = {"exec": {"command": ["test", "-e", "/data/3"]}, "periodSeconds": 1}
    made = ranks("all", image, "sh", "-c", WAITS, ntasks="4")
    made["spec"] |= {
        "terminationGracePeriodSeconds": 30,
        "volumes": [{"name": "data", "emptyDir": {}}],
        "initContainers": [
            {"name": "init", "image": "busybox", "command": ["touch", "/data/said"], **mounted}
        ],
    }
    made["spec"]["containers"][0] |= {"readinessProbe": probe, **mounted}
    said = "echo beside; trap 'exit 0' TERM; while true; do sleep 0.1; done"
    beside = {"name": "beside", "image": "busybox", "command": ["sh", "-c", said], **mounted}
    made["spec"]["containers"].append(beside | {"resources": {"requests": {"cpu": "2"}}})
    site.apply(made)
    site.kubectl("wait", "--for=condition=Ready", "pod/all", f"--timeout={LONG}s", timeout=LONG + 9)
    shown = site.kubectl("exec", "all", "-c", "beside", "--", "sh", "-c", "cat /data/[0-3]")
    uids, nodes = zip(*(line.split() for line in shown.splitlines()), strict=True)
    assert set(uids) == {site.run("id", "-u").stdout.strip()}
    assert sorted(Counter(nodes).values()) == [2, 2]
    # Beside the first rank, and beside one on the other node.
    script = "echo $(hostname) $SLURM_PROCID"
    first = site.kubectl("exec", "all", "-c", "main", "--", "sh", "-c", "hostname")
    argv = ["kubectl", "slurm", "rank-exec", "all", "3", "-n", site.namespace, "--"]
    assert first.split() == [nodes[0]]
    assert site.run(*argv, "sh", "-c", script).stdout.split() == [nodes[3], "3"]
    assert site.kubectl("logs", "all", "-c", "beside") == "beside\n"
    follow = site.popen(
        "kubectl", "-n", site.namespace, "logs", "-f", "all", "-c", "main", stdout=-1, text=True
    )
    site.kubectl("delete", "pod", "all", timeout=LONG)
    assert sorted(re.findall(r"rank (\d) was told", follow.communicate(timeout=60)[0])) == [*"0123"]


TALKS = """\
[ $SLURM_PROCID = 0 ] && exec sh -i
while true; do echo rank $SLURM_PROCID sees $(cat /config/colour); sleep 0.5; done
"""


def test_the_first_rank_has_a_terminal_and_all_have_files_that_change(site: Site) -> None:
    colour = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "colour"}}
    site.apply(colour | {"data": {"colour": "blue"}})
    made = ranks("talks", "busybox", "sh", "-c", TALKS, ntasks="2")
    mounted = {"volumeMounts": [{"name": "config", "mountPath": "/config"}]}
    made["spec"]["volumes"] = [{"name": "config", "configMap": {"name": "colour"}}]
    made["spec"]["containers"][0] |= {"stdin": True, "tty": True, **mounted}
    site.apply(made)
    site.wait_phase("talks", "Running", timeout=LONG)
    session = f"stty rows 33 cols 111; kubectl -n {site.namespace} attach -it talks"
    for answer in ("again", "once more"):  # one may go and come back
        with terminal(site, "script", "-qec", f"sh -c {session!r}", "/dev/null") as (fd, _):
            read_until(fd, "rank 1 sees blue\r\n")
            os.write(fd, f"echo {answer} $(stty size) $((40 + 2))\r".encode())
            read_until(fd, f"{answer} 33 111 42")
    site.apply(colour | {"data": {"colour": "green"}})
    eventually(lambda: "rank 1 sees green" in site.kubectl("logs", "talks", "--tail=9"), "green")
    argv = ("kubectl", "-n", site.namespace, "attach", "-i", "talks")
    assert "rank 1 sees green" in site.run(*argv, input="sleep 8; exit 3\r", check=False).stdout
    ended = terminated(site.wait_phase("talks", "Failed", timeout=LONG))
    assert re.fullmatch(r"rank 0 on node n\d: exited with code 3", ended["message"])


def test_a_service_leads_to_the_first_rank(site: Site) -> None:
    serve = "mkdir -p /tmp/web; echo served > /tmp/web/said; exec httpd -f -p 28080 -h /tmp/web"
    made = ranks("serves", "busybox", "sh", "-c", serve, ntasks="2")
    port = {"name": "http", "containerPort": 28080}
    probe = {"httpGet": {"path": "/said", "port": "http"}, "periodSeconds": 1}
    made["metadata"]["labels"] = {"app": "serves"}
    made["spec"]["terminationGracePeriodSeconds"] = 1
    made["spec"]["containers"][0] |= {"ports": [port], "readinessProbe": probe}
    spec = {"selector": {"app": "serves"}, "ports": [{"port": 80, "targetPort": "http"}]}
    metadata = {"name": "serves"}
    site.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    site.apply(made)
    asks = "until wget -qO- http://serves/said; do sleep 0.2; done"
    site.apply(pod("asks", "busybox", asks))
    site.wait_phase("asks", "Succeeded", timeout=LONG)
    assert site.kubectl("logs", "asks").endswith("served\n")


def test_sacct_shows_ranks_as_a_step_of_a_job_with_room_for_others(accounted_site: Site) -> None:
    site = accounted_site
    told = ranks("told", "host", "sh", "-c", "exit $SLURM_PROCID", ntasks="4")
    beside = {"name": "beside", "image": "busybox", "command": ["true"]}
    told["spec"]["containers"].append(beside | {"resources": {"requests": {"cpu": "2"}}})
    site.apply(told)
    ended = site.wait_phase("told", "Failed", timeout=LONG)
    job = ended["metadata"]["annotations"]["slurm.orlop.dev/job-id"]

    def rows() -> list[list[str]]:
        words = ["sacct", "-n", "-P", "-j", job, "-o", "JobID,JobName,NTasks,State,AllocCPUS"]
        found = [line.split("|") for line in site.run(*words).stdout.splitlines()]
        has_ended = len(found) > 2 and found[0][1:4] == [f"{site.namespace}/told", "", "FAILED"]
        return found if has_ended else []

    found = eventually(rows, "sacct knows how the job ended")
    [step] = [row for row in found if row[0] == f"{job}.0"]
    assert step[1:3] == ["main", "4"]
    assert step[3].split()[0] in ("FAILED", "CANCELLED")
    # Two ranks and the two CPUs of the other container on each node; the ranks' are their step's.
    assert (found[0][4], step[4]) == ("8", "4")


ASKS = """\
import json, os, socket, sys, urllib.request
told = urllib.request.urlopen("http://web:8080", timeout=60).read().decode()
place = os.environ["WEB_SERVICE_HOST"], int(os.environ["WEB_SERVICE_PORT"])
with socket.create_connection(place, timeout=60) as line:
    told += f" {line.getpeername()[0] == place[0]}"
print("rank", os.environ["SLURM_PROCID"], "on", os.environ["SLURMD_NODENAME"], "heard", told)
"""


def test_ranks_on_every_node_reach_services_if_they_ask_for_that(site: Site) -> None:
    site.apply(workload("Deployment", "web", 1))
    site.apply(service("web"))
    allowed = {"podSelector": {"matchLabels": {"app": "ranks"}}}
    policy = {"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{"from": [allowed]}]}
    head = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    site.apply({**head, "metadata": {"name": "only-ranks"}, "spec": policy})
    until_ready(site, "web", 1)
    ways = {"crun": "python", "apptainer": "python", "host": "host"}
    for runtime, image in ways.items():
        command = ("python3" if image == "host" else "python", "-c", ASKS)
        made = ranks(f"asks-{runtime}", image, *command, runtime=runtime, ntasks="4")
        made["metadata"]["labels"] = {"app": "ranks"}
        made["spec"]["dnsPolicy"] = "ClusterFirstWithHostNet"
        site.apply(made)
    for runtime in ways:
        address = site.wait_phase(f"asks-{runtime}", "Succeeded", timeout=LONG)["status"]["podIP"]
        log = site.kubectl("logs", f"asks-{runtime}")
        heard = re.findall(r"^rank (\d) on (n\d) heard web-\S+ (\S+) True$", log, re.MULTILINE)
        assert sorted(rank for rank, _, _ in heard) == [*"0123"], log
        assert len({node for _, node, _ in heard}) == 2
        # To the server it is the pod, on whichever node.
        assert {peer for _, _, peer in heard} == {address}
