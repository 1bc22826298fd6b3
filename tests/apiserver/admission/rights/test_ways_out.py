"""Orlop's own ways out of a container: each has its place among the levels of pod security."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orlop import wellknown
from orlop.api.podsecurity import Standard
from orlop.apiserver.admission.rights.pod_security import _broken
from orlop.apiserver.admission.rights.ways_out import (
    CONFINED,
    JUDGED,
    OUT,
    STANDING,
    WRITTEN,
    ways_out,
)
from orlop.extensions.registry import definitions
from orlop.slurm.translate.harmless_options import HARMLESS
from orlop.slurm.translate.sbatch_options import IGNORED, REFUSED

Obj = dict[str, Any]
S = wellknown.SLURM_PREFIX
PS = "pod-security.kubernetes.io/"
MERGE = {"Content_Type": "application/merge-patch+json"}
PODS = "/api/v1/namespaces/walled/pods"
SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_IMAGE = {"containers": [{"name": "c", "image": "busybox"}]}


def names(*images: str, kind: str = "containers") -> Obj:
    return {**_IMAGE, kind: [{"name": f"c{n}", "image": one} for n, one in enumerate(images)]}


def room(annotations: Obj, spec: Obj | None = None, count: int = 1) -> Obj:
    """The annotation of a pod whose gang keeps room for such another."""
    template = {"count": count, "metadata": {"annotations": annotations}, "spec": spec or _IMAGE}
    return {
        wellknown.GANG: "g",
        wellknown.GANG_SIZE: "1",
        wellknown.GANG_ROOM: json.dumps([template]),
    }


LEADING_OUT = [
        ({wellknown.RUNTIME_ANNOTATION: "host"}, _IMAGE, 'orlop.dev/runtime="host"'),
        ({wellknown.PRE_EXEC: "cp ~/.orlop/pki/ca.key /tmp"}, _IMAGE, "slurm-job.vk.io/pre-exec"),
        ({wellknown.SRUN_FLAGS: "--task-prolog=/x"}, _IMAGE, "slurm.orlop.dev/srun-flags"),
        ({wellknown.MPI: "pmix"}, _IMAGE, 'slurm.orlop.dev/mpi="pmix"'),
        ({wellknown.MPI: "container", S + "nodes": "2"}, _IMAGE, "--nodes=2"),
        ({S + "ntasks": "4"}, _IMAGE, "--ntasks=4"),
        ({S + "nodes": "2-8"}, _IMAGE, "--nodes=2-8"),
        ({wellknown.FLAGS: "-N2"}, _IMAGE, "--nodes=2"),
        ({"slurm-job.hpk.io/flags": "--ntasks-per-node=3"}, _IMAGE, "--ntasks-per-node=3"),
        ({"slurmjob.slinky.slurm.net/min-nodes": "3"}, _IMAGE, "--nodes=3"),
        ({S + "nodefile": "/etc/shadow"}, _IMAGE, "--nodefile"),
        ({S + "bbf": "/home/you/.orlop/kubeconfig"}, _IMAGE, "--bbf"),
        ({S + "container-mounts": "/:/host"}, _IMAGE, "--container-mounts"),
        ({S + "reboot": "true"}, _IMAGE, "--reboot"),
        ({S + "some-spank-option": "x"}, _IMAGE, "--some-spank-option"),
        ({wellknown.FLAGS: "--time=5 --propagate=ALL"}, _IMAGE, "--propagate"),
        ({wellknown.FLAGS: "--wrap='cat ~/.orlop/pki/ca.key'"}, _IMAGE, "cannot be used"),
        ({wellknown.FLAGS: "--wra='cat ~/.orlop/pki/ca.key'"}, _IMAGE, "could be --wrap"),
        ({S + "outpu": ".orlop/kubeconfig"}, _IMAGE, "could be --output"),
        ({"slurm-job/flags": "--uid=root"}, _IMAGE, "cannot be used"),
        ({}, names("host"), 'container "c0" must not use image "host"'),
        ({}, names("host", kind="initContainers"), 'must not use image "host"'),
        ({}, names("host", kind="ephemeralContainers"), 'must not use image "host"'),
        ({}, names("busybox", "/", "/home/you"), 'images "/", "/home/you"'),
        ({}, {**_IMAGE, "volumes": [{"name": "v", "image": {"reference": "/home/you"}}]},
         'volume "v" must not mount a path as an image'),
        ({}, {**_IMAGE, "volumes": [{"name": "v", "nfs": {"server": "s", "path": "/home/you"}}]},
         'volume "v" must not name an export of NFS'),
        ({S + "nodelist": "/etc/shadow"}, _IMAGE, "hosts by a file: --nodelist=/etc/shadow"),
        ({wellknown.FLAGS: "-x ./pipe"}, _IMAGE, "hosts by a file: --exclude=./pipe"),
        (room({wellknown.GANG_ROOM: "[]"}), _IMAGE, "must not have slurm.orlop.dev/gang-room"),
        (room({}, count=2_000_000_000), _IMAGE, "at most 10000 pods"),
        ({wellknown.GANG_ROOM: '[{"spec": {"containers": [5]}}]'}, _IMAGE, "cannot be read"),
        ({wellknown.GANG_ROOM: "[" * 5000}, _IMAGE, "cannot be read"),
]  # fmt: skip


@pytest.mark.parametrize(("annotations", "spec", "words"), LEADING_OUT)
@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_what_leads_out_is_refused(annotations: Obj, spec: Obj, words: str, level: str) -> None:
    pod = {"metadata": {"annotations": annotations}, "spec": spec}
    assert words in ", ".join(_broken(Standard(level), pod))
    assert not _broken(Standard("privileged"), pod)


@pytest.mark.parametrize(("annotations", "spec", "words"), LEADING_OUT)
def test_nor_is_it_asked_for_by_a_pod_that_comes_later(
    annotations: Obj, spec: Obj, words: str
) -> None:
    """What the pods of a gang's room ask for is asked for in the job of those that are there."""
    pod = {"metadata": {"annotations": room(annotations, spec)}, "spec": _IMAGE}
    found = ", ".join(ways_out(pod["metadata"], pod["spec"]))
    assert words in found or "slurm.orlop.dev/gang-room themselves" in found


@pytest.mark.parametrize(
    "annotations",
    [
        {wellknown.RUNTIME_ANNOTATION: "apptainer"},
        {wellknown.RUNTIME_ANNOTATION: "crun"},
        {wellknown.FLAGS: "--time=5 -p gpu --exclusive"},
        {S + "ntasks": "1", S + "nodes": "1"},
        {S + "output": "/dev/null", S + "chdir": "/"},  # not passed on
        {wellknown.GANG: "true", wellknown.DISTRIBUTED: "torch"},
        {wellknown.PRE_EXEC: " "},
        {"slurm-job.hpk.io/flags": "--gres=gpu:1"},
        {"else.example.com/flags": "--wrap=x"},
    ],
)
def test_what_only_asks_for_resources_is_not(annotations: Obj) -> None:
    assert ways_out({"annotations": annotations}, _IMAGE) == []


def _all_of_wellknown() -> set[str]:
    """Every name there that could be an annotation or a prefix of some."""
    found: set[str] = set()
    for value in vars(wellknown).values():
        texts = value if isinstance(value, tuple) else (value,)
        found |= {one for one in texts if isinstance(one, str) and _is_annotation(one)}
    return found


def _is_annotation(text: str) -> bool:
    domain, slash, _ = text.partition("/")
    return bool(slash) and ("." in domain or domain == "slurm-job") and " " not in text


# Labels, conditions, resources and finalizers; no annotation of a pod.
_OTHER_NAMES = {
    wellknown.POD_GROUP_LABEL, wellknown.PARTITION_LABEL, wellknown.FEATURE_LABEL_PREFIX,
    wellknown.GPU_TYPE_LABEL_PREFIX, wellknown.SWITCH_LABEL_PREFIX, wellknown.ENGINE_LABEL,
    wellknown.GRES_PREFIX, wellknown.LICENSE_PREFIX, wellknown.ALLOCATED, wellknown.NETWORK,
    wellknown.TIME_LIMIT, wellknown.ENGINE_REACHABLE, wellknown.FOLDER_PROVISIONER,
    wellknown.CLAIM_PROTECTION, wellknown.VOLUME_PROTECTION,
}  # fmt: skip


def test_every_annotation_has_its_place() -> None:
    unplaced = {name for name in _all_of_wellknown() if not name.startswith(("/", "run/"))}
    unplaced -= STANDING.keys() | _OTHER_NAMES
    assert not unplaced, (
        "say in apiserver/admission/rights/ways_out.py, and docs, what a pod may do by these"
    )
    assert set(STANDING.values()) <= {OUT, CONFINED, JUDGED, WRITTEN}


def test_people_are_told_of_every_way_out() -> None:
    page = (Path(__file__).parents[4] / "docs/reference/quotas.md").read_text()
    judged = {name for name, place in STANDING.items() if place in (OUT, JUDGED)}
    aliases = {*wellknown.FLAGS_ALIASES, *wellknown.MPI_FLAGS_ALIASES,
               *wellknown.OPTION_ALIAS_PREFIXES, S}  # fmt: skip
    assert [name for name in sorted(judged - aliases) if f"`{name}" not in page] == []
    assert "those of earlier systems" in page


def test_no_option_is_both_harmless_and_refused() -> None:
    assert not HARMLESS & (REFUSED.keys() | IGNORED.keys())


# On a running server


def walled(pod: Any, name: str = "a", **annotations: str) -> Obj:
    made: Obj = pod(name, annotations=annotations)
    made["metadata"]["namespace"] = "walled"
    made["spec"]["containers"][0]["securityContext"] = SAFE
    return made


@pytest.fixture(params=["baseline", "restricted"])
async def namespace(http, request) -> str:
    labels = {PS + "enforce": request.param}
    body = {"metadata": {"name": "walled", "labels": labels}}
    assert (await http("POST", "/api/v1/namespaces", body)).code == 201
    return str(request.param)


async def test_a_pod_on_the_node_itself_is_refused(http, pod, namespace) -> None:
    reply = await http("POST", PODS, walled(pod, **{wellknown.RUNTIME_ANNOTATION: "host"}))
    assert reply.code == 403
    assert f'violates PodSecurity "{namespace}:latest": no container' in reply.json["message"]
    made = walled(pod)
    made["spec"]["containers"][0]["image"] = "host"
    assert (await http("POST", PODS, made)).code == 403
    assert (await http("POST", PODS, walled(pod))).code == 201


@pytest.mark.parametrize(
    ("path", "patch"),
    [
        ("", {"metadata": {"annotations": {wellknown.RUNTIME_ANNOTATION: "host"}}}),
        ("", {"metadata": {"annotations": {wellknown.PRE_EXEC: "id"}}}),
        ("", {"metadata": {"annotations": {wellknown.FLAGS: "--nodefile=/x"}}}),
        ("", {"spec": {"containers": [
            {"name": "main", "image": "host", "securityContext": SAFE}]}}),
        ("/ephemeralcontainers", {"spec": {"ephemeralContainers": [
            {"name": "e", "image": "host", "securityContext": SAFE}]}}),
        ("/ephemeralcontainers", {"spec": {"ephemeralContainers": [
            {"name": "e", "image": "/", "securityContext": SAFE}]}}),
    ],
)  # fmt: skip
async def test_nor_does_a_pod_become_one(http, pod, namespace, path: str, patch: Obj) -> None:
    made = await http("POST", PODS, walled(pod))
    strategic = {"Content_Type": "application/strategic-merge-patch+json"}
    reply = await http("PATCH", f"{PODS}/a{path}", json.dumps(patch), **strategic)
    assert (reply.code, "violates PodSecurity" in reply.text) == (403, True)
    assert (await http("GET", f"{PODS}/a")).json["spec"] == made.json["spec"]


async def test_nor_by_its_status_or_with_its_node(http, local, pod, namespace) -> None:
    await http("POST", PODS, walled(pod))
    await http("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    out = {wellknown.RUNTIME_ANNOTATION: "host", "else": "kept"}
    patch = json.dumps({"metadata": {"annotations": out}})
    reply = await http("PATCH", f"{PODS}/a/status", patch, **MERGE)
    assert reply.json["metadata"]["annotations"] == {"else": "kept"}
    binding = {"metadata": {"name": "a", "annotations": out}, "target": {"name": "n1"}}
    reply = await http("POST", f"{PODS}/a/binding", binding)
    assert (reply.code, "may not set no container" in reply.text) == (403, True)
    for name in (wellknown.JOB_ID, wellknown.MIRROR, wellknown.GROUP, wellknown.PRE_EXEC):
        bad = {"metadata": {"name": "a", "annotations": {name: "1"}}}
        assert (await http("POST", f"{PODS}/a/binding", {**binding, **bad})).code == 403
    told = {wellknown.HOSTS: "x", S + "exclusive": "true", S + "constraint": "ib"}
    hosts = {"metadata": {"name": "a", "annotations": told}}  # as our scheduler says it
    assert (await http("POST", f"{PODS}/a/binding", {**binding, **hosts})).code == 201
    found = (await http("GET", f"{PODS}/a")).json["metadata"]["annotations"]
    assert found == {"else": "kept", **told}


async def test_templates_are_warned_of(http, pod, namespace) -> None:
    template = walled(pod, **{wellknown.RUNTIME_ANNOTATION: "host"})
    annotations = template["metadata"]["annotations"]
    template = {"spec": template["spec"], "metadata": {"annotations": annotations}}
    template["metadata"]["labels"] = {"a": "b"}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = {"metadata": {"name": "d"}, "spec": spec}
    reply = await http("POST", "/apis/apps/v1/namespaces/walled/deployments", body)
    assert reply.code == 201, reply.text
    assert "orlop.dev/runtime" in reply.headers["Warning"]


@pytest.mark.parametrize(
    ("definition", "path", "spec"),
    [
        ("slurmjobs.slurm.orlop.dev", "slurm.orlop.dev/v1", {"script": "#!/bin/sh\nid\n"}),
        ("slurmjobs.wlm.sylabs.io", "wlm.sylabs.io/v1alpha1", {"batch": "#!/bin/sh\nid\n"}),
    ],
)
async def test_programs_outside_of_containers_have_no_place_there(
    http, namespace, definition: str, path: str, spec: Obj
) -> None:
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await http("POST", crds, definitions()[definition].document())).code == 201
    job = {"metadata": {"name": "j"}, "spec": spec}
    for _ in range(100):
        reply = await http("POST", f"/apis/{path}/namespaces/walled/slurmjobs", job)
        if reply.code != 404:
            break
    assert (reply.code, "outside of any container" in reply.text) == (403, True)
    reply = await http("POST", f"/apis/{path}/namespaces/default/slurmjobs", job)
    assert reply.code == 201, reply.text
