"""Namespaces ask for security levels; pods are held to them, workloads warned of."""

from __future__ import annotations

import json

import pytest

from orlop import errors
from orlop.api import kinds
from orlop.api.objects import Key
from orlop.api.podsecurity import PodSecurityLevels, Standard
from orlop.apiserver.admission import Admission
from orlop.apiserver.admission.rights.pod_security import PodSecurity, PodSecurityConfig, config_of
from orlop.settings import PodSecuritySettings

P = "pod-security.kubernetes.io/"
NS = "/api/v1/namespaces/safe"


@pytest.fixture
async def safe(local) -> None:
    labels = {P + "enforce": "baseline", P + "warn": "restricted"}
    await local.create(kinds.NAMESPACE, {"metadata": {"name": "safe", "labels": labels}})


def labelled(level: str) -> str:
    return json.dumps({"metadata": {"labels": {P + "enforce": level}}})


def privileged(pod, name: str = "a") -> dict:
    made = pod(name, namespace="safe")
    made["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    return made


async def test_a_pod_that_does_what_is_forbidden_is_refused(api, pod, safe) -> None:
    with pytest.raises(errors.Forbidden) as refused:
        await api.create(kinds.POD, privileged(pod))
    assert refused.value.message == (
        'pods "a" is forbidden: violates PodSecurity "baseline:latest": privileged (container '
        '"main" must not set securityContext.privileged=true)'
    )


async def test_one_that_is_only_warned_of_is_made(http, pod, safe) -> None:
    reply = await http("POST", f"{NS}/pods", pod("a", namespace="safe"))
    assert reply.code == 201
    warning = reply.headers.getall("Warning")[0]
    assert 'would violate PodSecurity \\"restricted:latest\\": allowPrivilegeEscalation' in warning


async def test_a_workload_is_warned_of_and_made(http, pod, safe) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": privileged(pod)["spec"]}
    job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": dict(template["spec"])}}}
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    cron = {"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": {
        "spec": job["spec"]}}}  # fmt: skip
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
                                                      "template": template}}  # fmt: skip
    for path, body in (("apps/v1/namespaces/safe/deployments", deployment),
                       ("batch/v1/namespaces/safe/jobs", job),
                       ("batch/v1/namespaces/safe/cronjobs", cron)):  # fmt: skip
        reply = await http("POST", f"/apis/{path}", body)
        assert reply.code == 201, reply.text
        assert "privileged (container" in reply.headers.getall("Warning")[0]


async def test_labels_must_be_readable_and_existing_pods_are_told_of(http, local, pod) -> None:
    await local.create(kinds.NAMESPACE, {"metadata": {"name": "safe"}})
    for name in ("a", "b"):
        await local.create(kinds.POD, privileged(pod, name))
    merge = {"Content_Type": "application/merge-patch+json"}
    reply = await http("PATCH", NS, labelled("tight"), **merge)
    assert reply.code == 422
    assert reply.json["details"]["causes"][0]["field"] == f"metadata.labels[{P}enforce]"
    reply = await http("PATCH", NS, labelled("baseline"), **merge)
    assert reply.code == 200
    assert [one.partition(" - ")[2] for one in reply.headers.getall("Warning")] == [
        '"existing pods in namespace \\"safe\\" violate the new PodSecurity enforce level '
        '\\"baseline:latest\\""',
        '"a (and 1 other pod): privileged"',
    ]


async def test_an_update_that_does_not_matter_is_let(local, pod) -> None:
    await local.create(kinds.NAMESPACE, {"metadata": {"name": "safe"}})
    made = await local.create(kinds.POD, privileged(pod))
    labels = {P + "enforce": "restricted"}
    await local.patch(kinds.NAMESPACE, Key("", "safe"), {"metadata": {"labels": labels}})
    made["metadata"]["labels"] = {"x": "y"}
    await local.update(kinds.POD, made)
    other = await local.get(kinds.POD, Key("safe", "a"))
    other["spec"]["containers"][0]["image"] = "another"
    with pytest.raises(errors.Forbidden, match="violates PodSecurity"):
        await local.update(kinds.POD, other)
    made = await local.get(kinds.POD, Key("safe", "a"))
    made["metadata"]["annotations"] = {"container.apparmor.security.beta.kubernetes.io/main": "x"}
    with pytest.raises(errors.Forbidden, match="violates PodSecurity"):
        await local.update(kinds.POD, made)


async def test_some_are_not_asked(site, local, pod) -> None:
    strict = PodSecurityLevels(Standard("restricted"), Standard(), Standard())
    config = PodSecurityConfig(
        strict, exempt_namespaces=("safe",), exempt_users=("root",), exempt_runtime_classes=("vm",)
    )
    site.server.registry.admission = Admission([PodSecurity(site.store, config)])
    await local.create(kinds.NAMESPACE, {"metadata": {"name": "safe"}})
    await local.create(kinds.POD, privileged(pod))
    with pytest.raises(errors.Forbidden, match='violates PodSecurity "restricted:latest"'):
        await local.create(kinds.POD, pod("a"))
    await site.server.client("root", ["system:masters"]).create(kinds.POD, pod("a"))
    virtual = pod("b")
    virtual["spec"]["runtimeClassName"] = "vm"
    await local.create(kinds.POD, virtual)


def test_the_configuration_says_levels_and_versions() -> None:
    made = config_of(PodSecuritySettings(enforce="baseline:v1.30", exempt_users=["root"]))
    assert [str(one) for one in made.defaults] == [
        "baseline:v1.30",
        "privileged:latest",
        "privileged:latest",
    ]
    assert made.exempt_users == ("root",)
    with pytest.raises(errors.ConfigError, match="must be one of privileged"):
        config_of(PodSecuritySettings(warn="strict"))
