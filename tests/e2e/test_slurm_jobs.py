"""Slurm's own jobs as objects, on a real Slurm that keeps accounts."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from orlop.wellknown import FEATURE_LABEL_PREFIX
from tests.cluster.commands import CommandFailed
from tests.e2e.site import Obj, Site, eventually

pytestmark = pytest.mark.timeout(240)


def slurm_job(name: str, **spec: Any) -> Obj:
    metadata = {"name": name}
    return {
        "apiVersion": "slurm.orlop.dev/v1",
        "kind": "SlurmJob",
        "metadata": metadata,
        "spec": spec,
    }


def status(site: Site, name: str, kind: str = "slurmjobs.slurm.orlop.dev") -> Obj:
    found: Obj = site.get(kind, name).get("status") or {}
    return found


def reach(site: Site, name: str, timeout: float = 60.0, **fields: Any) -> Obj:
    def reached() -> Obj | None:
        found = status(site, name)
        return found if all(found.get(key) == value for key, value in fields.items()) else None

    return eventually(reached, f"{name} has {fields}", timeout)


_ROW = "JobName,Account,State,ExitCode"


def sacct(site: Site, job: str, fields: str) -> str:
    return site.run("sacct", "-X", "-n", "-P", "-j", job, "-o", fields).stdout.strip()


def test_a_script_runs_as_sbatch_would_run_it(accounted_site: Site) -> None:
    site = accounted_site
    secret = {"metadata": {"name": "pw"}, "stringData": {"WORD": "s3cret $HOME 'x'"}}
    site.apply({"apiVersion": "v1", "kind": "Secret", **secret})
    script = (
        "#!/bin/bash\n#SBATCH --ntasks=2 --nodes=2 --time=5\n#SBATCH --job-name=two\n"
        'srun hostname | sort\necho "$WORD" > word.txt\necho "$1"\nexit 3\n'
    )
    site.apply(
        slurm_job(
            "hello",
            script=script,
            args=["an argument"],
            envFrom=[{"secretRef": {"name": "pw"}}],
            results=[{"name": "word", "path": "word.txt"}],
        )
    )
    found = reach(site, "hello", phase="Failed", state="FAILED", exitCode=3)
    assert found["results"] == {"word": "s3cret $HOME 'x'\n"}
    assert (found["account"], found["jobName"], found["nodes"]) == ("research", "two", 2)
    lines = site.kubectl("logs", "hello-job").splitlines()
    assert sum(line in ("n1", "n2", "n3", "n4") for line in lines) == 2
    assert "an argument" in lines
    # The accounting says the same, and nobody's script has the secret.
    expected = "two|research|FAILED|3:0"
    eventually(lambda: sacct(site, found["jobId"], _ROW) == expected, "it is accounted for")
    kept = site.run("scontrol", "write", "batch_script", found["jobId"], "-").stdout
    assert "s3cret" not in kept


def test_an_array_is_one_object_and_each_task_has_its_own_log(accounted_site: Site) -> None:
    site = accounted_site
    script = '#!/bin/sh\necho "task $SLURM_ARRAY_TASK_ID"\nexit $((SLURM_ARRAY_TASK_ID == 2))\n'
    site.apply(slurm_job("tasks", script=script, array="0-3"))
    found = reach(site, "tasks", phase="Failed", exitCode=1)
    assert (found["arrayTasks"]["succeeded"], found["arrayTasks"]["failed"]) == (3, 1)
    for task in range(4):
        assert site.kubectl("logs", "tasks-job", "-c", f"task-{task}") == f"task {task}\n"
    site.apply(slurm_job("stays", command=["sleep", "600"], array="0-2"))
    array = reach(site, "stays", phase="Running")["jobId"]
    site.kubectl("delete", "slurmjob", "stays", "--timeout=60s", timeout=70)

    def cancelled() -> bool:
        states = sacct(site, array, "State").splitlines()
        return bool(states) and all(state.startswith("CANCELLED") for state in states)

    eventually(cancelled, "all its tasks are cancelled")


CLAIM = """
    apiVersion: v1
    kind: PersistentVolumeClaim
    metadata:
      name: data
    spec:
      accessModes: [ReadWriteMany]
      resources:
        requests:
          storage: 1Mi
"""


def test_a_chain_hands_on_its_files_by_a_claim(accounted_site: Site) -> None:
    """Slurm starts the second when the first has ended, before anybody else could look."""
    site = accounted_site
    site.apply(CLAIM)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    out = [{"path": "a.csv", "volume": "data", "to": "out"}]
    found = [{"volume": "data", "path": "out/a.csv", "to": "in.csv"}]
    old = "#!/bin/sh\nmkdir volumes/data/out; echo old > volumes/data/out/a.csv\n"
    site.apply(slurm_job("old", script=old, volumes=volumes))
    reach(site, "old", phase="Succeeded")
    first = "#!/bin/sh\nuntil [ -e $HOME/go ]; do sleep 0.2; done\necho new > a.csv\n"
    second = '#!/bin/sh\ncat in.csv; cat "$ORLOP_VOLUMES/data/out/a.csv"\n'
    waits = {"dependencies": [{"name": "first"}], "volumes": volumes}
    jobs = [
        slurm_job("first", script=first, volumes=volumes, results=out),
        slurm_job("second", script=second, inputs=found, array="0-1", **waits),
        slurm_job("third", command=["true"], inputs=[{**found[0], "path": "none"}], **waits),
    ]
    site.apply({"apiVersion": "v1", "kind": "List", "items": jobs})
    for name in ("second", "third"):  # at once, and Slurm does the waiting
        eventually(lambda: status(site, name).get("jobId"), f"{name} is submitted", 60)  # noqa: B023
    site.run("touch", str(site.cluster.home / "go"))
    reach(site, "second", phase="Succeeded")
    for task in range(2):
        assert site.kubectl("logs", "second-job", "-c", f"task-{task}") == "new\nnew\n"
    lost = reach(site, "third", phase="Failed", exitCode=66)
    assert lost["message"].startswith("inputs could not be fetched: cp:")


def test_deleting_it_cancels_its_job(accounted_site: Site) -> None:
    site = accounted_site
    site.apply(slurm_job("long", command=["sleep", "600"]))
    found = reach(site, "long", phase="Running")
    site.kubectl("delete", "slurmjob", "long", "--timeout=60s", timeout=70)
    eventually(
        lambda: sacct(site, found["jobId"], "State").startswith("CANCELLED"), "it is cancelled"
    )
    assert not list((site.home / "slurmjobs").glob(f"{site.namespace}_long_*"))


def test_a_killed_control_plane_loses_no_job_and_submits_none_twice(own_site: Site) -> None:
    site = own_site
    jobs = [slurm_job(f"j{number}", command=["sleep", "3"]) for number in range(6)]
    eventually(lambda: _applied(site, {"apiVersion": "v1", "kind": "List", "items": jobs}), "kind")
    site.kill()
    site.up()
    for number in range(6):
        reach(site, f"j{number}", phase="Succeeded")
    names = site.squeue("%j", "-t", "all")
    assert sorted(name for name in names if name.startswith("j")) == [f"j{n}" for n in range(6)]


WLM_COW = """
    apiVersion: wlm.sylabs.io/v1alpha1
    kind: SlurmJob
    metadata:
      name: cow
    spec:
      batch: |
        #!/bin/sh
        #SBATCH --nodes=1
        #SBATCH --output cow.out
        srun echo moo
      nodeSelector:
        wlm.sylabs.io/containers: singularity
      results:
        from: cow.out
        mount:
          name: data
          hostPath:
            path: {results}
            type: DirectoryOrCreate
"""
WLM_IMAGE = """
    apiVersion: wlm.sylabs.io/v1alpha1
    kind: WlmJob
    metadata:
      name: image
    spec:
      image: {image}
      options: {{cleanEnv: true}}
      resources: {{nodes: 2, cpuPerNode: 1, memPerNode: 100, wallTime: 120}}
"""
BRIDGE = """
    apiVersion: bridgejob.ibm.com/v1alpha1
    kind: BridgeJob
    metadata:
      name: bridge
    spec:
      resourceURL: http://slurmrestd:6820/slurm/v0.0.36/
      image: quay.io/ibmdpdev/slurm-pod:v0.0.1
      resourcesecret: mysecret
      imagepullpolicy: Always
      updateinterval: 20
      jobdata:
        jobscript: {script}
        scriptlocation: remote
      jobproperties: |
        {{"NodesNumber": "1", "Queue": "short", "Tasks": "2", "slurmJobName": "test",
          "currentWorkingDir": "{home}", "envPath": "/bin:/usr/bin", "envLibPath": "/lib",
          "OutputFileName": "bridge.out", "ErrorFileName": "bridge.err"}}
"""
BRIDGE_KILLED = {
    "apiVersion": "bridgejob.ibm.com/v1alpha1",
    "kind": "BridgeJob",
    "metadata": {"name": "killed"},
    "spec": {
        "resourceURL": "http://slurmrestd:6820/slurm/v0.0.36/",
        "resourcesecret": "mysecret",
        "jobdata": {"jobscript": "#!/bin/sh\nsleep 600\n", "scriptlocation": "inline"},
    },
}


def root_with_runscript(site: Site, does: str = "hostname") -> str:
    """A folder that apptainer runs as an image: busybox, and what to do."""
    lines = (
        f'd="$HOME/root-{does.split()[0]}"; mkdir -p $d/bin $d/etc $d/proc $d/tmp $d/dev',
        "mkdir -p $d/sys $d/.singularity.d",
        "cp $(command -v busybox) $d/bin/busybox; ln -sf busybox $d/bin/sh",
        f"ln -sf busybox $d/bin/{does.split()[0]}",
        f'printf "#!/bin/sh\\n{does}\\n" > $d/.singularity.d/runscript',
        "chmod 755 $d/.singularity.d/runscript; ln -sf .singularity.d/runscript $d/singularity",
        'echo "$d"',
    )
    return site.run("sh", "-c", "\n".join(lines)).stdout.strip()


def test_manifests_of_earlier_operators_run_to_their_ends(accounted_site: Site) -> None:
    site = accounted_site
    results = site.cluster.home / "cow-results"
    site.apply(WLM_COW.format(results=results))
    site.apply(WLM_IMAGE.format(image=root_with_runscript(site)))
    home = site.cluster.home
    script = "#!/bin/bash\necho bridged; echo wrong >&2\n"
    site.run("tee", str(home / "bridge.sh"), input=script)
    site.apply(BRIDGE.format(home=home, script=home / "bridge.sh"))
    site.apply(BRIDGE_KILLED)

    def said(kind: str, name: str, field: str) -> str:
        return str(status(site, name, kind).get(field))

    wlm = "slurmjobs.wlm.sylabs.io"
    eventually(lambda: said(wlm, "cow", "status") == "Succeeded", "cow", 90)
    eventually(lambda: said("wlmjobs", "image", "status") == "Succeeded", "image", 90)
    eventually(lambda: said("bridgejobs", "bridge", "jobstatus") == "DONE", "bridge", 90)
    reach(site, "killed", phase="Running")
    site.kubectl("patch", "bridgejob", "killed", "--type=merge", "-p", '{"spec":{"kill":true}}')
    eventually(lambda: said("bridgejobs", "killed", "jobstatus") == "KILLED", "killed", 90)
    # srun may have a word of its own to say where the machine is busy.
    assert "moo" in (results / "cow.out").read_text().splitlines()
    said_by = set(site.kubectl("logs", "image-job").splitlines())
    assert len(said_by & {"n1", "n2", "n3", "n4"}) == 2
    assert site.kubectl("logs", "bridge-job") == "bridged\n"
    assert site.kubectl("logs", "bridge-job", "-c", "errors") == "wrong\n"
    assert status(site, "bridge")["partition"] == "short"


def test_a_script_with_its_lines_is_run_by_the_plugin(accounted_site: Site) -> None:
    site = accounted_site
    lines = ["#!/bin/bash", "#SBATCH --time=5", "#SBATCH --ntasks=2", "#SBATCH -e %x-%N.err"]
    work = 'echo "$@"; cd "$SLURM_SUBMIT_DIR"; pwd; module load x; srun true; echo bad >&2; exit 4'
    text = "\n".join([*lines, work, ""])
    script = site.cluster.home / "Train.sh"
    site.run("tee", str(script), input=text)
    flags = ("--namespace", site.namespace, "--name", "train", "--follow", "-p", "short")
    argv = ("kubectl", "slurm", "sbatch", *flags, str(script), "a b")
    # The shell's variables come along, and functions, as `module` is one.
    shell = 'cd; export WORD="m o"; module() { echo "$WORD" "$@"; }; export -f module; exec "$@"'
    ran = site.run("bash", "-c", shell, "bash", *argv, timeout=100, check=False)
    assert ran.returncode == 4, ran
    expected = ["train", "a b", str(site.cluster.home), "m o load x"]
    assert ran.stdout.splitlines()[:4] == expected
    assert "bad" in ran.stderr.splitlines()
    assert "bad" in site.kubectl("logs", "train-job", "-c", "errors").splitlines()
    found = status(site, "train")
    assert found["stderr"].startswith(str(site.cluster.home / "Train.sh-n"))
    assert (found["jobName"], found["partition"]) == ("Train.sh", "short")
    # What Slurm counted is what the plugin says it counted.
    fields = "JobName,State,ExitCode"
    expected = "Train.sh|FAILED|4:0"
    eventually(lambda: sacct(site, found["jobId"], fields) == expected, "it is accounted for")
    steps = ("sacct", "-n", "-P", "-j", found["jobId"], "-o", "JobName")
    names = ["Train.sh", "batch", "true"]
    eventually(lambda: site.run(*steps).stdout.split() == names, "its steps are accounted for")
    used = site.run("kubectl", "slurm", "usage", "-n", site.namespace).stdout.splitlines()
    assert used[1].split()[:3] == ["train-job", found["jobId"], "FAILED"]


def test_the_plugin_follows_arrays_and_says_what_sbatch_says(accounted_site: Site) -> None:
    site = accounted_site

    def sbatch(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        argv = ("kubectl", "slurm", "sbatch", "--namespace", site.namespace, *words)
        return site.run("sh", "-c", 'cd && exec "$@"', "sh", *argv, input=text, timeout=100,
                        check=False)  # fmt: skip

    script = '#!/bin/sh\necho "task $SLURM_ARRAY_TASK_ID"\nexit $SLURM_ARRAY_TASK_ID\n'
    ran = sbatch("--array=0-6", "--follow", "--name", "seven", text=script)
    assert ran.returncode == 6, ran
    shown = [f"[task-{number}] task {number}" for number in range(7)]
    assert sorted(ran.stdout.splitlines()) == [*shown, "seven"]
    number = sbatch("--parsable", "--name", "one", "--wrap", "true").stdout.strip()
    assert number == status(site, "one")["jobId"]
    assert sbatch("--wait", "-d", f"afterok:{number}", "--wrap", "true").returncode == 0
    # What sbatch refuses leaves nothing but its words.
    ran = sbatch("--name", "no", text="#!/bin/sh\n#SBATCH --nosuch=1\ntrue\n")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "unrecognized option '--nosuch=1'" in ran.stderr
    left = ("get", "slurmjob", "no", "--ignore-not-found")
    eventually(lambda: not site.kubectl(*left), "its object goes, with its folder")
    ran = sbatch("-d", "afterok:typo", "--wrap", "true")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "there is no SlurmJob typo" in ran.stderr


def test_every_job_of_the_user_is_shown_and_cancelled_by_delete(accounted_site: Site) -> None:
    site = accounted_site
    job = site.run("sbatch", "--parsable", "-J", "foreign", "--wrap", "sleep 600").stdout.strip()
    queue = ("-n", "slurm-queue")

    def shown() -> Obj:
        argv = ("get", *queue, "slurmjobs", "-o", "json", "--ignore-not-found", f"job-{job}")
        text = site.run("kubectl", *argv).stdout
        found: Obj = json.loads(text)["status"] if text else {}
        return found

    eventually(lambda: shown().get("state") == "RUNNING", "it is shown", 60)
    assert shown()["jobName"] == "foreign"
    names = site.run(
        "kubectl", "get", "slurmpartitions,slurmaccounts,slurmqos", "-o", "name"
    ).stdout
    for kind, name in (("partition", "short"), ("account", "research"), ("qos", "high")):
        assert f"slurm{kind}.slurm.orlop.dev/{name}\n" in names
    argv = ("delete", *queue, "slurmjob", f"job-{job}", "--timeout=60s")
    site.run("kubectl", *argv, timeout=70)
    eventually(lambda: sacct(site, job, "State").startswith("CANCELLED"), "it is cancelled")


SLEEPS = "#!/bin/sh\n#SBATCH --nodelist={node} --no-requeue --time=60 --mem=10\nsleep 600\n"
FEATURES = {"n1": ("intel", "ib"), "n2": ("intel",), "n3": ("amd", "ib")}
KINDS = ("", "wlm-", "bridge-", "image-", "kept-")
LOST = {"phase": "Failed", "state": "NODE_FAIL"}


def sleepers(name: str, node: str, image: str) -> list[Obj]:
    """The same job as each of the operators would have it; an image is not told its node."""
    script = SLEEPS.format(node=node)
    selector = {FEATURE_LABEL_PREFIX + one: "true" for one in FEATURES[node]}
    resources = {"nodes": 1, "memPerNode": 50, "wallTime": 3600}
    run = {"image": image, "resources": resources, "nodeSelector": selector}
    wlm = {"apiVersion": "wlm.sylabs.io/v1alpha1", "kind": "SlurmJob"}
    bridge = {"apiVersion": "bridgejob.ibm.com/v1alpha1", "kind": "BridgeJob"}
    data = {"jobscript": script, "scriptlocation": "inline"}
    asked = {"resourceURL": "http://slurmrestd:6820/slurm/v0.0.36/", "resourcesecret": "mine"}
    kept = {"slurm.orlop.dev/no-requeue": "true"}
    return [
        slurm_job(name, script=script),
        {**wlm, "metadata": {"name": f"wlm-{name}"}, "spec": {"batch": script}},
        {**bridge, "metadata": {"name": f"bridge-{name}"}, "spec": {**asked, "jobdata": data}},
        {**wlm, "kind": "WlmJob", "metadata": {"name": f"image-{name}"}, "spec": run},
        {
            **wlm,
            "kind": "WlmJob",
            "metadata": {"name": f"kept-{name}", "annotations": kept},
            "spec": run,
        },
    ]


@pytest.mark.timeout(400)
def test_bad_ends_are_told_in_slurms_own_words(own_site: Site) -> None:
    """A time limit that passes, a node that loses power, somebody's scancel."""
    site = own_site
    where = {"late": "n1", "lost": "n3", "cancelled": "n2"}
    image = root_with_runscript(site, "sleep 600")
    for name, node in where.items():
        for manifest in sleepers(name, node, image):
            eventually(lambda: _applied(site, manifest), name, 60)  # noqa: B023
    jobs = [prefix + name for name in where for prefix in KINDS]
    found = {name: reach(site, name, phase="Running")["jobId"] for name in jobs}
    for prefix in KINDS:
        site.run("scancel", found[f"{prefix}cancelled"])
        eventually(lambda: _expired(site, found[f"{prefix}late"]), "its time has passed")  # noqa: B023
    site.cluster.power_off("n3")
    for prefix in KINDS:
        reach(site, f"{prefix}cancelled", phase="Failed", state="CANCELLED")
        # What does not forbid it is put back into the queue, as with sbatch.
        after = {"phase": "Pending", "state": "PENDING"} if prefix == "image-" else LOST
        reach(site, f"{prefix}lost", 120, **after)
        reach(site, f"{prefix}late", 120, phase="Failed", state="TIMEOUT")
    pod = site.pod("late-job")
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "TIMEOUT")

    def told(kind: str, field: str, name: str) -> object:
        return status(site, name, kind).get(field)

    lost = ("wlmjobs", "status", "kept-lost")
    eventually(lambda: told(*lost) == "Failed", "an image that may not be requeued has failed")
    for name, word in {"late": "FAILED", "lost": "FAILED", "cancelled": "KILLED"}.items():
        wlm = ("slurmjobs.wlm.sylabs.io", "status", f"wlm-{name}")
        eventually(lambda: told(*wlm) == "Failed", f"the wlm job {name} has failed")  # noqa: B023
        run, phase = (
            ("wlmjobs", "status", f"image-{name}"),
            "Pending" if name == "lost" else "Failed",
        )
        eventually(lambda: told(*run) == phase, f"the image {name} is {phase}")  # noqa: B023
        bridge = ("bridgejobs", "jobstatus", f"bridge-{name}")
        eventually(lambda: told(*bridge) == word, f"the bridge job {name} is {word}")  # noqa: B023


def _expired(site: Site, job: str) -> bool:
    """Slurm refuses an end in the very second of the start."""
    try:
        site.cluster.expire(job)
    except CommandFailed:
        return False
    return True


def _applied(site: Site, manifest: Obj) -> bool:
    """Right after `up` the kind may not be served yet."""
    argv = ("kubectl", "-n", site.namespace, "apply", "-f", "-")
    return site.run(*argv, input=json.dumps(manifest), check=False).returncode == 0
