"""The same containers in every runtime, with the same results.

Each test runs on crun, on apptainer, without a runtime and on the node's own root; most of them
as a user with subordinate ids and as one without.
"""

from __future__ import annotations

import base64
import re

import pytest

from ..pods import PATH, container, files

AWKWARD = {
    "PLAIN": "value",
    "QUOTES": "single ' double \" back ` slash \\",
    "DOLLARS": "$HOME ${PATH} $(id) $$ $",
    "NEWLINES": "first\nsecond\n\nfourth\n",
    "SPACES": "  leading, inner\tand trailing  ",
    "UNICODE": "grüße 日本 🚢",
    "EQUALS": "a=b=c",
    "EMPTY": "",
    "STARS": "* ? [a-z] ~ ! # ; & | < >",
}


@pytest.mark.parametrize("code", [0, 1, 42, 127, 255])
def test_exit_codes_are_exact(run_pod, runtime, code):
    pod = run_pod(container(script=f"exit {code}"), runtime=runtime)
    status = pod.status()
    assert (status["state"], status["exitCode"]) == ("terminated", code)
    assert status["reason"] == ("Completed" if code == 0 else "Error")
    assert pod.records()[-1]["phase"] == ("Succeeded" if code == 0 else "Failed")
    assert pod.code == code


def test_environment_values_arrive_exactly(run_pod, runtime, user):
    show = (
        "for n in $NAMES; do eval \"printf '%s' \\\"\\$$n\\\"\" | base64 | tr -d '\\n'; echo; done"
    )
    env = [*AWKWARD.items(), ("NAMES", " ".join(AWKWARD))]
    pod = run_pod(container(script=show, env=env), runtime=runtime, user=user)
    found = [base64.b64decode(line).decode() for line in pod.lines()]
    assert dict(zip(AWKWARD, found, strict=True)) == AWKWARD


def test_names_that_no_shell_could_set_arrive_too(run_pod, runtime):
    show = "tr '\\0' '\\n' < /proc/self/environ"
    pod = run_pod(container(script=show, env=[("my.app-name", "1")]), runtime=runtime)
    # The shell itself drops such names for its children, so the first process is asked.
    direct = run_pod(container("c", "/bin/cat", "/proc/self/environ", env=[("my.app-name", "1")]))
    assert "my.app-name=1" in direct.lines()[0].split("\0")
    assert pod.code == 0


def test_arguments_arrive_exactly(run_pod, runtime):
    words = ["", "two words", "$HOME", "'quoted'", "a\nb", "*"]
    script = 'for w in "$@"; do printf "%s" "$w" | base64; echo .; done'
    pod = run_pod(container("c", "/bin/sh", "-c", script, "sh", *words), runtime=runtime)
    text = "\n".join(pod.lines())
    found = [base64.b64decode(part).decode() for part in text.split(".")[:-1]]
    assert found == words


def test_nothing_of_the_jobs_environment_leaks(run_pod, runtime):
    env = {"SECRET_OF_THE_JOB": "1", "APPTAINERENV_SNEAKY": "1", "SINGULARITY_BIND": "/etc"}
    pod = run_pod(container(script="env"), runtime=runtime, env=env)
    names = {line.partition("=")[0] for line in pod.lines()}
    assert names <= {"PATH", "HOME", "HOSTNAME", "PWD", "SHLVL", "_", "OLDPWD"}


def test_variables_of_the_job_that_the_plan_passes_arrive_where_absent(run_pod, runtime):
    pod = run_pod(
        container(script="echo $SLURM_JOB_ID $SLURM_NTASKS", env=[("SLURM_NTASKS", "9")]),
        runtime=runtime,
        plan={"passEnv": ["SLURM_JOB_ID", "SLURM_NTASKS"]},
        env={"SLURM_NTASKS": "4"},
    )
    assert pod.lines() == ["17 9"]


def test_the_host_name_is_the_pods(run_pod, runtime):
    pod = run_pod(container(script="hostname; echo $HOSTNAME"), runtime=runtime)
    assert pod.lines() == [pod.folder.name] * 2


def test_the_working_directory_is_the_one_asked_for(run_pod, runtime):
    cwd = "/usr" if runtime == "host" else "/opt/app"
    assert run_pod(container(script="pwd", cwd=cwd), runtime=runtime).lines() == [cwd]


def test_a_missing_working_directory_is_made_in_an_image(run_pod, user):
    for runtime in ("crun", "apptainer", "native"):
        pod = run_pod(container(script="pwd", cwd="/no/such/folder"), runtime=runtime, user=user)
        assert pod.lines() == ["/no/such/folder"]


def test_a_missing_working_directory_of_the_node_is_a_start_error(run_pod):
    pod = run_pod(container(cwd="/no/such/folder"), runtime="host")
    assert pod.code == 128
    assert pod.status()["reason"] == "StartError"
    assert "chdir" in pod.status()["message"]
    assert "No such file or directory" in pod.status()["message"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("no-such-program", "not found"),
        ("/no/such/program", "o such file or directory"),
        ("/etc/passwd", "ermission denied|is not executable"),  # newer cruns say the latter
    ],
)
def test_a_wrong_command_is_a_start_error_in_the_runtimes_words(run_pod, runtime, command, words):
    pod = run_pod(container("c", command), runtime=runtime)
    status = pod.status()
    expected = {"state": "terminated", "reason": "StartError", "exitCode": 128}
    assert expected.items() <= status.items()
    assert re.search(words, status["message"])
    assert pod.events() == ["Failed"]
    assert pod.lines() == [], "the runtime's words are no log of the container's"


def test_a_signal_ends_a_container_with_128_and_its_number(make_pod, runtime):
    trap = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    pod = make_pod(container(script=trap), runtime=runtime).start()
    pod.wait_for_line("ready")
    pod.process.terminate()
    pod.wait()
    assert pod.status()["exitCode"] == 7


def test_what_ignores_its_stop_signal_is_killed_after_the_grace(make_pod, runtime):
    spec = {"terminationGracePeriodSeconds": 1}
    pod = make_pod(container(script="echo ready; exec sleep 60"), runtime=runtime, spec=spec)
    pod.start().wait_for_line("ready")
    pod.process.terminate()
    pod.wait(timeout=10)
    assert {"exitCode": 137, "signal": 9, "reason": "Error"}.items() <= pod.status().items()
    assert pod.records("finished")[0]["reason"] == "Terminated"


def test_the_stop_signal_of_the_image_is_used(make_pod, runtime):
    trap = "trap 'exit 3' QUIT; trap 'exit 4' TERM; echo ready; while :; do sleep 0.05; done"
    pod = make_pod(container(script=trap, stopSignal="SIGQUIT"), runtime=runtime).start()
    pod.wait_for_line("ready")
    pod.process.terminate()
    pod.wait()
    assert pod.status()["exitCode"] == 3


@pytest.mark.parametrize("uid", [0, 1234])
def test_a_container_runs_as_the_user_asked_for(run_pod, runtime, user, uid):
    script = "id -u; id -g; touch /tmp/orlop-$$ && stat -c %u /tmp/orlop-$$ && rm /tmp/orlop-$$"
    who = {"uid": uid, "gid": uid, "groups": []}
    pod = run_pod(container(script=script, user=who), runtime=runtime, user=user)
    assert pod.lines() == [str(uid)] * 3


def test_without_a_user_an_image_runs_as_root(run_pod):
    assert run_pod(container(script="id -u")).lines() == ["0"]


def test_without_a_user_the_nodes_root_is_used_as_oneself(run_pod, user):
    pod = run_pod(container(script="id -un; echo $HOME"), runtime="host", user=user)
    assert pod.lines()[0] == pod.user


def test_the_home_is_the_users_by_the_image(run_pod):
    who = {"uid": 1234, "gid": 1234, "groups": []}
    assert run_pod(container(script="echo $HOME", user=who)).lines() == ["/app"]


def test_supplementary_groups_are_given_where_ids_are_mapped(run_pod):
    who = {"uid": 1234, "gid": 1234, "groups": [2000, 2001]}
    pod = run_pod(container(script="id -G", user=who))
    assert {"1234", "2000", "2001"} <= set(pod.lines()[0].split())


def test_root_in_a_container_has_the_same_capabilities_everywhere(run_pod, runtime, user):
    script = "grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs)' /proc/self/status"
    who = {"uid": 0, "gid": 0, "groups": []}
    pod = run_pod(container(script=script, user=who), runtime=runtime, user=user)
    caps = "00000000a80425fb"
    assert [line.split()[1] for line in pod.lines()] == [caps, caps, caps, "1"]


@pytest.mark.parametrize(
    ("asked", "caps"),
    [
        ({"drop": ["ALL"]}, "0000000000000000"),
        ({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}, "0000000000000400"),
        ({"drop": ["CAP_MKNOD"], "add": ["SYS_PTRACE", "PERFMON"]}, "00000040a00c25fb"),
    ],
    ids=["none", "one", "other ones"],
)
def test_root_in_a_container_has_the_capabilities_it_asks_for(run_pod, runtime, asked, caps):
    script = "grep -E '^(CapPrm|CapEff|CapBnd)' /proc/self/status"
    who = {"uid": 0, "gid": 0, "groups": []}
    pod = run_pod(container(script=script, user=who, capabilities=asked), runtime=runtime)
    assert [line.split()[1] for line in pod.lines()] == [caps] * 3


def test_others_have_no_capabilities(run_pod, runtime, user):
    who = {"uid": 1234, "gid": 1234, "groups": []}
    script = "grep -E '^(CapPrm|CapEff|CapAmb)' /proc/self/status"
    pod = run_pod(container(script=script, user=who), runtime=runtime, user=user)
    assert {line.split()[1] for line in pod.lines()} == {"0" * 16}


def test_a_containers_root_is_writable_and_the_image_untouched(run_pod, stage, user):
    script = "echo new > /etc/passwd && rm /etc/group && mkdir /fresh && echo done"
    for runtime in ("crun", "apptainer", "native"):
        pod = run_pod(container(script=script), runtime=runtime, user=user)
        assert pod.lines() == ["done"]
    image = stage.rootfs(pod.user)
    assert (image / "etc/group").exists()
    assert not (image / "fresh").exists()


def test_a_read_only_root_cannot_be_written(run_pod, runtime, user):
    target = "/etc/x" if runtime != "host" else "$HOME/x"
    script = f"touch {target} 2>&1; echo $?; touch /data/ok && echo volume"
    mounts = [{"volume": "v", "path": "/data", "readOnly": False, "subPath": ""}]
    pod = run_pod(
        container(script=script, readOnlyRoot=True, mounts=mounts),
        runtime=runtime,
        user=user,
        volumes=[{"name": "v", "kind": "emptyDir"}],
    )
    assert "Read-only file system" in pod.lines()[0]
    assert pod.lines()[1:] == ["1", "volume"]


def test_a_read_only_mount_can_be_read_and_not_written(run_pod, runtime, user):
    mounts = [{"volume": "v", "path": "/etc/config", "readOnly": True}]
    script = "cat /etc/config/key; echo x > /etc/config/key"
    pod = run_pod(
        container(script=script, mounts=mounts),
        runtime=runtime,
        user=user,
        volumes=[files("v", key="from a ConfigMap\n")],
    )
    assert pod.lines()[0] == "from a ConfigMap"
    assert "Read-only file system" in pod.lines()[1]
    assert pod.code != 0


def test_a_shared_folder_is_seen_by_all_containers(run_pod, runtime):
    mounts = [{"volume": "v", "path": "/srv/deep/common"}]
    pod = run_pod(
        container("b", script="cat /srv/deep/common/note", mounts=mounts),
        init=[container("a", script="echo from a > /srv/deep/common/note", mounts=mounts)],
        runtime=runtime,
        volumes=[{"name": "v", "kind": "emptyDir"}],
    )
    assert pod.lines("b") == ["from a"]


def test_a_mount_below_a_mount_is_seen_in_it(run_pod, runtime):
    mounts = [{"volume": "inner", "path": "/data/inner"}, {"volume": "outer", "path": "/data"}]
    pod = run_pod(
        container(script="cat /data/inner/key; ls /data", mounts=mounts),
        runtime=runtime,
        volumes=[{"name": "outer", "kind": "emptyDir"}, files("inner", key="k\n")],
    )
    assert pod.lines() == ["k", "inner"]


def test_each_container_has_processes_of_its_own(run_pod, runtime):
    pod = run_pod(container(script="echo $$; ls -d /proc/[0-9]* | wc -l"), runtime=runtime)
    assert pod.lines()[0] == "1"
    assert int(pod.lines()[1]) < 6


def test_containers_share_the_pods_ipc_and_shared_memory(run_pod):
    script = "readlink /proc/self/ns/ipc; ls /dev/shm"
    for runtime in ("crun", "apptainer", "native"):
        first = container("a", script="echo > /dev/shm/left; readlink /proc/self/ns/ipc")
        pod = run_pod(container("b", script=script), init=[first], runtime=runtime)
        assert pod.lines("b") == [*pod.lines("a"), "left"]


def test_the_usual_devices_work(run_pod, runtime):
    script = (
        "head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; echo lost > /dev/null;"
        "echo out > /dev/stdout; echo x > /dev/full || echo full; test -d /dev/pts && echo pts"
    )
    pod = run_pod(container(script=script), runtime=runtime)
    lines = [line for line in pod.lines() if "error" not in line.lower()]
    assert lines == ["4", "4", "out", "full", "pts"]


def test_hosts_and_resolver_are_given(run_pod, runtime):
    alias = {"hostAliases": [{"ip": "10.1.2.3", "hostnames": ["friend", "friend.example"]}]}
    script = "cat /etc/hosts; test -e /etc/resolv.conf && echo resolver"
    pod = run_pod(container(script=script), runtime=runtime, spec=alias)
    assert "10.1.2.3\tfriend\tfriend.example" in pod.lines()
    assert pod.lines()[-1] == "resolver"


def test_sys_and_its_cgroups_are_read_only(run_pod):
    for runtime in ("crun", "apptainer", "native"):
        pod = run_pod(
            container(script="grep ' /sys' /proc/mounts | grep -c ' rw'"), runtime=runtime
        )
        assert pod.lines() == ["0"]


def test_a_terminal_is_given_where_asked_for(run_pod, runtime):
    pod = run_pod(container(script="test -t 0 && test -t 1 && echo tty", tty=True), runtime=runtime)
    assert [line.strip() for line in pod.lines()] == ["tty"]


def test_standard_input_is_empty_unless_asked_for(run_pod, runtime):
    assert run_pod(container(script="cat; echo end"), runtime=runtime).lines() == ["end"]


def test_output_and_errors_are_told_apart(run_pod, runtime):
    pod = run_pod(container(script="echo out; echo err >&2"), runtime=runtime)
    text = (pod.folder / "logs/c/0.log").read_text()
    streams = {line.split(" ", 3)[3]: line.split(" ")[1] for line in text.splitlines()}
    assert streams == {"out": "stdout", "err": "stderr"}


def test_the_runtime_is_named_in_the_journal(run_pod, runtime):
    (started,) = run_pod(container(), runtime=runtime).records("started")
    assert started["runtime"].split()[0] == runtime
    assert started["job"] == "17"
    assert started["node"] == "n1"


def test_a_runtime_of_the_settings_that_the_node_lacks_is_told_and_done_without(run_pod):
    setting = {"runtimeSetting": "/opt/nowhere/crun", "runtimes": ["/opt/nowhere/crun"]}
    pod = run_pod(container(script="echo runs"), plan=setting)
    assert pod.lines() == ["runs"]
    (found,) = pod.records("condition")
    assert (found["condition"], found["status"]) == ("orlop.dev/Runtime", "False")
    assert "agent.runtime is /opt/nowhere/crun, and this node does not have it" in found["message"]


def test_a_runtime_of_the_settings_that_is_there_needs_no_word(run_pod):
    pod = run_pod(container(script="echo runs"), plan={"runtimeSetting": "crun"})
    assert pod.lines() == ["runs"]
    assert pod.records("condition") == []


# An OCI runtime that has made the file for its container's number, and writes it a while later.
SLOW_TO_TELL = """#!/bin/sh
count=$#; last=; file=
while [ $count -gt 0 ]; do
  word=$1; shift; count=$((count - 1))
  if [ "$last" = --pid-file ]; then file=$word; word=$word.real; : > "$file"; fi
  set -- "$@" "$word"; last=$word
done
/usr/bin/crun "$@" || exit
[ -z "$file" ] || { sleep 0.5; cat "$file.real" > "$file"; }
"""


def test_a_container_may_print_and_end_before_its_runtime_has_told_its_number(run_pod, stage):
    folder = stage.folder / "slow-to-tell"
    folder.mkdir()
    (folder / "crun").write_text(SLOW_TO_TELL)
    (folder / "crun").chmod(0o755)
    pod = run_pod(container(script="echo hello; exit 3"), env={"PATH": f"{folder}:{PATH}"})
    assert (pod.lines(), pod.code) == (["hello"], 3)
