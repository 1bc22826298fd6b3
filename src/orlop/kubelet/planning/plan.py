"""Makes the plan of a pod: all that its job must do, as data; every decision but the pod's is
taken.

Made by the pod's worker once images, ConfigMaps and Secrets are there, written to the pod's folder
and read by the agent on the compute node. Pure: the same pod and inputs give the same plan, and
what cannot be done is raised as a Refusal with Kubernetes' own words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ...api.objects import Key, Obj, annotations_of, key_of, meta
from ...api.qos import qos_class
from ...api.quantity import to_bytes, to_millis
from ...slurm.translate.gres import wanted
from ...wellknown import (
    AGENT_SERVER_NAME,
    GROUP,
    GROUP_VOLUME,
    HOST_IMAGE,
    RUNTIME_ANNOTATION,
    SLURM_ENV_PASSED,
)
from .downward_api import Allocatable, with_addresses
from .environment import (
    api_variables,
    container_variables,
    planned_env_files,
    service_variables,
    with_image,
)
from .expansion import MOST_OF_POD, Room, expand_all
from .field_support import unsupported
from .handlers import planned_handlers
from .limits import planned_pod_limits, planned_storage
from .network import (
    ClusterNetwork,
    has_own_network,
    planned_network,
    planned_rank_network,
    planned_resolver,
    ranks_know_cluster,
)
from .refusal import Refusal
from .seccomp_profiles import Profiles, planned_profile
from .sources import Sources
from .users import Accounts, container_user
from .volumes import planned_mounts, planned_volumes

VERSION = 1
RUNTIMES = ("crun", "apptainer", "singularity")
# Fields of a pod -> what its containers share with each other, or with the node.
_SHARED = {"shareProcessNamespace": "pids", "hostPID": "hostPids", "hostIPC": "hostIpc"}
MAX_HOSTNAME = 63
MAX_FQDN = 64  # of the kernel: __NEW_UTS_LEN
# As the container runtimes have it where an image says nothing.
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Command(Protocol):
    """The command that an image runs."""

    @property
    def entrypoint(self) -> Sequence[str]: ...
    @property
    def cmd(self) -> Sequence[str]: ...


class ImageConfig(Command, Protocol):
    """The facts that a plan needs of an image that has been pulled (runtime.images.Image)."""

    @property
    def reference(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def rootfs(self) -> Path | None: ...
    @property
    def env(self) -> Mapping[str, str]: ...
    @property
    def user(self) -> str: ...
    @property
    def working_dir(self) -> str: ...
    @property
    def stop_signal(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Site:
    """The facts that all plans of this cluster share."""

    cluster: str
    endpoint_file: Path
    ca: Path
    runtimes: tuple[str, ...] = RUNTIMES
    runtime: str = ""  # the one that the settings name
    scratch: str = ""
    log_size: int = 10 << 20  # bytes of a file of a container's log; 0: however long
    log_files: int = 5
    pids: int = 0  # that a pod may have; 0: nearly all that its user may
    seccomp: Path = Path("/nonexistent")  # the folder of profiles
    starter: str = ""  # the compiled starter of ranks, used by agents where it is there
    api_server: str = ""  # https://host:port where pods reach it; empty: they are not told
    network: ClusterNetwork | None = None  # None: pods have their node's

    @property
    def domain(self) -> str:
        return "cluster.local" if self.network is None else self.network.ranges.domain


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs found for one pod; images and accounts by the image's name in the pod."""

    images: Mapping[str, ImageConfig]
    allocatable: Allocatable
    sources: Sources = field(default_factory=Sources)
    accounts: Mapping[str, Accounts] = field(default_factory=dict)
    pod_ip: str = ""  # empty: its node's
    policy: Obj | None = None  # its NetworkPolicies as rules; None: it is open
    services: Sequence[Obj] = ()  # of its namespace, and the API's own
    profiles: Profiles = field(default_factory=dict)  # of seccomp, by their names in the pod
    launcher: tuple[str, ...] = ()  # what stands before each container's command, e.g. mpiexec
    ranks: Obj | None = None  # the container that runs once for every task of the job, and how


def check(pod: Obj) -> list[str]:
    """Refuse what would run wrongly; return the fields that will not be met, for people."""
    findings = unsupported(pod)
    refused = [str(finding) for finding in findings if finding.refuses]
    if refused:
        raise Refusal("; ".join(refused))
    return [str(finding) for finding in findings] + _not_oneself(pod)


def _not_oneself(pod: Obj) -> list[str]:
    """Return what is unmet for containers that ask for another user where there is just one."""
    spec = pod["spec"]
    words = "on the node's own root a container runs as the owner of this cluster"
    found = []
    for field_name in ("initContainers", "containers"):
        for container in spec.get(field_name) or []:
            contexts = (spec.get("securityContext"), container.get("securityContext"))
            asks = any(c and ("runAsUser" in c or "runAsGroup" in c) for c in contexts)
            if asks and runs_on_host(pod, container.get("image", "")):
                found.append(f'spec.{field_name}["{container["name"]}"].securityContext: {words}')
    return found


def runs_on_host(pod: Obj, image: str) -> bool:
    """Return whether a container of this image runs in the node's own root, without an image."""
    return image == HOST_IMAGE or annotations_of(pod).get(RUNTIME_ANNOTATION) == HOST_IMAGE


def make_plan(pod: Obj, site: Site, inputs: Inputs) -> Obj:
    """Return the plan.json of the pod."""
    pod = with_addresses(pod, inputs.pod_ip)
    spec = pod["spec"]
    room = room_of_pod()
    return {
        "version": VERSION,
        "cluster": site.cluster,
        "pod": _pod(pod, site.domain),
        "network": planned_network(pod, site.network, inputs.pod_ip, inputs.policy),
        "resolver": planned_resolver(pod, site.network),
        "hostEnv": _host_env(pod, site, inputs),
        "kubelet": {
            "endpointFile": str(site.endpoint_file),
            "ca": str(site.ca),
            "serverName": AGENT_SERVER_NAME,
        },
        "runtimes": _runtimes(pod, site),
        "runtimeRequired": _is_runtime_asked_for(pod),
        **({"runtimeSetting": site.runtime} if site.runtime else {}),
        "scratch": site.scratch,
        "logs": {"size": site.log_size, "files": site.log_files},
        "pids": site.pids,
        "passEnv": list(SLURM_ENV_PASSED),
        **_ranks(pod, site, inputs),
        "volumes": planned_volumes(pod, inputs.sources, inputs.allocatable),
        **_group(pod),
        "initContainers": [
            counted(_container(pod, c, inputs, site), room)
            for c in spec.get("initContainers") or []
        ],
        "containers": [
            _launched(counted(_container(pod, c, inputs, site), room), inputs)
            for c in spec["containers"]
        ],
    }


def room_of_pod() -> Room:
    """Return the room of a pod: thousands of containers may refer to the same Secret, and a plan
    has a copy for each.
    """
    return Room(MOST_OF_POD, "a pod may have no more commands and variables")


def counted(planned: Obj, room: Room) -> Obj:
    """Return a planned container if the pod has room for it; raise Refusal if not."""
    try:
        room.take(*planned["argv"], *(value for _, value in planned["env"]))
        for probe in (planned.get("probes") or {}).values():
            room.take(*(probe.get("exec") or {}).get("command", ()))
    except Refusal as refusal:
        raise refusal.within(planned["name"]) from refusal
    return planned


def _ranks(pod: Obj, site: Site, inputs: Inputs) -> Obj:
    """Return the container that runs once for every task, and what of the cluster it knows."""
    if inputs.ranks is None:
        return {}
    network = planned_rank_network(pod, site.network, inputs.pod_ip, inputs.policy)
    return {"ranks": {**inputs.ranks, **({"network": network} if network else {})}}


def check_ephemeral(container: Obj) -> list[str]:
    """Do as `check`, for a container that is added to a running pod."""
    findings = unsupported({"spec": {"ephemeralContainers": [container]}})
    refused = [str(finding) for finding in findings if finding.refuses]
    if refused:
        raise Refusal("; ".join(refused), container=container["name"])
    return [str(finding) for finding in findings]


def make_ephemeral(pod: Obj, container: Obj, site: Site, inputs: Inputs) -> Obj:
    """Return the part of a plan that describes a container which is added to a running pod."""
    planned = _container(with_addresses(pod, inputs.pod_ip), container, inputs, site)
    return {**planned, "target": container.get("targetContainerName") or ""}


def _runtimes(pod: Obj, site: Site) -> list[str]:
    """Return runtimes in order of preference; a word that is none would be as if the node had no
    runtime.
    """
    asked = annotations_of(pod).get(RUNTIME_ANNOTATION, "")
    known = dict.fromkeys([*RUNTIMES, *site.runtimes])
    if asked and asked not in (*known, HOST_IMAGE):
        expected = f"expected one of {', '.join(known)}, {HOST_IMAGE}"
        raise Refusal(f"{RUNTIME_ANNOTATION}: {expected}, found {asked!r}")
    return [asked] if asked in known else list(site.runtimes)


def _is_runtime_asked_for(pod: Obj) -> bool:
    """Return whether this runtime, and no other, is to be used."""
    return annotations_of(pod).get(RUNTIME_ANNOTATION, HOST_IMAGE) != HOST_IMAGE


def _group(pod: Obj) -> Obj:
    """Return the volume by which a pod of a group starts commands in the others; other pods have
    none.
    """
    volumes = pod["spec"].get("volumes") or []
    has_volume = any(volume["name"] == GROUP_VOLUME for volume in volumes)
    return {"group": GROUP_VOLUME} if has_volume and annotations_of(pod).get(GROUP) else {}


def _launched(container: Obj, inputs: Inputs) -> Obj:
    return {**container, "argv": [*inputs.launcher, *container["argv"]]}


def _pod(pod: Obj, domain: str) -> Obj:
    metadata, spec = meta(pod), pod["spec"]
    grace = spec.get("terminationGracePeriodSeconds")
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "node": spec.get("nodeName", ""),
        "hostname": hostname(pod, domain),
        "fqdn": fqdn(pod, domain),
        "restartPolicy": spec.get("restartPolicy") or "Always",
        "terminationGracePeriodSeconds": 30 if grace is None else int(grace),
        "activeDeadlineSeconds": spec.get("activeDeadlineSeconds"),
        "hostAliases": spec.get("hostAliases") or [],
        "shared": [word for name, word in _SHARED.items() if spec.get(name)],
        **planned_pod_limits(pod),
        **_sysctls(spec),
    }


def fqdn(pod: Obj, domain: str) -> str:
    """Return its name in DNS, for a pod with a subdomain; else empty."""
    metadata, spec = meta(pod), pod["spec"]
    if not spec.get("subdomain") or spec.get("hostnameOverride"):
        return ""
    return f"{_short(pod)}.{spec['subdomain']}.{metadata['namespace']}.svc.{domain}"


def _short(pod: Obj) -> str:
    return str(pod["spec"].get("hostname") or meta(pod)["name"])[:MAX_HOSTNAME].rstrip("-.")


def hostname(pod: Obj, domain: str = "cluster.local") -> str:
    """Return the pod's own host name. As pkg/kubelet/util/util.go and kubelet_pods.go have it."""
    spec = pod["spec"]
    if spec.get("hostnameOverride"):
        return str(spec["hostnameOverride"])
    full = fqdn(pod, domain)
    if not (spec.get("setHostnameAsFQDN") and full):
        return _short(pod)
    if len(full) > MAX_FQDN:
        words = (
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too "
            f"long ({MAX_FQDN} characters is the max, {len(full)} characters requested)"
        )
        raise Refusal(words, "ContainerCreating", event="FailedCreatePodSandBox")
    return full


def image_id(image: ImageConfig) -> str:
    """Return `repository@sha256:...`, as containerStatuses name it."""
    if not image.digest:
        return image.reference
    name = image.reference.partition("@")[0]
    path, slash, last = name.rpartition("/")
    return f"{path}{slash}{last.partition(':')[0]}@{image.digest}"


def _container(pod: Obj, container: Obj, inputs: Inputs, site: Site) -> Obj:
    try:
        return _planned(pod, container, inputs, site)
    except Refusal as refusal:
        raise refusal.within(refusal.container or container["name"]) from refusal


def _planned(pod: Obj, container: Obj, inputs: Inputs, site: Site) -> Obj:
    image = inputs.images[container["image"]]
    variables = variables_of(pod, container, inputs, site)
    limits = (container.get("resources") or {}).get("limits") or {}
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": image_id(image),
        "rootfs": None if image.rootfs is None else str(image.rootfs),
        "argv": argv_of(container, image, variables),
        "env": with_image(_image_env(image), variables),
        "envFiles": planned_env_files(pod, container),
        # What the variables of later runs are made from, see live_plan.
        "fromImage": {
            "env": dict(_image_env(image)),
            "entrypoint": list(image.entrypoint),
            "cmd": list(image.cmd),
        },
        "cwd": container.get("workingDir") or image.working_dir or "/",
        "user": _user(pod, container, image, inputs),
        "readOnlyRoot": bool(
            (container.get("securityContext") or {}).get("readOnlyRootFilesystem")
        ),
        **_capabilities(container),
        **_proc(container),
        **planned_profile(pod, container, inputs.profiles),
        "mounts": planned_mounts(container, variables),
        "memoryLimit": to_bytes(limits["memory"]) if "memory" in limits else None,
        "cpuLimit": to_millis(limits["cpu"]) if "cpu" in limits else None,
        **_cores(pod, limits),
        **_gpus(limits),
        **planned_storage(limits),
        "stdin": bool(container.get("stdin")),
        "stdinOnce": bool(container.get("stdinOnce")),
        "tty": bool(container.get("tty")),
        "terminationMessagePath": container.get("terminationMessagePath") or "/dev/termination-log",
        "terminationMessagePolicy": container.get("terminationMessagePolicy") or "File",
        "stopSignal": (container.get("lifecycle") or {}).get("stopSignal") or image.stop_signal,
        **planned_handlers(container),
    }


def _cores(pod: Obj, limits: Obj) -> Obj:
    """Return cores of its own, for whole CPUs of a Guaranteed pod; as the static CPU policy has
    it.
    """
    if "cpu" not in limits or qos_class(pod) != "Guaranteed":
        return {}
    cores, part = divmod(to_millis(limits["cpu"]), 1000)
    return {"cores": cores} if cores and not part else {}


def _gpus(limits: Obj) -> Obj:
    """Return how many of the job's GPUs are its own; requests of them are always as high as
    limits.
    """
    kinds = {name: wanted(name, ()) for name in limits}
    named = [name for name, kind in kinds.items() if kind is not None and kind.name == "gpu"]
    count = sum(to_millis(limits[name]) // 1000 for name in named)
    return {"gpus": count} if count else {}


def _capabilities(container: Obj) -> Obj:
    """Return what is added and dropped; which are there by default is known on the node."""
    asked = (container.get("securityContext") or {}).get("capabilities") or {}
    lists = {name: list(asked[name]) for name in ("add", "drop") if asked.get(name)}
    return {"capabilities": lists} if lists else {}


def _proc(container: Obj) -> Obj:
    kind = (container.get("securityContext") or {}).get("procMount")
    return {"unmasked": True} if kind == "Unmasked" else {}


def _sysctls(spec: Obj) -> Obj:
    asked = (spec.get("securityContext") or {}).get("sysctls") or []
    return {"sysctls": asked} if asked else {}


def variables_of(pod: Obj, container: Obj, inputs: Inputs, site: Site) -> dict[str, str]:
    """Return all variables that a container is told, except those of its image."""
    services = _services(pod, container, site, inputs)
    return container_variables(pod, container, inputs.sources, inputs.allocatable, services)


def _services(pod: Obj, container: Obj, site: Site, inputs: Inputs) -> dict[str, str]:
    """Return the variables of services; those of the API also where a pod wants no links to others.

    Links that lead nowhere are none: ranks know services only where they ask for that.
    """
    wants_links = pod["spec"].get("enableServiceLinks") is not False
    if _is_ranks(container, inputs) and not ranks_know_cluster(pod):
        wants_links = False
    own = meta(pod)["namespace"]
    chosen = [s for s in inputs.services if is_api(s) or (wants_links and namespace_of(s) == own)]
    found = service_variables(sorted(chosen, key=lambda one: str(meta(one)["name"])))
    if not _has_own_network(pod, site, inputs):
        found |= api_variables(site.api_server)
    return found


def _has_own_network(pod: Obj, site: Site, inputs: Inputs) -> bool:
    return site.network is not None and bool(inputs.pod_ip) and has_own_network(pod)


def _host_env(pod: Obj, site: Site, inputs: Inputs) -> Obj:
    """Return each variable's value, and its value on a node which cannot give the pod its
    network.
    """
    if not _has_own_network(pod, site, inputs):
        return {}
    inside = service_variables([service for service in inputs.services if is_api(service)])
    outside = api_variables(site.api_server)
    return {name: [value, outside[name]] for name, value in inside.items() if name in outside}


def is_api(service: Obj) -> bool:
    return key_of(service) == Key("default", "kubernetes")


def namespace_of(service: Obj) -> str:
    return key_of(service).namespace


def argv_of(container: Obj, image: Command, variables: Mapping[str, str]) -> list[str]:
    """Return the command line: command replaces ENTRYPOINT and CMD, args replaces CMD alone."""
    command, args = container.get("command") or [], container.get("args") or []
    given = expand_all([*command, *args], variables)
    # What the image says is never expanded.
    argv = given if command else [*image.entrypoint, *(given or image.cmd)]
    if not argv:
        raise Refusal("no command specified", "CreateContainerError")
    return argv


def _image_env(image: ImageConfig) -> Mapping[str, str]:
    # The node's own root has the job's PATH, which the agent knows.
    return image.env if image.rootfs is None else {"PATH": DEFAULT_PATH, **image.env}


def _user(pod: Obj, container: Obj, image: ImageConfig, inputs: Inputs) -> Obj | None:
    """Return the user; None on the node's own root: there a container runs as the owner, not as
    root.
    """
    if image.rootfs is None or _is_oneself(pod, container, inputs):
        return None
    accounts = inputs.accounts.get(container["image"], Accounts())
    user = container_user(pod, container, image.user, accounts)
    return {"uid": user.uid, "gid": user.gid, "groups": list(user.groups)}


def _is_oneself(pod: Obj, container: Obj, inputs: Inputs) -> bool:
    """Return whether ranks run as their owner: they do unless the pod says otherwise, as PMIx lets
    no other speak to it.
    """
    if not _is_ranks(container, inputs):
        return False
    contexts = (pod["spec"].get("securityContext"), container.get("securityContext"))
    return not any(context and "runAsUser" in context for context in contexts)


def _is_ranks(container: Obj, inputs: Inputs) -> bool:
    """Return whether it is the container that runs once for every task."""
    return inputs.ranks is not None and bool(inputs.ranks["container"] == container["name"])
