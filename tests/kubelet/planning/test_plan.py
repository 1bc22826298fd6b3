"""A pod and what was found for it make a plan, and the same plan each time."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from orlop.kubelet.planning.plan import (
    DEFAULT_PATH,
    Inputs,
    Site,
    check,
    hostname,
    image_id,
    make_plan,
    runs_on_host,
)
from orlop.kubelet.planning.refusal import Refusal
from orlop.kubelet.planning.sources import Sources
from orlop.kubelet.planning.users import Accounts

from ..objects import NODE, UID, FakeImage, a_container, a_pod

SITE = Site("c1", Path("/h/run/kubelet.json"), Path("/h/pki/ca.crt"), scratch="/scratch")


def plan(pod, image=None, **inputs):
    images = {"busybox": image or FakeImage(), "host": FakeImage("host", "", None, cmd=[])}
    return make_plan(pod, SITE, Inputs(images, NODE, **inputs))


def container(image=None, **fields):
    return plan(a_pod(a_container(**fields)), image)["containers"][0]


def test_the_whole_of_a_small_plan():
    pod = a_pod(
        a_container(command=["true"]),
        initContainers=[a_container("first", args=["-c", "ls"])],
        activeDeadlineSeconds=60,
        hostAliases=[{"ip": "10.0.0.1", "hostnames": ["db"]}],
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    made = plan(pod)
    assert json.loads(json.dumps(made)) == made
    assert {key: made[key] for key in ("version", "cluster", "kubelet", "runtimes", "scratch")} == {
        "version": 1,
        "cluster": "c1",
        "kubelet": {
            "endpointFile": "/h/run/kubelet.json",
            "ca": "/h/pki/ca.crt",
            "serverName": "orlop-kubelet",
        },
        "runtimes": ["crun", "apptainer", "singularity"],
        "scratch": "/scratch",
    }
    assert made["pod"] == {
        "namespace": "default",
        "name": "web",
        "uid": UID,
        "node": "main",
        "hostname": "web",
        "fqdn": "",
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "activeDeadlineSeconds": 60,
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db"]}],
        "shared": [],
    }
    assert "SLURM_JOB_ID" in made["passEnv"]
    assert [c["name"] for c in made["initContainers"]] == ["first"]
    assert [v["name"] for v in made["volumes"]] == ["v"]


def test_the_whole_of_a_plain_container():
    assert container(command=["true"]) == {
        "name": "main",
        "image": "busybox",
        "imageID": "docker.io/library/busybox@sha256:" + "a" * 64,
        "rootfs": "/images/busybox/rootfs",
        "argv": ["true"],
        "env": [["PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]],
        "cwd": "/",
        "user": {"uid": 0, "gid": 0, "groups": []},
        "readOnlyRoot": False,
        "mounts": [],
        "memoryLimit": None,
        "cpuLimit": None,
        "stdin": False,
        "stdinOnce": False,
        "tty": False,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "stopSignal": "",
        "envFiles": [],
        "fromImage": {"env": {"PATH": DEFAULT_PATH}, "entrypoint": [], "cmd": ["sh"]},
    }


@pytest.mark.parametrize(
    ("fields", "argv"),
    [
        ({}, ["/entry", "-x", "cmd"]),
        ({"args": ["a"]}, ["/entry", "-x", "a"]),
        ({"command": ["c"]}, ["c"]),
        ({"command": ["c"], "args": ["a"]}, ["c", "a"]),
    ],
    ids=["nothing", "args", "command", "both"],
)
def test_command_and_args_stand_for_entrypoint_and_cmd(fields, argv):
    image = FakeImage(entrypoint=["/entry", "-x"], cmd=["cmd"])
    assert container(image, **fields)["argv"] == argv


def test_references_are_expanded_in_what_the_pod_says_and_not_in_what_the_image_says():
    env = [{"name": "A", "value": "1"}]
    image = FakeImage(entrypoint=["$(A)"], cmd=["$(A)"], env={"B": "2"})
    assert container(image, env=env)["argv"] == ["$(A)", "$(A)"]
    assert container(image, env=env, args=["$(A) $(B) $$(A)"])["argv"] == ["$(A)", "1 $(B) $(A)"]
    assert container(image, env=env, command=["$(A)"])["argv"] == ["1"]


def test_a_launcher_stands_before_the_commands_of_containers_and_not_of_init_containers():
    pod = a_pod(a_container(command=["app"]), initContainers=[a_container("i", command=["init"])])
    made = plan(pod, launcher=("mpiexec", "-np", "4"))
    assert made["containers"][0]["argv"] == ["mpiexec", "-np", "4", "app"]
    assert made["initContainers"][0]["argv"] == ["init"]


def test_nothing_to_run_is_refused():
    with pytest.raises(Refusal, match="no command specified") as refused:
        container(FakeImage(cmd=[]))
    assert (refused.value.reason, refused.value.container) == ("CreateContainerError", "main")


def test_the_image_fills_in_what_the_pod_leaves_open():
    image = FakeImage(
        env={"PATH": "/opt/bin", "A": "image"},
        working_dir="/srv",
        stop_signal="SIGQUIT",
        user="7:8",
    )
    made = container(image, env=[{"name": "A", "value": "pod"}])
    assert made["env"] == [["PATH", "/opt/bin"], ["A", "pod"]]
    assert (made["cwd"], made["stopSignal"]) == ("/srv", "SIGQUIT")
    assert made["user"] == {"uid": 7, "gid": 8, "groups": []}
    assert container(image, workingDir="/w")["cwd"] == "/w"
    assert container(image, lifecycle={"stopSignal": "SIGINT"})["stopSignal"] == "SIGINT"


def test_the_rest_of_a_container_is_passed_on():
    made = container(
        resources={"limits": {"memory": "64Mi", "cpu": "1500m"}},
        securityContext={"readOnlyRootFilesystem": True},
        stdin=True,
        tty=True,
        terminationMessagePath="/m",
        terminationMessagePolicy="FallbackToLogsOnError",
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
    )
    assert (made["memoryLimit"], made["cpuLimit"]) == (64 << 20, 1500)
    assert (made["stdin"], made["tty"], made["readOnlyRoot"]) == (True, True, True)
    assert made["terminationMessagePath"] == "/m"
    assert made["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert made["mounts"] == [{"volume": "v", "path": "/v", "readOnly": False, "subPath": ""}]


def test_on_the_nodes_own_root_one_is_oneself_with_the_nodes_own_path():
    pod = a_pod(a_container(image="host", command=["id"]), securityContext={"runAsNonRoot": True})
    made = plan(pod)["containers"][0]
    assert (made["rootfs"], made["user"], made["env"]) == (None, None, [])
    assert made["imageID"] == "host"


def test_a_users_name_is_looked_up_in_the_image():
    accounts = {"busybox": Accounts(passwd="web:x:1000:100:::\n")}
    made = plan(a_pod(), FakeImage(user="web"), accounts=accounts)["containers"][0]
    assert made["user"]["uid"] == 1000


def test_a_refusal_names_the_container_it_concerns():
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    pod = a_pod(a_container(), a_container("second", env=env))
    with pytest.raises(Refusal) as refused:
        plan(pod, sources=Sources("default"))
    assert refused.value.container == "second"
    assert refused.value.event_message == 'Error: secret "s" not found'


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ({}, ["crun", "apptainer", "singularity"]),
        ({"orlop.dev/runtime": "apptainer"}, ["apptainer"]),
        ({"orlop.dev/runtime": "host"}, ["crun", "apptainer", "singularity"]),
    ],
)
def test_a_pod_may_choose_its_runtime(annotation, expected):
    pod = a_pod(metadata={"annotations": annotation})
    assert plan(pod)["runtimes"] == expected
    assert plan(pod)["runtimeRequired"] == (len(expected) == 1)
    assert runs_on_host(pod, "busybox") == (annotation.get("orlop.dev/runtime") == "host")


def test_a_runtime_that_nobody_knows_is_refused():
    pod = a_pod(metadata={"annotations": {"orlop.dev/runtime": "aptainer"}})
    with pytest.raises(Refusal, match="found 'aptainer'"):
        plan(pod)


@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        ("web", {}, "web"),
        ("web", {"hostname": "other"}, "other"),
        ("web", {"subdomain": "sub"}, "web"),
        (
            "web",
            {"subdomain": "sub", "setHostnameAsFQDN": True},
            "web.sub.default.svc.cluster.local",
        ),
        ("web", {"setHostnameAsFQDN": True}, "web"),
        ("web", {"hostnameOverride": "a.b.c"}, "a.b.c"),
        ("x" * 62 + "-yz", {}, "x" * 62),
        ("x" * 70, {}, "x" * 63),
    ],
)
def test_host_names_are_cut_as_the_kernel_needs_them(name, spec, expected):
    assert hostname(a_pod(metadata={"name": name}, **spec)) == expected


def test_a_full_host_name_that_is_too_long_is_refused():
    pod = a_pod(metadata={"name": "x" * 60}, subdomain="sub", setHostnameAsFQDN=True)
    with pytest.raises(Refusal, match="64 characters is the max"):
        hostname(pod)


@pytest.mark.parametrize(
    ("reference", "digest", "expected"),
    [
        ("docker.io/library/busybox:1.36", "sha256:1", "docker.io/library/busybox@sha256:1"),
        ("reg:5000/a/b", "sha256:1", "reg:5000/a/b@sha256:1"),
        ("reg:5000/a/b:t", "sha256:1", "reg:5000/a/b@sha256:1"),
        ("a/b:t@sha256:1", "sha256:1", "a/b@sha256:1"),
        ("host", "", "host"),
    ],
)
def test_an_image_is_named_by_its_digest(reference, digest, expected):
    assert image_id(FakeImage(reference, digest)) == expected


def test_what_cannot_be_run_is_refused_with_all_its_reasons():
    pod = a_pod(a_container(securityContext={"privileged": True}), os={"name": "windows"})
    with pytest.raises(Refusal) as refused:
        check(pod)
    assert "spec.os" in refused.value.message
    assert "privileged containers cannot be had" in refused.value.message


def test_what_is_merely_not_done_yet_is_listed():
    words = check(a_pod(a_container(securityContext={"seLinuxOptions": {"a": 1}}), hostUsers=True))
    assert [text.partition(":")[0] for text in words] == [
        'spec.containers["main"].securityContext.seLinuxOptions',
        "spec.hostUsers",
    ]


def test_a_user_asked_for_on_the_nodes_own_root_is_named_as_not_met():
    pod = a_pod(a_container(image="host", securityContext={"runAsUser": 5}))
    assert check(pod) == [
        'spec.containers["main"].securityContext: on the node\'s own root a container runs as the '
        "owner of this cluster"
    ]
    assert check(a_pod(a_container(image="host"), securityContext={"runAsUser": 5}))
    assert check(a_pod(a_container(image="host"), securityContext={"runAsNonRoot": True})) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"shareProcessNamespace": True}, ["pids"]),
        ({"hostPID": True, "hostIPC": True}, ["hostPids", "hostIpc"]),
        ({"shareProcessNamespace": False}, []),
    ],
)
def test_what_is_shared_is_in_the_plan(spec, expected):
    assert plan(a_pod(**spec))["pod"]["shared"] == expected


def test_capabilities_that_are_added_or_dropped_are_in_the_plan():
    asked = {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}
    made = container(securityContext={"capabilities": asked})
    assert made["capabilities"] == asked


@pytest.mark.parametrize(
    ("resources", "cores"),
    [
        ({"limits": {"cpu": "2", "memory": "1Gi"}}, 2),
        ({"limits": {"cpu": "2000m", "memory": "1Gi"}}, 2),
        ({"limits": {"cpu": "1500m", "memory": "1Gi"}}, None),
        ({"limits": {"cpu": "2"}}, None),
        ({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}, None),
    ],
    ids=["whole", "in-thousandths", "a-part", "burstable", "less-requested"],
)
def test_whole_cpus_of_a_guaranteed_pod_are_cores(resources, cores):
    made = plan(a_pod(a_container(resources=resources)))
    assert made["containers"][0].get("cores") == cores


@pytest.mark.parametrize(
    ("limits", "gpus"),
    [
        ({"nvidia.com/gpu": "2"}, 2),
        ({"amd.com/gpu": 1}, 1),
        ({"nvidia.com/gpu-a100": "1", "slurm.orlop.dev/gres-gpu.h100": "2"}, 3),
        ({"slurm.orlop.dev/gres-nvme": "1", "cpu": "2"}, None),
    ],
)
def test_a_container_plans_as_many_gpus_as_it_asks_for(limits, gpus):
    assert container(command=["x"], resources={"limits": limits}).get("gpus") == gpus


DATABASE = {
    "metadata": {"name": "database", "namespace": "default"},
    "spec": {"clusterIP": "10.96.0.7", "ports": [{"port": 5432}]},
}


@pytest.mark.parametrize(
    ("policy", "told"), [("ClusterFirst", False), ("ClusterFirstWithHostNet", True)]
)
def test_ranks_are_told_of_services_if_they_can_reach_them(policy, told):
    pod = a_pod(a_container(), a_container("beside"), dnsPolicy=policy)
    main, beside = plan(pod, ranks={"container": "main"}, services=[DATABASE])["containers"]
    names = [{name for name, _ in one["env"]} for one in (main, beside)]
    assert ["DATABASE_SERVICE_HOST" in each for each in names] == [told, True]


def test_thousands_of_containers_with_one_secret_are_refused():
    secret = {"vault": {"data": {"k": base64.b64encode(b"x" * (1 << 20)).decode()}}}
    env = [{"secretRef": {"name": "vault"}}]
    many = [a_container(f"c{n}", envFrom=env, command=["true"]) for n in range(2000)]
    with pytest.raises(Refusal, match="more than 32 MiB") as caught:
        plan(a_pod(*many), sources=Sources("default", {}, secret))
    assert caught.value.container == "c31"
