"""Runs SlurmJobs and WlmJobs of wlm-operator (wlm.sylabs.io/v1alpha1) as SlurmJobs of ours.

Run by the controller manager while their definitions, and that of SlurmJobs, are ours. A batch
script is handed on as it is; an image is run by the site's apptainer or singularity on every node
that is asked for. `status.status` has the phases that wlm-operator's pods have. Node selectors on
partitions and features of ours are honoured; those on labels that only wlm-operator's virtual nodes
had are ignored.
"""

from __future__ import annotations

import math
import shlex

from ...api.objects import Obj
from ...errors import ConfigError
from ...wellknown import FEATURE_LABEL_PREFIX, PARTITION_LABEL
from ..bundled import bundled_kind
from ..slurmjob.adapter import Adapter, job_status
from ..slurmjob.kinds import ENDED

WLM_SLURM_JOB = bundled_kind("wlm.sylabs.io", "v1alpha1", "SlurmJob", "slurmjobs")
WLM_JOB = bundled_kind("wlm.sylabs.io", "v1alpha1", "WlmJob", "wlmjobs")

RESULTS, PREPARED = "results", "prepared"
_PARTITIONS = (PARTITION_LABEL, "wlm.sylabs.io/partition", "kubernetes.io/hostname")
_FLAGS = {
    "cleanEnv": "--cleanenv",
    "fakeRoot": "--fakeroot",
    "ipc": "--ipc",
    "pid": "--pid",
    "noPrivs": "--no-privs",
    "writable": "--writable",
}


class _Wlm(Adapter):
    def status_of(self, obj: Obj, job: Obj | None) -> Obj:
        return {"status": job_status(job).get("phase") or "Pending"}

    def is_over(self, obj: Obj) -> bool:
        return (obj.get("status") or {}).get("status") in ENDED

    def failed(self, obj: Obj, words: str) -> Obj:
        return {"status": "Failed"}


class WlmSlurmJobs(_Wlm):
    name = "wlm-slurm-job"
    kind = WLM_SLURM_JOB

    async def spec_of(self, obj: Obj) -> Obj:
        spec = obj["spec"]
        return {
            "script": spec["batch"],
            "options": _selected(spec.get("nodeSelector") or {}),
            **_files(spec),
        }


class WlmJobs(_Wlm):
    name = "wlm-job"
    kind = WLM_JOB

    async def spec_of(self, obj: Obj) -> Obj:
        spec = obj["spec"]
        options = {
            **_resources(spec.get("resources") or {}),
            **_selected(spec.get("nodeSelector") or {}),
        }
        return {"script": container_script(spec), "options": options, **_files(spec)}


def container_script(spec: Obj) -> str:
    """Return a script that runs the image once on every node."""
    options = spec.get("options") or {}
    flags = [flag for name, flag in _FLAGS.items() if options.get(name)]
    flags += [f"--app={options['app']}"] if options.get("app") else []
    flags += [f"--hostname={options['hostName']}"] if options.get("hostName") else []
    flags += [f"--bind={bind}" for bind in options.get("binds") or []]
    image = spec["image"]
    lines = [
        "#!/bin/bash",
        "runtime=$(command -v apptainer || command -v singularity)",
        '[ -n "$runtime" ] || { echo "no apptainer or singularity in PATH" >&2; exit 127; }',
    ]
    if image.startswith("library://") and options.get("allowUnsigned"):
        # `run` takes no such flag: it is for pulling.
        lines.append(
            f'"$runtime" pull --force --allow-unsigned image.sif {shlex.quote(image)} || exit'
        )
        image = "image.sif"
    words = shlex.join([*flags, image])
    lines.append(f'exec srun --ntasks-per-node=1 "$runtime" run {words}')
    return "\n".join(lines) + "\n"


def _resources(resources: Obj) -> Obj:
    """Return the resources: nodes, CPUs and MB a node, and seconds."""
    options: Obj = {}
    if resources.get("nodes"):
        options["nodes"] = resources["nodes"]
    options["ntasks-per-node"] = 1
    if resources.get("cpuPerNode"):
        options["cpus-per-task"] = resources["cpuPerNode"]
    if resources.get("memPerNode"):
        options["mem"] = f"{resources['memPerNode']}M"
    if resources.get("wallTime"):
        options["time"] = math.ceil(resources["wallTime"] / 60)
    return options


def _selected(selector: dict[str, str]) -> Obj:
    options: Obj = {}
    features = []
    for label, value in selector.items():
        if label in _PARTITIONS:
            options["partition"] = value
        elif label.startswith(FEATURE_LABEL_PREFIX):
            features.append(label.removeprefix(FEATURE_LABEL_PREFIX))
    if features:
        options["constraint"] = "&".join(features)
    return options


def _files(spec: Obj) -> Obj:
    """Return what is copied in before the job, and out after it."""
    volumes, files = [], {}
    results, prepare = spec.get("results"), spec.get("prepare")
    if results:
        volumes.append(_volume(results["mount"], RESULTS))
        files["results"] = [{"path": results["from"], "volume": RESULTS}]
    if prepare:
        volumes.append(_volume(prepare["mount"], PREPARED))
        files["inputs"] = [{"volume": PREPARED, "path": ".", "to": prepare["to"]}]
    return {**({"volumes": volumes} if volumes else {}), **files}


def _volume(mount: Obj, name: str) -> Obj:
    """Return a pod's volume under a name of ours, as far as a job of Slurm's own can have it."""
    sources = {key: value for key, value in mount.items() if key != "name"}
    known = {"hostPath", "persistentVolumeClaim", "configMap", "secret", "emptyDir"}
    if len(sources) != 1 or not sources.keys() <= known:
        found = ", ".join(sorted(sources)) or "nothing"
        raise ConfigError(f"{name}: expected a volume of one of {sorted(known)}, found {found}")
    return {"name": name, **sources}
