"""Says which fields of a pod are met, which are not yet, and which cannot be: one table of all.

Asked before a pod's plan is made. A field that is set and not met is not passed over in silence:
the harmless ones are named in one Warning event, those that would make the pod run wrongly refuse
it. A field that the table does not know at all is named too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...agent.container.capabilities import ALL, NAMES, plain
from ...agent.pod.sysctls import can_be_set
from ...api.objects import Obj


@dataclass(frozen=True, slots=True)
class Rule:
    """The treatment of a field: met where `applies` is False; else warned of, or refused."""

    words: str = ""
    refuses: bool = False
    applies: Callable[[Any], bool] = bool


@dataclass(frozen=True, slots=True)
class Finding:
    """A field that is not met: where it stands, why not, and whether the pod can run without."""

    path: str
    words: str
    refuses: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.words}"


Table = Mapping[str, "Rule | Nested"]


@dataclass(frozen=True, slots=True)
class Nested:
    """A field that holds further fields, once or in a list."""

    table: Table


MET = Rule(applies=lambda value: False)


def _warn(words: str, applies: Callable[[Any], bool] = bool) -> Rule:
    return Rule(words, False, applies)


def _refuse(words: str, applies: Callable[[Any], bool] = bool) -> Rule:
    return Rule(words, True, applies)


def _is_other_than(*values: object) -> Callable[[Any], bool]:
    return lambda value: value not in values


def _has_unknown_capability(asked: Obj) -> bool:
    names = [*(asked.get("add") or []), *(asked.get("drop") or [])]
    return any(plain(name) not in (*NAMES, ALL) for name in names)


def _all_met(*names: str) -> dict[str, Rule | Nested]:
    return dict.fromkeys(names, MET)


_NO_ROOT = "a Slurm job has no privileges on its node to give away"
_NO_VOLUME = "this kind of volume is not supported yet; hostPath reaches what the nodes mount"

_SECURITY: Table = {
    **_all_met("runAsUser", "runAsGroup", "runAsNonRoot", "readOnlyRootFilesystem"),
    "privileged": _refuse(f"privileged containers cannot be had: {_NO_ROOT}"),
    "allowPrivilegeEscalation": _warn(
        "programs never gain privileges here (no_new_privs)", _is_other_than(False)
    ),
    "capabilities": _refuse(
        f"expected names of Linux capabilities, such as {NAMES[0]}", _has_unknown_capability
    ),
    "seccompProfile": MET,
    "appArmorProfile": _warn("not applied", lambda p: p.get("type") != "Unconfined"),
    "seLinuxOptions": _warn("not applied"),
    "procMount": MET,
    "windowsOptions": _warn("nodes are Linux"),
}

_POD_SECURITY: Table = {
    **_all_met("runAsUser", "runAsGroup", "runAsNonRoot", "supplementalGroups"),
    **_all_met("supplementalGroupsPolicy", "fsGroup"),
    "fsGroupChangePolicy": MET,  # volumes are made for the pod: there is nothing to change
    "seccompProfile": _SECURITY["seccompProfile"],
    "appArmorProfile": _SECURITY["appArmorProfile"],
    "seLinuxOptions": _SECURITY["seLinuxOptions"],
    "seLinuxChangePolicy": _warn("not applied"),
    "sysctls": _refuse(
        "only those of an ipc namespace can be set (kernel.shm*, kernel.msg*, kernel.sem, "
        f"fs.mqueue.*): {_NO_ROOT}",
        lambda asked: not all(can_be_set(one.get("name", "")) for one in asked),
    ),
    "windowsOptions": _SECURITY["windowsOptions"],
}

_ENV = Nested(
    {
        **_all_met("name", "value"),
        "valueFrom": Nested(
            {
                **_all_met("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"),
                **_all_met("fileKeyRef"),
            }
        ),
    }
)

_MOUNT: Table = {
    **_all_met("name", "mountPath", "readOnly", "subPath", "subPathExpr"),
    "mountPropagation": _refuse(
        f"what a container mounts cannot reach its node: {_NO_ROOT}",
        lambda kind: kind == "Bidirectional",
    ),
    "recursiveReadOnly": MET,
    "bindMountOptions": _warn("not applied"),
}

_RESOURCES: Table = {
    "claims": _refuse("dynamic resources cannot be claimed; ask by slurm.orlop.dev/gres instead"),
    "limits": _warn(
        "limits of huge pages are not enforced",
        lambda limits: any(name.startswith("hugepages-") for name in limits),
    ),
    "requests": MET,
}

_HTTP_GET: Table = {
    **_all_met("port", "host", "path", "scheme", "httpHeaders"),
    "protocol": _warn("asked by HTTP/1.1", _is_other_than("", "HTTP1", "HTTP/1.1")),
}
_PROBE = Nested(
    {
        **_all_met("exec", "tcpSocket", "grpc", "initialDelaySeconds", "periodSeconds"),
        **_all_met("timeoutSeconds", "successThreshold", "failureThreshold"),
        "httpGet": Nested(_HTTP_GET),
        "terminationGracePeriodSeconds": MET,
    }
)
_HOOK = Nested({**_all_met("exec", "tcpSocket", "sleep"), "httpGet": Nested(_HTTP_GET)})

_CONTAINER: Table = {
    **_all_met("name", "image", "imagePullPolicy", "command", "args", "envFrom", "workingDir"),
    **_all_met("terminationMessagePath", "terminationMessagePolicy", "stdin", "stdinOnce", "tty"),
    "env": _ENV,
    "ports": Nested(
        {
            **_all_met("name", "containerPort", "protocol", "hostIP"),
            "hostPort": _warn(
                "ports below 1024 are open only on nodes that let ordinary users have them",
                lambda port: port < 1024,
            ),
        }
    ),
    **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), _PROBE),
    "lifecycle": Nested({"postStart": _HOOK, "preStop": _HOOK, "stopSignal": MET}),
    "resizePolicy": MET,  # of interest only where resources change, and those of a job never do
    "resources": Nested(_RESOURCES),
    **_all_met("restartPolicy", "restartPolicyRules"),
    "securityContext": Nested(_SECURITY),
    "volumeDevices": _refuse("block devices cannot be had without a volume of that kind"),
    "volumeMounts": Nested(_MOUNT),
}

_PROJECTION: Table = {
    **_all_met("configMap", "secret", "downwardAPI", "serviceAccountToken", "clusterTrustBundle"),
    "podCertificate": _refuse("certificates of pods are not issued yet"),
}

_VOLUME: Table = {
    **_all_met("name", "configMap", "secret", "downwardAPI", "hostPath"),
    **_all_met("persistentVolumeClaim", "ephemeral", "image", "nfs"),
    "emptyDir": Nested(
        {
            "sizeLimit": MET,
            "medium": _refuse(
                "expected an empty medium, Memory, HugePages or HugePages-<size>",
                lambda medium: medium not in ("", "Memory") and not medium.startswith("HugePages"),
            ),
            "mode": _warn("not applied"),
        }
    ),
    "projected": Nested(
        {**_all_met("defaultMode", "defaultUser"), "sources": Nested(_PROJECTION)}
    ),
    **{
        kind: _refuse(_NO_VOLUME, lambda value: value is not None)
        for kind in (
            "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi",
            "fc", "flexVolume", "flocker", "gcePersistentDisk", "gitRepo",
            "glusterfs", "iscsi", "photonPersistentDisk", "portworxVolume",
            "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
        )
    },
}  # fmt: skip

SPEC: Table = {
    # The scheduler's, the API server's, the controllers' and the engine's fields.
    **_all_met("nodeName", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"),
    **_all_met("schedulerName", "schedulingGates", "priority", "priorityClassName", "overhead"),
    **_all_met("preemptionPolicy", "serviceAccount", "serviceAccountName"),
    "evictionResponders": _warn("pods are evicted by their own grace; nobody is asked before"),
    **_all_met("automountServiceAccountToken", "enableServiceLinks"),
    **_all_met("restartPolicy", "terminationGracePeriodSeconds", "activeDeadlineSeconds"),
    **_all_met("hostname", "hostnameOverride", "setHostnameAsFQDN", "hostAliases"),
    **_all_met("imagePullSecrets", "readinessGates", "hostNetwork"),
    "hostUsers": _warn("pods always have a user namespace of their own", lambda v: v is True),
    "containers": Nested(_CONTAINER),
    "initContainers": Nested(_CONTAINER),
    "ephemeralContainers": Nested({**_CONTAINER, "targetContainerName": MET}),
    "volumes": Nested(_VOLUME),
    "securityContext": Nested(_POD_SECURITY),
    **_all_met("dnsPolicy", "dnsConfig", "subdomain"),
    **_all_met("hostPID", "hostIPC", "shareProcessNamespace"),
    "os": _refuse("nodes are Linux", lambda os: os.get("name") != "linux"),
    "resourceClaims": _RESOURCES["claims"],
    "resources": Nested(_RESOURCES),
    "runtimeClassName": _warn("not applied; orlop.dev/runtime chooses the runtime"),
    **_all_met("schedulingGroup"),
}


def unsupported(pod: Obj) -> list[Finding]:
    """Return every field of the pod that is set and not met, in the order of its spec."""
    found = _walk(pod["spec"], SPEC, "spec")
    if pod["spec"].get("hostNetwork"):  # its ports are the node's, and the API server says so
        return [finding for finding in found if not finding.path.endswith(".hostPort")]
    return list(found)


def fields() -> Iterator[tuple[str, Rule]]:
    """Yield every field of the table and what becomes of it, for the reference."""
    yield from _fields(SPEC, "")


def _fields(table: Table, path: str) -> Iterator[tuple[str, Rule]]:
    for name, entry in table.items():
        if isinstance(entry, Nested):
            yield from _fields(entry.table, f"{path}{name}.")
        else:
            yield f"{path}{name}", entry


def _walk(obj: Obj, table: Table, path: str) -> Iterator[Finding]:
    for name, value in obj.items():
        entry = table.get(name)
        here = f"{path}.{name}"
        if entry is None:
            yield Finding(here, "unknown to this version of Orlop")
        elif isinstance(entry, Nested):
            yield from _walk_nested(value, entry, here)
        elif value is not None and entry.applies(value):
            yield Finding(here, entry.words, entry.refuses)


def _walk_nested(value: Any, entry: Nested, path: str) -> Iterator[Finding]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            # Names tell people more than numbers do.
            label = f'"{item["name"]}"' if "name" in item else str(index)
            yield from _walk(item, entry.table, f"{path}[{label}]")
    elif value is not None:
        yield from _walk(value, entry.table, path)
