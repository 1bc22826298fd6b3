"""What every container is given, whatever the runtime: composed here without a sandbox."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest

from orlop.agent import plan as plans
from orlop.agent.container.cgroups import Cgroups
from orlop.agent.container.container_setup import DEFAULT_PATH, Workshop, slots
from orlop.agent.pod.sandbox import Sandbox
from orlop.agent.pod.scratch_dirs import make_places
from orlop.agent.pod.volumes import VolumeError

from ..pods import files

OUTSIDE = Sandbox(os.getuid(), os.getgid(), False, False, False, "denied")


@pytest.fixture
def image(tmp_path):
    root = tmp_path / "image"
    (root / "etc").mkdir(parents=True)
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nweb:x:33:33::/srv/web:/bin/sh\n")
    return root


@pytest.fixture
def compose(tmp_path, image, monkeypatch):
    """Composes the box of a container; options go to the plan."""
    for name in ("SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)

    def compose(pod=(), plan=(), network=None, **container):
        raw = {
            "version": 1,
            "pod": {"namespace": "d", "name": "p", "uid": "u", "hostname": "host-1", **dict(pod)},
            "containers": [{"name": "c", "argv": ["true"], "rootfs": str(image), **container}],
            "scratch": str(tmp_path),
            **dict(plan),
        }
        (tmp_path / "plan.json").write_text(json.dumps(raw))
        the_plan = plans.read(str(tmp_path / "plan.json"))
        shop = Workshop(the_plan, OUTSIDE, make_places(the_plan, OUTSIDE), Cgroups(), network)
        return shop.box(the_plan.containers[0], 2)

    return compose


def source(box, path):
    return next(bind.source for bind in box.binds if bind.path == path)


def text(box, path):
    with open(source(box, path)) as file:
        return file.read()


def test_what_the_plan_sets_wins_over_what_we_add(compose, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    env = [["PATH", "/mine"], ["HOME", "/h"], ["HOSTNAME", "n"], ["SLURM_JOB_ID", "x"]]
    box = compose(env=env, plan={"passEnv": ["SLURM_JOB_ID"]})
    assert box.env == [tuple(pair) for pair in env]


def test_what_the_plan_leaves_out_is_added(compose, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    box = compose(plan={"passEnv": ["SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES"]})
    expected = {"SLURM_JOB_ID": "17", "HOSTNAME": "host-1", "PATH": DEFAULT_PATH, "HOME": "/root"}
    assert dict(box.env) == expected


def test_srun_finds_its_configuration_on_the_nodes_own_root_alone(compose, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", "/site/slurm.conf")
    assert "SLURM_CONF" not in dict(compose().env)
    assert dict(compose(rootfs=None).env)["SLURM_CONF"] == "/site/slurm.conf"


def test_the_last_of_two_equal_names_counts(compose):
    assert dict(compose(env=[["A", "1"], ["A", "2"]]).env)["A"] == "2"


@pytest.mark.parametrize(
    ("uid", "home"), [(0, "/root"), (33, "/srv/web"), (1234, "/")], ids=["root", "known", "unknown"]
)
def test_the_home_is_that_of_the_images_passwd(compose, uid, home):
    assert dict(compose(user={"uid": uid, "gid": uid}).env)["HOME"] == home


def test_an_image_without_passwd_has_roots_home(compose, image):
    (image / "etc/passwd").unlink()
    assert dict(compose().env)["HOME"] == "/root"


def test_a_passwd_that_is_a_link_is_looked_for_in_the_image(compose, image):
    (image / "etc/passwd").rename(image / "etc/real")
    (image / "etc/passwd").symlink_to("/etc/real")
    assert dict(compose(user={"uid": 33, "gid": 33}).env)["HOME"] == "/srv/web"


def test_the_nodes_own_root_has_the_jobs_path_and_home(compose, monkeypatch):
    monkeypatch.setenv("PATH", "/site/bin:/bin")
    monkeypatch.setenv("HOME", "/home/me")
    env = dict(compose(rootfs=None).env)
    assert (env["PATH"], env["HOME"]) == ("/site/bin:/bin", "/home/me")


def test_hosts_has_the_pod_and_its_aliases(compose):
    aliases = [{"ip": "10.0.0.9", "hostnames": ["a", "b"]}]
    hosts = text(compose(pod={"hostAliases": aliases}), "/etc/hosts").splitlines()
    assert hosts[0] == "# Kubernetes-managed hosts file (host network)."
    assert {"127.0.1.1\thost-1", "10.0.0.9\ta\tb"} <= set(hosts)


RESOLV = "/etc/resolv.conf"
NETWORK = {"podIP": "10.244.0.7", "dns": {"nameserver": "10.96.0.10"}}
RESOLVER = {
    "policy": "ClusterFirst",
    "nameservers": ["10.96.0.10"],
    "searches": ["d.svc.cluster.local"],
    "options": [],
    "more": {"nameservers": [], "searches": [], "options": []},
}
OWN = {"network": NETWORK, "resolver": RESOLVER, "hostEnv": {"API": ["10.96.0.1", "192.0.2.1"]}}


def test_a_pod_with_a_network_of_its_own_finds_names_there(compose):
    box = compose(plan=OWN, env=[["API", "10.96.0.1"]], network=SimpleNamespace(is_node=False))
    assert "10.244.0.7\thost-1" in text(box, "/etc/hosts").splitlines()
    assert "nameserver 10.96.0.10" in text(box, "/etc/resolv.conf").splitlines()
    assert dict(box.env)["API"] == "10.96.0.1"


def test_a_node_that_cannot_give_it_one_leads_it_to_its_own(compose):
    box = compose(plan=OWN, env=[["API", "10.96.0.1"], ["B", "10.96.0.1"]])
    assert "127.0.1.1\thost-1" in text(box, "/etc/hosts").splitlines()
    assert "10.96.0.10" not in text(box, "/etc/resolv.conf")
    assert (dict(box.env)["API"], dict(box.env)["B"]) == ("192.0.2.1", "10.96.0.1")


RANKS = {"container": "c", "hostname": "n1", "disk": ""}
CONFIGURED = {"nameservers": ["192.0.2.9"], "searches": [], "options": []}


@pytest.mark.parametrize("on_host", [False, True])
@pytest.mark.parametrize(
    ("ranks", "resolver", "nameserver"),
    [
        ({}, {}, ""),
        ({"network": NETWORK}, {}, "10.96.0.10"),
        ({}, {"policy": "None", "nameservers": [], "more": CONFIGURED}, "192.0.2.9"),
    ],
    ids=["the node's", "the cluster's", "the pod's own"],
)
def test_ranks_find_names_as_their_pod_says(compose, ranks, resolver, nameserver, on_host):
    with open("/etc/resolv.conf") as file:
        of_node = file.read()
    root = {"rootfs": None} if on_host else {}
    planned = OWN | {"ranks": RANKS | ranks, "resolver": RESOLVER | resolver}
    found = text(compose(plan=planned, network=SimpleNamespace(is_node=False), **root), RESOLV)
    assert nameserver in found if nameserver else found == of_node


def test_the_nodes_own_hosts_stay_on_its_own_root(compose):
    with open("/etc/hosts") as file:
        node = file.read()
    hosts = text(compose(rootfs=None), "/etc/hosts")
    assert hosts.startswith(node)
    assert "127.0.1.1\thost-1" in hosts


def test_the_hostname_is_in_its_file(compose):
    assert text(compose(), "/etc/hostname") == "host-1\n"


def test_the_message_file_is_where_asked_and_open_to_any_user(compose):
    box = compose(terminationMessagePath="/var/log/why")
    assert os.stat(source(box, "/var/log/why")).st_mode & 0o777 == 0o666


def test_a_volume_takes_the_place_of_what_we_would_mount(compose):
    mounts = [{"volume": "v", "path": "/etc/hosts", "subPath": "h"}]
    box = compose(mounts=mounts, plan={"volumes": [files("v", h="mine")]})
    assert text(box, "/etc/hosts") == "mine"
    assert [bind.path for bind in box.binds].count("/etc/hosts") == 1


def test_parents_are_mounted_before_what_is_below_them(compose):
    mounts = [{"volume": "v", "path": path} for path in ("/a/b/c", "/a", "/a/b")]
    box = compose(mounts=mounts, plan={"volumes": [{"name": "v", "kind": "emptyDir"}]})
    paths = [bind.path for bind in box.binds if bind.path.startswith("/a")]
    assert paths == ["/a", "/a/b", "/a/b/c"]


def test_a_run_has_an_id_of_its_own(compose):
    assert compose().id == "c-2"


def test_a_volume_that_cannot_be_had_is_known_before_anything_starts(compose):
    volume = {"name": "v", "kind": "hostPath", "path": "/no/such/place", "type": "Directory"}
    with pytest.raises(VolumeError, match="is not a directory"):
        compose(plan={"volumes": [volume]})


@pytest.mark.parametrize(
    ("word", "tasks"),
    [("4", "4"), ("4(x2),1", "4"), ("12,8", "12"), ("1", ""), ("1(x3)", ""), ("", ""), ("x", "")],
)
def test_an_mpirun_of_an_image_is_told_how_many_tasks_are_here(word, tasks):
    told = dict(slots(word))
    assert set(told.values()) == ({tasks} if tasks else set())
    assert set(told) == ({"OMPI_MCA_orte_set_default_slots", "PRTE_MCA_prte_set_default_slots"}
                         if tasks else set())  # fmt: skip
