"""What runtimes are given: the OCI bundle and apptainer's options, composed without a node."""

from __future__ import annotations

import pytest

from orlop.agent.container import capabilities
from orlop.agent.container.runtimes import Box, Kit, find
from orlop.agent.container.runtimes.apptainer import _mount, candidates
from orlop.agent.container.runtimes.crun import config, console_of
from orlop.agent.plan import Container, User
from orlop.agent.pod.sandbox import Sandbox
from orlop.agent.pod.volumes import Bind

RANGE = Sandbox(1000, 1000, True, True, True)
ONE_ID = Sandbox(1000, 1000, True, False, True)
NO_PIDS = Sandbox(1000, 1000, True, False, False)


def box(sandbox=RANGE, user=None, binds=(), env=(), **changes):
    container = Container.__new__(Container)
    values = {"name": "c", "argv": ["a", "b"], "cwd": "/w", "user": user, "read_only_root": False}
    values |= {"tty": False, "capabilities": capabilities.chosen([], [])}
    container.__dict__.update({**values, **changes})
    return Box(container, 3, "/run/c-3", "/run/c-3/root", list(binds), list(env), sandbox)


def namespaces(found):
    return {namespace["type"] for namespace in found["linux"]["namespaces"]}


def test_the_process_is_the_containers():
    process = config(box(env=[("A", "1\n2"), ("B", "$A")]))["process"]
    assert (process["args"], process["cwd"]) == (["a", "b"], "/w")
    assert process["env"] == ["A=1\n2", "B=$A"]
    assert process["noNewPrivileges"] is True


def test_proc_hides_what_it_should_unless_asked_not_to():
    assert "/proc/kcore" in config(box())["linux"]["maskedPaths"]
    assert not {"maskedPaths", "readonlyPaths"} & config(box(unmasked=True))["linux"].keys()


def test_later_mounts_of_the_node_are_seen_where_asked():
    found = config(box(binds=[Bind("/a", "/x", False, True), Bind("/b", "/y")]))
    options = {mount["destination"]: mount["options"] for mount in found["mounts"]}
    assert (options["/x"], options["/y"]) == (["rbind", "rw", "rslave"], ["rbind", "rw"])
    assert found["linux"]["rootfsPropagation"] == "rslave"
    assert "rootfsPropagation" not in config(box(binds=[Bind("/b", "/y")]))["linux"]


@pytest.mark.parametrize("is_tty", [True, False])
def test_a_terminal_is_the_runtimes_to_make_and_ours_to_keep(is_tty):
    made = box(tty=is_tty)
    assert config(made)["process"]["terminal"] is is_tty
    assert console_of(made) == ("/run/c-3/console" if is_tty else "")


@pytest.mark.parametrize("is_read_only", [True, False])
def test_the_root_is_read_only_where_asked(is_read_only):
    root = config(box(read_only_root=is_read_only))["root"]
    assert root == {"path": "/run/c-3/root", "readonly": is_read_only}


@pytest.mark.parametrize(
    ("sandbox", "user", "expected"),
    [
        (RANGE, None, {"mount", "pid"}),
        (RANGE, User(5, 6, []), {"mount", "pid"}),
        (ONE_ID, None, {"mount", "pid"}),
        (ONE_ID, User(0, 0, []), {"mount", "pid"}),
        (ONE_ID, User(5, 6, []), {"mount", "pid", "user"}),
        (ONE_ID, User(0, 6, []), {"mount", "pid", "user"}),
        (NO_PIDS, None, {"mount"}),
    ],
)
def test_there_are_no_more_namespaces_than_needed(sandbox, user, expected):
    assert namespaces(config(box(sandbox, user))) == expected


def test_one_mapped_id_is_given_the_name_asked_for():
    linux = config(box(ONE_ID, User(5, 6, [])))["linux"]
    assert linux["uidMappings"] == [{"containerID": 5, "hostID": 0, "size": 1}]
    assert linux["gidMappings"] == [{"containerID": 6, "hostID": 0, "size": 1}]


def test_the_users_own_groups_stay_unless_others_are_asked_for():
    assert config(box())["annotations"] == {"run.oci.keep_original_groups": "1"}
    found = config(box(user=User(5, 6, [7])))
    assert found["annotations"] == {}
    assert found["process"]["user"] == {"uid": 5, "gid": 6, "additionalGids": [7]}


def test_binds_come_after_what_they_may_cover_and_keep_their_order():
    binds = [Bind("/s", "/sys", True), Bind("/m", "/dev/shm"), Bind("/v", "/a/b")]
    mounts = config(box(binds=binds))["mounts"]
    assert [mount["destination"] for mount in mounts][-3:] == ["/sys", "/dev/shm", "/a/b"]
    assert [mount["options"][-1] for mount in mounts][-3:] == ["ro", "rw", "rw"]
    assert mounts[0]["destination"] == "/proc"


def test_without_process_numbers_of_its_own_it_sees_the_nodes_proc():
    proc = config(box(NO_PIDS))["mounts"][0]
    assert (proc["source"], proc["options"][0]) == ("/proc", "rbind")


@pytest.mark.parametrize(
    ("bind", "expected"),
    [
        (Bind("/a", "/b"), '"type=bind","source=/a","destination=/b"'),
        (Bind("/a", "/b", True), '"type=bind","source=/a","destination=/b",ro'),
        (Bind("/a,b:c", '/d"e'), '"type=bind","source=/a,b:c","destination=/d""e"'),
    ],
)
def test_no_character_of_a_path_means_anything_to_apptainer(bind, expected):
    assert _mount(bind) == expected


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        ("/bin/sh", "/usr/bin", ["/bin/sh"]),
        ("./run", "/usr/bin", ["./run"]),
        ("sh", "/usr/bin:/bin", ["/usr/bin/sh", "/bin/sh"]),
        ("sh", "/bin:", ["/bin/sh", "./sh"]),
    ],
)
def test_a_command_is_looked_for_as_a_shell_would(name, path, expected):
    assert candidates(box(env=[("PATH", path)], argv=[name])) == expected


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A node whose PATH holds the programs named."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(*names):
        for name in names:
            (tmp_path / name).write_text("#!/bin/sh\n")
            (tmp_path / name).chmod(0o755)
        return tmp_path

    return make


def chosen(sandbox, *runtimes, required=False):
    plan = type("P", (), {"runtimes": list(runtimes), "runtime_required": required})
    container = Container.__new__(Container)
    container.rootfs = "/image"
    return Kit(plan, sandbox, "/tmp").runtime_for(container).name


@pytest.mark.parametrize(
    ("programs", "wanted", "expected"),
    [
        (["crun", "apptainer"], ["crun", "apptainer"], "crun"),
        (["apptainer"], ["crun", "apptainer"], "apptainer"),
        (["singularity"], ["crun", "apptainer", "singularity"], "singularity"),
        (["runc"], ["runc"], "runc"),
        ([], ["crun"], "native"),
    ],
)
def test_the_first_runtime_that_the_node_has_is_used(site, programs, wanted, expected):
    site(*programs)
    assert chosen(RANGE, *wanted) == expected


def test_without_user_namespaces_only_a_setuid_runtime_can_help(site):
    site("crun", "apptainer")
    denied = Sandbox(1000, 1000, False, False, False, "denied")
    assert chosen(denied, "crun", "apptainer") == "apptainer"


def test_a_runtime_that_was_asked_for_is_not_replaced_by_another(site):
    site("apptainer")
    assert chosen(RANGE, "apptainer", required=True) == "apptainer"
    with pytest.raises(OSError, match="asks for crun, which this node does not have"):
        chosen(RANGE, "crun", required=True)
    denied = Sandbox(1000, 1000, False, False, False, "user namespaces are denied")
    with pytest.raises(OSError, match="which cannot run here: user namespaces are denied"):
        chosen(denied, "crun", required=True)


def test_a_runtime_may_be_named_by_its_path(site):
    folder = site("crun")
    assert find([str(folder / "nothing"), str(folder / "crun")]) == str(folder / "crun")


def test_what_cannot_be_run_is_no_runtime(site):
    folder = site("crun")
    (folder / "crun").chmod(0o644)
    assert find(["crun"]) == ""
