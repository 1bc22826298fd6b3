"""Pods that set every field there is, and what becomes of them: plan, job, node, conditions.

For `test_every_field`, which takes one field out at a time and wants to see a difference.
"""

from __future__ import annotations

import ast
import base64
import copy
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import orlop.agent
from orlop import errors
from orlop.api import gangs, strategy
from orlop.api.kinds import POD
from orlop.client.storage import claims_of
from orlop.controllers.nodes import taint_eviction
from orlop.kubelet.planning.network import ClusterNetwork, network_key
from orlop.kubelet.planning.plan import Inputs, Site, check, make_ephemeral, make_plan
from orlop.kubelet.planning.refusal import Refusal
from orlop.kubelet.planning.sources import Sources, TokenWish
from orlop.kubelet.planning.users import Accounts
from orlop.kubelet.status.conditions import containers_ready, ready
from orlop.network.ranges import Ranges
from orlop.settings import NetworkSettings, SlurmSettings
from orlop.slurm.translate import job
from tests.scheduler.clusters import ZONE, decided, placed
from tests.scheduler.nodes import a_node

from .objects import NODE, FakeImage, a_container, a_pod

Obj = dict[str, Any]
AGENT = Path(orlop.agent.__file__).parent
# Who reads probes and hooks, which the plan has as the pod has them.
HANDLERS = ("probes", "hooks", "restartPolicyRules")
READERS = ("probes/handlers", "plan", "probes/prober", "probes/network")
NETWORK = ClusterNetwork(Ranges.of(NetworkSettings()), network_key(b"secret"))
SITE = Site("c", Path("/h/kubelet.json"), Path("/h/ca.crt"), network=NETWORK)
JOBS = job.Site(SlurmSettings(priority_classes={"high": ["--nice=5"]}), "c")
IMAGES = {"busybox": FakeImage(user="app"), "host": FakeImage("host", "", None, cmd=[])}
ACCOUNTS = Accounts("app:x:5:5::/:/bin/sh\n", "app:x:5:\nmore:x:6:app\n")
PEM = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"
SERVICE = {
    "metadata": {"name": "links", "namespace": "default"},
    "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 80}]},
}


def outcome(pod: Obj) -> list[object]:
    """All that is made of a pod, as far as it is decided before it runs."""
    return [_of(look, pod) for look in (_wishes, _plan, _ephemeral, _job, _place, _marks, _status)]


def _of(look: Callable[[Obj], object], pod: Obj) -> object:
    try:
        return look(pod)
    except (Refusal, errors.Error, LookupError, TypeError, StopIteration) as error:
        return repr(error), str(error)


def _wishes(pod: Obj) -> object:
    return check(pod)


def _inputs() -> Inputs:
    key = base64.b64encode(b"k").decode()
    bundle = {"signerName": "example.com/s", "trustBundle": PEM}
    sources = Sources(
        "default",
        {"settings": {"data": {"a": "1", "b": "2"}}},
        {"vault": {"data": {"a": key, "b": key}}},
        {TokenWish("", 3600): "t", TokenWish("vault", 7200): "v", TokenWish("vault", 3600): "w"},
        {"claim": {"metadata": {"name": "pv"}, "spec": {"hostPath": {"path": "/data"}}},
         "own": {"metadata": {"name": "pv"}, "spec": {"hostPath": {"path": "/own"}}}},
        {"image": "/images/models"},
        [
            {"metadata": {"name": "roots", "labels": {"x": "y"}}, "spec": bundle},
            {"metadata": {"name": "more"}, "spec": bundle | {"trustBundle": PEM.replace("Q", "R")}},
        ],
    )  # fmt: skip
    profiles = {"p.json": {"defaultAction": "SCMP_ACT_ALLOW"}}
    accounts = {"busybox": ACCOUNTS}
    return Inputs(
        IMAGES, NODE, sources, accounts, "10.244.1.2", services=[SERVICE], profiles=profiles
    )


def _plan(pod: Obj) -> object:
    return _read(make_plan(pod, SITE, _inputs()), _words(tuple(_modules())))


def _ephemeral(pod: Obj) -> object:
    added = pod["spec"].get("ephemeralContainers") or []
    words = _words(tuple(_modules()))
    return [_read(make_ephemeral(pod, one, SITE, _inputs()), words) for one in added]


def _modules() -> Iterator[str]:
    for path in sorted(AGENT.rglob("*.py")):
        yield str(path.relative_to(AGENT).with_suffix(""))


@cache
def _words(modules: tuple[str, ...]) -> frozenset[str]:
    """The words that these modules of the agent know: what they do not, they cannot read."""
    trees = [ast.parse((AGENT / f"{name}.py").read_text()) for name in modules]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return frozenset(node.value for node in nodes if isinstance(node.value, str))


def _read(value: object, words: frozenset[str]) -> object:
    """The part of a plan that its reader knows the names of; variables are nobody's names."""
    if isinstance(value, list):
        return [_read(one, words) for one in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, one in value.items():
        if name in HANDLERS:
            found[name] = _kinds(one) if isinstance(one, dict) else _read(one, _words(READERS))
        elif name in words:
            found[name] = _read(one, words)
    return found


def _kinds(handlers: Obj) -> Obj:
    """Probes and hooks by what they are."""
    return {kind: _read(one, _words(READERS)) for kind, one in handlers.items()}


def _job(pod: Obj) -> object:
    return job.job_spec(pod, "main", "/f", ("agent",), JOBS)


def _place(pod: Obj) -> object:
    """Two nodes with their pods, one of which has no room but for the important."""
    unbound = {**pod, "spec": {**pod["spec"], "nodeName": ""}}
    found = decided(unbound, NODES, *THERE, namespaces={"default": {}, "other": {"team": "x"}})
    name = found.node["metadata"]["name"] if found.node else None
    return name, found.message, found.plan


def _marks(pod: Obj) -> object:
    evicting = [{"key": "k", "value": "v", "effect": "NoExecute"}]
    seconds = _of(lambda one: taint_eviction._seconds(one, evicting), pod)
    return gangs.keys_of(pod), seconds, list(claims_of(pod))


def _status(pod: Obj) -> object:
    statuses = [{"name": one["name"], "ready": True} for one in pod["spec"]["containers"]]
    inits = [{"name": one["name"], "ready": True} for one in pod["spec"].get("initContainers", [])]
    made = copy.deepcopy(pod)
    strategy.prepare_for_create(POD, made, now=0.0, uid="u")
    return made["status"], ready(pod, containers_ready(pod, statuses + inits, "Running"))


NODES = [
    a_node("a", partition=None, labels={ZONE: "a"}, cpu="16"),
    a_node("b", partition=None, labels={ZONE: "b"}, cpu="8"),
]
DATABASE = {"app": "db", "version": "1"}
THERE = [
    placed("near", "b", labels=DATABASE, requests={"cpu": "1"}),
    placed("web", "a", labels={"app": "web"}, requests={"cpu": "1"}),
    placed("far", "a", labels={"app": "db"}, namespace="other"),
]


def http(**more: Any) -> Obj:
    header = {"name": "X", "value": "y"}
    asked = {"port": "web", "host": "h", "path": "/p", "scheme": "HTTPS", "httpHeaders": [header]}
    return {"httpGet": {**asked, **more}}


def probe(handler: Obj) -> Obj:
    return {
        **handler,
        "initialDelaySeconds": 2,
        "periodSeconds": 3,
        "timeoutSeconds": 4,
        "successThreshold": 5,
        "failureThreshold": 6,
        "terminationGracePeriodSeconds": 7,
    }


def refers(name: str, **source: Obj) -> Obj:
    return {"name": name, "valueFrom": source}


OF_CPU = {"resource": "limits.cpu", "containerName": "side", "divisor": "1m"}
ENV = [
    {"name": "PLAIN", "value": "v"},
    refers("FIELD", fieldRef={"fieldPath": "metadata.name"}),
    refers("AMOUNT", resourceFieldRef=OF_CPU),
    refers("MAP", configMapKeyRef={"name": "settings", "key": "a"}),
    refers("NO_MAP", configMapKeyRef={"name": "none", "key": "a", "optional": True}),
    refers("SECRET", secretKeyRef={"name": "vault", "key": "a"}),
    refers("NO_SECRET", secretKeyRef={"name": "none", "key": "a", "optional": True}),
    refers("FILE", fileKeyRef={"volumeName": "empty", "path": "p", "key": "k", "optional": True}),
]
ENV_FROM = [
    {"prefix": "M_", "configMapRef": {"name": "settings"}},
    {"configMapRef": {"name": "none", "optional": True}},
    {"prefix": "S_", "secretRef": {"name": "vault"}},
    {"secretRef": {"name": "none", "optional": True}},
]
MOUNTS = [
    {"name": "empty", "mountPath": "/a", "subPath": "sub"},
    {"name": "empty", "mountPath": "/b", "subPathExpr": "$(PLAIN)"},
    {"name": "host", "mountPath": "/c", "mountPropagation": "HostToContainer"},
    {"name": "host", "mountPath": "/d", "readOnly": True, "recursiveReadOnly": "Enabled"},
]
SECURITY = {
    "runAsUser": 11,
    "runAsGroup": 12,
    "readOnlyRootFilesystem": True,
    "capabilities": {"add": ["SYS_PTRACE"], "drop": ["CHOWN"]},
    "seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"},
    "procMount": "Unmasked",
}
RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}


def full_container() -> Obj:
    return a_container(
        command=["run"],
        args=["$(PLAIN)"],
        env=ENV,
        envFrom=ENV_FROM,
        lifecycle={
            "postStart": http(),
            "preStop": {"tcpSocket": {"port": "web", "host": "h"}},
            "stopSignal": "SIGUSR1",
        },
        livenessProbe=probe(http()),
        ports=[
            {"name": "web", "containerPort": 80},
            {"containerPort": 53, "protocol": "UDP", "hostPort": 5353, "hostIP": "10.0.0.9"},
        ],
        readinessProbe=probe({"grpc": {"port": 81, "service": "s", "mode": "TLS"}}),
        startupProbe=probe({"exec": {"command": ["ls"]}}),
        resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}},
        restartPolicy="Never",
        restartPolicyRules=[RULE],
        securityContext=SECURITY,
        stdin=True,
        stdinOnce=True,
        terminationMessagePath="/m",
        terminationMessagePolicy="FallbackToLogsOnError",
        tty=True,
        volumeMounts=MOUNTS,
        workingDir="/w",
    )


def full_side() -> Obj:
    """What cannot be had together with the rest, or is of init containers alone."""
    return a_container(
        "side",
        restartPolicy="Always",
        resources={"limits": {"cpu": "250m"}},
        lifecycle={"preStop": {"sleep": {"seconds": 3}}, "postStart": {"exec": {"command": ["x"]}}},
        livenessProbe=probe({"tcpSocket": {"port": 9, "host": "h"}}),
    )


def item(**more: Any) -> Obj:
    return {"key": "a", "path": "p", "mode": 0o600, "user": 31, **more}


DOWNWARD = [
    {"path": "n", "fieldRef": {"fieldPath": "metadata.name"}, "mode": 0o600, "user": 32},
    {"path": "c", "resourceFieldRef": OF_CPU},
]
SELECTOR = {"matchLabels": {"x": "y"}}
EXPRESSION = {"matchExpressions": [{"key": "x", "operator": "In", "values": ["y"]}]}
PROJECTED = [
    {"configMap": {"name": "settings", "items": [item(path="m")]}},
    {"configMap": {"name": "none", "optional": True}},
    {"secret": {"name": "vault", "items": [item(path="s")]}},
    {"secret": {"name": "none", "optional": True}},
    {"downwardAPI": {"items": DOWNWARD}},
    {
        "serviceAccountToken": {
            "path": "t",
            "audience": "vault",
            "expirationSeconds": 7200,
            "user": 33,
        }
    },
    {"clusterTrustBundle": {"path": "named", "name": "roots", "user": 34}},
    {"clusterTrustBundle": {"path": "none", "name": "none", "optional": True}},
    {
        "clusterTrustBundle": {
            "path": "signed",
            "signerName": "example.com/s",
            "labelSelector": SELECTOR,
        }
    },
    {
        "clusterTrustBundle": {
            "path": "signed too",
            "signerName": "example.com/s",
            "labelSelector": EXPRESSION,
        }
    },
]
VOLUMES = [
    {"name": "empty", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    {"name": "host", "hostPath": {"path": "/h", "type": "Directory"}},
    {"name": "nfs", "nfs": {"server": "s", "path": "/e", "readOnly": True}},
    {"name": "image", "image": {"reference": "models"}},
    {"name": "claim", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
    {"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
    {"name": "map", "configMap": {"name": "settings", "items": [item()], "defaultMode": 0o400}},
    {"name": "all", "configMap": {"name": "settings", "defaultUser": 35, "defaultMode": 0o400}},
    {"name": "no-map", "configMap": {"name": "none", "optional": True}},
    {"name": "secret", "secret": {"secretName": "vault", "items": [item()]}},
    {"name": "every", "secret": {"secretName": "vault", "defaultUser": 35, "defaultMode": 0o400}},
    {"name": "no-secret", "secret": {"secretName": "none", "optional": True}},
    {"name": "down", "downwardAPI": {"items": DOWNWARD, "defaultUser": 35, "defaultMode": 0o400}},
    {
        "name": "joined",
        "projected": {"sources": PROJECTED, "defaultUser": 35, "defaultMode": 0o400},
    },
]


def full() -> Obj:
    """A pod with a network of its own."""
    return a_pod(
        full_container(),
        initContainers=[full_side()],
        ephemeralContainers=[{**a_container("look"), "targetContainerName": "main"}],
        volumes=VOLUMES,
        restartPolicy="OnFailure",
        terminationGracePeriodSeconds=3,
        activeDeadlineSeconds=60,
        dnsPolicy="None",
        dnsConfig={
            "nameservers": ["10.0.0.1"],
            "searches": ["a.example"],
            "options": [{"name": "ndots", "value": "3"}],
        },
        enableServiceLinks=False,
        hostAliases=[{"ip": "10.0.0.2", "hostnames": ["db"]}],
        hostname="box",
        subdomain="sub",
        setHostnameAsFQDN=True,
        shareProcessNamespace=True,
        priorityClassName="high",
        overhead={"cpu": "3"},
        readinessGates=[{"conditionType": "example.com/open"}],
        securityContext={
            "fsGroup": 21,
            "fsGroupChangePolicy": "OnRootMismatch",
            "supplementalGroups": [22],
            "sysctls": [{"name": "kernel.shmmax", "value": "1"}],
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    )


def of_the_node() -> Obj:
    """A pod that is at home on its node, and whose image's user is a name."""
    return a_pod(
        a_container(securityContext={"runAsNonRoot": True, "runAsUser": 1}),
        a_container("second"),
        hostNetwork=True,
        hostPID=True,
        hostIPC=True,
        hostnameOverride="other",
        resources={"limits": {"memory": "2Gi"}, "requests": {"memory": "1Gi"}},
        securityContext={"supplementalGroupsPolicy": "Strict", "runAsGroup": 23},
    )


def careful() -> Obj:
    """A pod that may not be root."""
    return a_pod(securityContext={"runAsNonRoot": True})


def someone() -> Obj:
    return a_pod(securityContext={"runAsUser": 24})


def waits() -> Obj:
    """A pod that is not to be given a node yet."""
    group = {"podGroupName": "g"}
    return a_pod(schedulingGates=[{"name": "example.com/gate"}], schedulingGroup=group)


def lasting() -> Obj:
    """A pod that bears a taint for nine seconds, and does not heed it elsewhere."""
    other = {"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}
    bears = {"key": "k", "value": "v", "tolerationSeconds": 9}
    return a_pod(tolerations=[other, bears])


def lasting_too() -> Obj:
    return a_pod(tolerations=[{"key": "k", "operator": "Exists"}])


def careful_container() -> Obj:
    return a_pod(a_container(securityContext={"runAsNonRoot": True}))


def choosy() -> Obj:
    """A pod that wants the node that it would not be given."""
    return a_pod(nodeSelector={ZONE: "b"})


def large(**spec: Any) -> Obj:
    """A pod that fits only where another goes."""
    return a_pod(a_container(resources={"requests": {"cpu": "16"}}), priority=7, **spec)


def meek() -> Obj:
    return large(preemptionPolicy="Never")


def term(**more: Any) -> Obj:
    return {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": ZONE, **more}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def near() -> Obj:
    return a_pod(affinity={"podAffinity": {REQUIRED: [term()]}})


def near_others() -> Obj:
    """The same in another namespace, by its name and by its labels."""
    elsewhere = [{"namespaces": ["other"]}, {"namespaceSelector": {"matchLabels": {"team": "x"}}}]
    return a_pod(affinity={"podAffinity": {REQUIRED: [term(**one) for one in elsewhere]}})


def near_its_like() -> Obj:
    """The database there is of another version."""
    labels = {"metadata": {"labels": {"version": "2"}}}
    return a_pod(affinity={"podAffinity": {REQUIRED: [term(matchLabelKeys=["version"])]}}, **labels)


def near_its_unlike() -> Obj:
    labels = {"metadata": {"labels": {"version": "1"}}}
    asked = term(mismatchLabelKeys=["version"])
    return a_pod(affinity={"podAffinity": {REQUIRED: [asked]}}, **labels)


def rather_near() -> Obj:
    """The database more than the web server."""
    web = term(labelSelector={"matchLabels": {"app": "web"}})
    asked = [{"weight": 5, "podAffinityTerm": web}, {"weight": 9, "podAffinityTerm": term()}]
    return a_pod(affinity={"podAffinity": {PREFERRED: asked}})


def far() -> Obj:
    web = term(labelSelector={"matchLabels": {"app": "web"}})
    return a_pod(affinity={"podAntiAffinity": {REQUIRED: [web]}})


def rather_far() -> Obj:
    far = term(labelSelector={"matchLabels": {"app": "web"}})
    return a_pod(affinity={"podAntiAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": far}]}})


def on_node() -> Obj:
    zone = {"key": ZONE, "operator": "In", "values": ["b"]}
    asked = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
    return a_pod(affinity={"nodeAffinity": {REQUIRED: asked}})


def on_named_node() -> Obj:
    name = {"key": "metadata.name", "operator": "In", "values": ["b"]}
    return a_pod(
        affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [name]}]}}}
    )


def rather_on_node() -> Obj:
    zone = {"key": ZONE, "operator": "In", "values": ["b"]}
    asked = {"weight": 5, "preference": {"matchExpressions": [zone]}}
    return a_pod(affinity={"nodeAffinity": {PREFERRED: [asked]}})


def spread(when: str = "DoNotSchedule") -> Obj:
    """One of many web servers: there is one already on the node that it asks for."""
    labels = {"metadata": {"labels": {"app": "web"}}}
    asked = {
        "nodeAffinityPolicy": "Ignore",
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return a_pod(topologySpreadConstraints=[asked], nodeSelector={ZONE: "a"}, **labels)


def rather_spread() -> Obj:
    return spread("ScheduleAnyway")


PODS = (
    full, of_the_node, careful, careful_container, someone, waits, lasting, lasting_too,
    choosy, large, meek, near, near_others, near_its_like, near_its_unlike, rather_near,
    far, rather_far, on_node, on_named_node, rather_on_node, spread, rather_spread,
)  # fmt: skip
