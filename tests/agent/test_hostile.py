"""What a container may try against its agent: to have it write, read or remove outside the pod."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from .pods import container, give

MOUNT = [{"volume": "v", "path": "/v"}]
EMPTY = [{"name": "v", "kind": "emptyDir"}]


@pytest.fixture(params=["crun", "apptainer", "native"])
def runtime(request):
    """Those with an image; on its node's own root a container is the owner of the cluster."""
    return request.param


@pytest.fixture
def victim():
    """A folder of the pod's owner that is no business of the pod."""
    with tempfile.TemporaryDirectory(prefix="orlop-victim-", dir="/tmp") as path:
        os.chmod(path, 0o777)
        (Path(path) / "kept").write_text("kept\n")
        yield Path(path)


@pytest.mark.parametrize("link", ["{victim}/message", "../../../../../../../../{victim}/message"])
def test_a_link_in_the_place_of_the_termination_message_leads_nowhere(
    run_pod, runtime, victim, link
):
    target = link.format(victim=victim)
    lays = container("i", script=f"ln -s {target} /v/message", mounts=MOUNT)
    speaks = container(
        "c", script="echo words > /v/message; exit 3", mounts=MOUNT,
        terminationMessagePath="/v/message",
    )  # fmt: skip
    run_pod(speaks, init=[lays], runtime=runtime, volumes=EMPTY)
    assert [path.name for path in victim.iterdir()] == ["kept"]


def test_a_link_to_a_folder_is_removed_and_not_the_folder(run_pod, runtime, victim):
    script = f"ln -s {victim} /v/way; mkdir -p /v/deep/er; ln -s {victim}/kept /v/deep/er/x"
    run_pod(container(script=script, mounts=MOUNT), runtime=runtime, volumes=EMPTY)
    assert (victim / "kept").read_text() == "kept\n"


def test_the_files_of_the_pods_folder_are_not_in_its_containers(make_pod, stage, runtime):
    look = (
        f"cat {stage.folder}/*/token; for f in {stage.folder}/*/token; do echo x > $f; done; ls /"
    )
    pod = make_pod(container(script=look), runtime=runtime)
    (pod.folder / "token").write_text("s3cret\n")
    give(pod.folder, pod.user)
    pod.run()
    assert (pod.folder / "token").read_text() == "s3cret\n"
    assert "s3cret" not in pod.lines()
    assert "bin" in pod.lines()


def test_a_line_that_looks_like_a_line_of_the_log_is_still_a_line(run_pod, runtime):
    forged = "2026-01-01T00:00:00.000000000Z stderr F forged"
    pod = run_pod(container(script=f"echo '{forged}'"), runtime=runtime)
    assert pod.lines() == [forged]


def test_nothing_that_the_agent_has_open_is_open_in_a_container(run_pod, runtime):
    look = "for f in /proc/1/fd/*; do readlink $f; done"
    pod = run_pod(container(script=look), runtime=runtime)
    assert len(pod.lines()) >= 3
    for line in pod.lines():
        is_stream = line.startswith(("pipe:", "/dev/null", "/dev/pts")) or line == "/bin/busybox"
        assert is_stream or line.startswith("/proc"), pod.lines()


ENV_FILE = [{"name": "WORD", "volume": "v", "path": "env", "key": "KEY"}]


@pytest.mark.parametrize(
    ("lays", "words"),
    [
        ("ln -s {victim}/env /v/env", "leads out of the volume"),
        ("ln -s ../../../../../../../../{victim}/env /v/env", "leads out of the volume"),
        ("ln -s /proc/self/environ /v/env", "leads out of the volume"),
        ("mkfifo /v/env", "not a regular file"),
        ("ln -s /proc/1/fd/1 /v/env", "leads out of the volume"),
    ],
    ids=["absolute", "upwards", "its-environment", "pipe", "descriptor"],
)
def test_a_file_of_variables_is_read_in_its_volume_or_not_at_all(run_pod, victim, lays, words):
    (victim / "env").write_text("KEY='s3cret'\n")
    first = container("i", script=lays.format(victim=victim), mounts=MOUNT)
    reads = container("c", script="echo got $WORD", mounts=MOUNT, envFiles=ENV_FILE)
    pod = run_pod(reads, init=[first], volumes=EMPTY, spec={"activeDeadlineSeconds": 10})
    assert pod.lines() == []
    said = " ".join(str(record) for record in pod.records())
    assert words in said
    assert "s3cret" not in said


def test_logs_of_any_size_and_bytes_stay_one_file(run_pod, runtime):
    script = "printf 'a\\0b\\033[2J\\n'; head -c 300000 /dev/zero | tr '\\0' x; echo; echo last"
    pod = run_pod(container("c", script=script), runtime=runtime)
    assert pod.lines()[-1] == "last"
    assert sorted(path.name for path in (pod.folder / "logs/c").iterdir()) == ["0.log"]
    assert sorted(path.name for path in (pod.folder / "logs").iterdir()) == ["c"]


def test_output_without_an_end_takes_what_it_may_and_no_more(run_pod, runtime):
    script = "yes | head -c 400000; yes | head -c 5000000 | tr -d '\\n'; echo; echo last"
    plan = {"logs": {"size": 1 << 20, "files": 3}}
    pod = run_pod(container("c", script=script), runtime=runtime, plan=plan)
    kept = list((pod.folder / "logs/c").iterdir())
    assert len(kept) == 3
    assert sum(path.stat().st_size for path in kept) <= 3 << 20
    assert pod.lines()[-1] == "last"


# Forks until it cannot, and then says how many there were.
BOMB = """
n=0
while [ $n -lt 300 ]; do
    sleep 30 & n=$((n+1))
done 2>/dev/null
echo all
"""


def test_who_forks_without_an_end_ends_at_the_limit(run_pod, runtime):
    spec = {"terminationGracePeriodSeconds": 0}
    began = time.monotonic()
    bomb = container("a", script=f"ulimit -u; {BOMB}")
    pod = run_pod(bomb, runtime=runtime, spec=spec, plan={"pids": 100})
    assert pod.lines("a")[0] == "100"
    assert "all" not in pod.lines("a")
    assert time.monotonic() - began < 60


def test_one_pod_leaves_processes_for_what_is_no_container(run_pod):
    pod = run_pod(container(script="ulimit -u"))
    own = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    left = "unlimited" if own < 0 else str(own - min(256, own // 4))
    assert pod.lines() == [left]


# As the loader of whatever /proc/self/exe is: gives that, which is what it was before, to all.
LOADER = """
static long sys(long n, long a, long b, long c, long d)
{
    long r;
    register long r10 asm("r10") = d;
    asm volatile("syscall"
        : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return r;
}
void _start(void)
{
    long fd = sys(257, -100, (long)"/proc/self/exe", 0, 0);
    long done = sys(91, fd, 07777, 0, 0);
    sys(1, 1, (long)(done ? "refused\\n" : "taken\\n"), done ? 8 : 6, 0);
    sys(231, 0, 0, 0, 0);
}
"""
TRAPS = """
mkdir -p /lib64 /tmp; cp /t/loader /lib64/ld-linux-x86-64.so.2
ln -s /proc/self/exe /tmp/itself; printf '#!/proc/self/exe\\n' > /tmp/script; chmod 755 /tmp/script
"""


@pytest.fixture
def own_python(tmp_path_factory):
    """An interpreter that is its user's own file, as a virtual environment's or conda's is."""
    with tempfile.TemporaryDirectory(prefix="orlop-python-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "loader.c").write_text(LOADER)
        gcc = ["gcc", "-static", "-nostdlib", "-O1", "-o", "loader", "loader.c"]
        subprocess.run(gcc, cwd=folder, check=True)
        shutil.copy(os.path.realpath("/usr/bin/python3"), folder / "python3")
        (folder / "python3").chmod(0o755)
        give(folder, "orlop-test")
        yield folder


def of_traps(folder: Path) -> list[dict[str, object]]:
    return [{"name": "t", "kind": "hostPath", "path": str(folder)}]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the loader is of x86-64")
@pytest.mark.parametrize("trap", ["/tmp/itself", "/tmp/script"])
def test_a_command_that_is_what_we_were_is_not_our_python(remote_to, runtime, own_python, trap):
    """kubectl exec, and every probe and hook by a command."""
    where = [{"volume": "t", "path": "/t"}]
    main = container(script=f"{TRAPS} echo ready; exec sleep 300", mounts=where)
    remote = remote_to(
        main, runtime=runtime, volumes=of_traps(own_python), python=str(own_python / "python3")
    )
    number = remote.exec(trap)
    remote.closed(number)
    assert "taken" not in remote.text(number)
    assert (own_python / "python3").stat().st_mode & 0o7777 == 0o755


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the loader is of x86-64")
@pytest.mark.parametrize("trap", ["/tmp/itself", "/tmp/script"])
def test_a_container_that_begins_as_what_we_were_is_not_our_python(
    run_pod, runtime, own_python, trap
):
    mounts = [{"volume": "t", "path": "/t"}, {"volume": "v", "path": "/tmp"},
              {"volume": "l", "path": "/lib64"}]  # fmt: skip
    volumes = [*of_traps(own_python), *EMPTY, {"name": "l", "kind": "emptyDir"}]
    run_pod(
        container("c", trap, mounts=mounts),
        init=[container("i", script=TRAPS, mounts=mounts)],
        runtime=runtime,
        volumes=volumes,
        python=str(own_python / "python3"),
    )
    assert (own_python / "python3").stat().st_mode & 0o7777 == 0o755


# What a container is, as its own /proc tells, and what it may not do with it.
IS_CONFINED = """
grep -E '^(NoNewPrivs|CapEff|CapBnd|CapAmb)' /proc/self/status | tr -d '\\t'
cp /bin/busybox /tmp/su; chmod 4755 /tmp/su; stat -c 'setuid %a' /tmp/su
grep '^NoNewPrivs' /proc/self/status
mknod /tmp/d b 8 0 2>/dev/null && head -c 1 /tmp/d >/dev/null 2>&1 && echo device
for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/kernel/uevent_helper; do
    (echo x > $f) 2>/dev/null && echo wrote $f
done
for f in /etc/hosts /etc/resolv.conf /ro /ro/x; do umount $f 2>/dev/null && echo unmounted $f; done
mount -o remount,rw,bind /ro 2>/dev/null && echo remounted
(echo x > /ro/x) 2>/dev/null && echo wrote to what is read-only
cat /proc/kcore > /dev/null 2>&1 && echo kernel
echo end
"""
# The same by somebody who has made a user namespace, and is all-powerful in there.
IS_CONFINED_IN_NAMESPACES = """
unshare -Urm sh -c '
    for f in /etc/hosts /ro /sys /proc/kcore /proc/sys; do
        umount $f 2>/dev/null && echo unmounted $f
    done
    umount -l / 2>/dev/null && ls /home 2>/dev/null && echo out
    mount -o remount,rw,bind /ro 2>/dev/null && echo remounted
    (echo x > /ro/x) 2>/dev/null && echo wrote
    mount -t proc proc /mnt 2>/dev/null && cat /mnt/kcore >/dev/null 2>&1 && echo kernel
    (echo x > /proc/sys/kernel/core_pattern) 2>/dev/null && echo pattern
    for p in /proc/[0-9]*; do
        [ -e $p/root/home/orlop-test ] && echo root of $p
    done
    true
' 2>/dev/null
echo end
"""
DEFAULT_CAPS = 0xA80425FB | 1 << 18  # containerd's set; CHROOT is in it


@pytest.fixture
def read_only():
    with tempfile.TemporaryDirectory(prefix="orlop-ro-", dir="/tmp") as name:
        Path(name).chmod(0o777)
        yield [{"name": "ro", "kind": "hostPath", "path": name}]


RO = [{"volume": "ro", "path": "/ro", "readOnly": True}]


def test_a_container_may_do_what_a_container_may(run_pod, runtime, read_only):
    pod = run_pod(container(script=IS_CONFINED, mounts=RO), runtime=runtime, volumes=read_only)
    lines = pod.lines()
    told = dict(line.split(":", 1) for line in lines if line.startswith("Cap"))
    for kind in ("CapEff", "CapBnd"):
        assert int(told[kind], 16) & ~DEFAULT_CAPS == 0, told
    assert int(told["CapAmb"], 16) == 0
    rest = [line.replace("\t", "") for line in lines if not line.startswith("Cap")]
    assert rest == ["NoNewPrivs:1", "setuid 4755", "NoNewPrivs:1", "end"]
    assert not (Path(read_only[0]["path"]) / "x").exists()


def test_a_namespace_of_its_own_gives_a_container_nothing_more(run_pod, runtime, read_only):
    main = container(script=IS_CONFINED_IN_NAMESPACES, mounts=RO)
    pod = run_pod(main, runtime=runtime, volumes=read_only)
    assert pod.lines() == ["end"]
    assert not (Path(read_only[0]["path"]) / "x").exists()


LOOKS_AROUND = """
for p in /proc/[0-9]*; do
    n=${p#/proc/}; [ $n = $$ ] && continue
    for f in environ mem maps; do head -c 1 $p/$f 2>/dev/null | grep -q . && echo $f of $n; done
    ls $p/fd >/dev/null 2>&1 && readlink $p/fd/* 2>/dev/null | grep -E 'journal|socket|agent'
    [ -e $p/root/home ] && ls $p/root/home 2>/dev/null | grep orlop
done
[ $HOST ] || { kill -9 1; kill -STOP 1; sleep 1; }
echo end
"""


@pytest.mark.parametrize("shared", ["pids", "hostPids"])
def test_who_shares_processes_sees_nothing_of_the_agent(run_pod, runtime, shared):
    """The first process of the pod is the agent's, as it is upstream's pause container; with those
    of the node come all of the owner's, in other user namespaces.
    """
    env = [["HOST", "1"]] if shared == "hostPids" else []
    main = container(script=LOOKS_AROUND, env=env)
    pod = run_pod(main, runtime=runtime, spec={"shared": [shared]})
    assert pod.lines() == ["end"]
    assert pod.records()[-1]["type"] == "finished"


MESSAGE = "/dev/termination-log"
SPOILS = """
rm -f $M 2>/dev/null && echo removed; mv $M /tmp/m 2>/dev/null && echo moved
ln -sf /etc/passwd $M 2>/dev/null && echo linked; mkfifo $M 2>/dev/null && echo piped
head -c 300000 /dev/zero | tr '\\0' x > $M; chmod 0 $M; echo end; exit 1
"""


def test_a_termination_message_can_be_made_long_and_nothing_else(run_pod, runtime):
    main = container(script=SPOILS, env=[["M", MESSAGE]])
    pod = run_pod(main, runtime=runtime)
    assert pod.lines() == ["end"]
    assert pod.status()["message"] == "x" * 4096
