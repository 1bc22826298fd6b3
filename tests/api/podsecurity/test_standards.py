"""What the levels forbid, each in upstream's own words."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.podsecurity import Standard, violations

BASELINE, RESTRICTED = Standard("baseline"), Standard("restricted")
GOOD_CONTEXT = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def spec(*contexts: dict, **more) -> dict:
    names = "abc"
    found = [{"name": names[n], "securityContext": one} for n, one in enumerate(contexts)]
    return {"containers": found or [{"name": "a"}], **more}


def told(standard: Standard, pod: dict, annotations: dict | None = None) -> list[str]:
    return violations(standard, {"annotations": annotations or {}}, pod)


def test_nothing_is_forbidden_to_the_privileged() -> None:
    assert told(Standard(), spec({"privileged": True}, hostPID=True)) == []


def test_a_hardened_pod_is_fine_at_every_level() -> None:
    assert told(BASELINE, spec(GOOD_CONTEXT)) == []
    assert told(RESTRICTED, spec(GOOD_CONTEXT)) == []
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "w", "persistentVolumeClaim": {}}]
    assert told(RESTRICTED, spec(GOOD_CONTEXT, volumes=volumes)) == []


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (spec({"privileged": True}),
         'privileged (container "a" must not set securityContext.privileged=true)'),
        (spec({"privileged": True}, {"privileged": True}),
         'privileged (containers "a", "b" must not set securityContext.privileged=true)'),
        (spec(hostNetwork=True, hostPID=True, hostIPC=True),
         "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)"),
        (spec(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
         'hostPath volumes (volume "v")'),
        (spec({"capabilities": {"add": ["CHOWN", "NET_ADMIN", "BPF"]}}),
         'non-default capabilities (container "a" must not include "BPF", "NET_ADMIN" in '
         "securityContext.capabilities.add)"),
        ({"containers": [{"name": "a", "ports": [{"hostPort": 80}, {"hostPort": 443}]}]},
         'hostPort (container "a" uses hostPorts 80, 443)'),
        (spec({"procMount": "Unmasked"}),
         'procMount (container "a" must not set securityContext.procMount to "Unmasked")'),
        (spec({"seLinuxOptions": {"type": "x_t", "user": "u"}}, securityContext={
            "seLinuxOptions": {"role": "r"}}),
         'seLinuxOptions (pod and container "a" set forbidden securityContext.seLinuxOptions: '
         'type "x_t"; user may not be set; role may not be set)'),
        (spec({"seccompProfile": {"type": "Unconfined"}}),
         'seccompProfile (container "a" must not set securityContext.seccompProfile.type to '
         '"Unconfined")'),
        (spec(securityContext={"sysctls": [{"name": "kernel.msgmax"}]}),
         "forbidden sysctls (kernel.msgmax)"),
        (spec({"windowsOptions": {"hostProcess": True}}),
         'hostProcess (container "a" must not set '
         "securityContext.windowsOptions.hostProcess=true)"),
        (spec({"appArmorProfile": {"type": "Unconfined"}}),
         'forbidden AppArmor profile (container "a" must not set AppArmor profile type to '
         '"Unconfined")'),
    ],
)  # fmt: skip
def test_the_baseline_forbids(pod, said) -> None:
    assert told(BASELINE, pod) == [said]


NO_ESCALATION = (
    'allowPrivilegeEscalation != false (container "a" must set '
    "securityContext.allowPrivilegeEscalation=false)"
)
DROP_ALL = (
    'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"])'
)
NON_ROOT = 'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)'
SECCOMP = (
    'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to '
    '"RuntimeDefault" or "Localhost")'
)


def test_a_plain_pod_is_not_restricted() -> None:
    assert told(RESTRICTED, spec()) == [NO_ESCALATION, DROP_ALL, NON_ROOT, SECCOMP]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE", "CHOWN"]}},
         'unrestricted capabilities (container "a" must not include "CHOWN" in '
         "securityContext.capabilities.add)"),
        ({"runAsNonRoot": False},
         'runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)'),
        ({"runAsUser": 0}, 'runAsUser=0 (container "a" must not set runAsUser=0)'),
    ],
)  # fmt: skip
def test_the_restricted_level_forbids(change, said) -> None:
    assert told(RESTRICTED, spec({**GOOD_CONTEXT, **change})) == [said]


def test_volumes_are_told_by_both_levels() -> None:
    volumes = [{"name": "v", "hostPath": {}}, {"name": "w", "nfs": {}}]
    assert told(RESTRICTED, spec(GOOD_CONTEXT, volumes=volumes)) == [
        'hostPath volumes (volume "v")',
        'restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")',
    ]


@pytest.mark.parametrize("version", ["v1.33", "v1.34", "latest"])
@pytest.mark.parametrize(
    "handler",
    [
        {"livenessProbe": {"httpGet": {"port": 80, "host": "127.0.0.1"}}},
        {"startupProbe": {"tcpSocket": {"port": 80, "host": "127.0.0.1"}}},
        {"lifecycle": {"preStop": {"httpGet": {"port": 80, "host": "127.0.0.1"}}}},
    ],
)
def test_probes_name_no_host_since_1_34(version: str, handler: dict[str, Any]) -> None:
    spec = {"containers": [{"name": "c", "image": "i", **handler}]}
    found = violations(Standard("baseline", version), {}, spec)
    said = 'probe or lifecycle host (container "c" uses probe or lifecycle host "127.0.0.1")'
    assert found == ([] if version == "v1.33" else [said])


def test_what_the_pod_says_holds_for_its_containers() -> None:
    context = {"runAsNonRoot": True, "seccompProfile": {"type": "Localhost"}}
    own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert told(RESTRICTED, spec(own, securityContext=context)) == []
    init = [{"name": "i"}]
    assert len(told(RESTRICTED, spec(own, securityContext=context, initContainers=init))) == 2


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v1.7", 1), ("v1.8", 2), ("v1.19", 3), ("v1.22", 4), ("v1.32", 4), ("latest", 4)],
)
def test_a_version_pins_the_standard(version, expected) -> None:
    assert len(told(Standard("restricted", version), spec())) == expected


def test_old_standards_look_at_annotations_and_newer_ones_know_more_sysctls() -> None:
    noted = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
    assert told(Standard("baseline", "v1.18"), spec(), noted) == [
        "seccompProfile (forbidden annotation "
        'seccomp.security.alpha.kubernetes.io/pod="unconfined")'
    ]
    assert told(Standard("baseline", "v1.19"), spec(), noted) == []
    tuned = spec(securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem"}]})
    assert told(Standard("baseline", "v1.31"), tuned)
    assert not told(Standard("baseline", "v1.32"), tuned)


def test_windows_pods_need_not_forbid_what_there_is_not() -> None:
    assert told(RESTRICTED, spec(os={"name": "windows"})) == [NON_ROOT]
    assert len(told(Standard("restricted", "v1.24"), spec(os={"name": "windows"}))) == 4


@pytest.mark.parametrize(("version", "is_free"), [("v1.34", False), ("v1.35", True)])
def test_a_user_namespace_of_its_own_counts_since_1_35(version: str, is_free: bool) -> None:
    contexts = {"runAsUser": 0, "procMount": "Unmasked"}
    spec = {"hostUsers": False, "containers": [{"name": "a", "securityContext": contexts}]}
    found = violations(Standard("restricted", version), {}, spec)
    named = {one.partition(" (")[0] for one in found}
    assert ({"runAsUser=0", "procMount", "runAsNonRoot != true"} & named == set()) is is_free
