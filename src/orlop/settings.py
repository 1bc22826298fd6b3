"""Says what may be configured, and where everything lies: one typed `Settings`, one `Paths`.

`load` is where the file, the environment and the flags meet; the command line calls it once and
hands the result down.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_address
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from . import wellknown
from .destinations import Destinations
from .errors import ConfigError

_SIZE = re.compile(r"[1-9][0-9]*(Ki|Mi|Gi|Ti|k|M|G|T)?")


class NamespaceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The Slurm options for the pods of one namespace."""

    flags: list[str] = []  # sbatch flags that pods may change
    locked: list[str] = []  # and that they may not
    max_time: str = ""  # the longest --time; empty: as the partition has it
    max_nodes: int = 0  # the most --nodes; 0: as the partition has it


class SlurmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The way in which jobs are asked for."""

    partition: str = ""  # default partition; empty: Slurm's own default
    account: str = ""
    qos: str = ""
    flags: list[str] = []  # added to every sbatch
    prologue: str = ""  # shell lines before the agent, e.g. `module load apptainer`
    priority_classes: dict[str, list[str]] = {}  # PriorityClass name -> sbatch flags
    namespaces: dict[str, NamespaceSettings] = {}
    mirror_quota: bool = False  # a ResourceQuota of Slurm's limits in every namespace
    command_timeout: float = 30.0
    busy_tick: float = 1.25  # seconds between two squeue calls while a pod has a job
    idle_tick: float = 30.0  # and at the most, where slurmctld is slow or nothing is waited for
    show_queue: bool = True  # whether all jobs of the user, partitions, accounts… are objects


class AgentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The agent's settings, for the compute node."""

    python: str = ""  # interpreter there; empty: this one if it exists there, else python3
    runtime: str = ""  # crun, apptainer, singularity, or a path; empty: what the site has
    path: str = ""  # PATH of the job; empty: the PATH of `orlop up`
    scratch: str = ""  # node-local folder for overlays; empty: $TMPDIR or /tmp
    pod_pids_limit: int = 0  # processes and threads of a pod; 0: nearly all that a user may have
    log_max_size: str = "10Mi"  # of a file of a container's log; empty: however long
    log_max_files: int = 5  # kept of each run of a container, the one that is written among them

    def __post_init__(self) -> None:
        if self.log_max_size:
            _check_size("log_max_size", self.log_max_size)
        if self.pod_pids_limit < 0:
            raise ValueError(f"expected a pod_pids_limit from 0, found {self.pod_pids_limit}")
        if self.log_max_files < 2:
            raise ValueError(f"expected a log_max_files from 2, found {self.log_max_files}")


def _check_size(name: str, text: str) -> None:
    if not _SIZE.fullmatch(text):
        raise ValueError(f"expected a {name} such as 10Mi, found {text!r}")


class ImageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sources of images."""

    default_registry: str = "docker.io"
    insecure_registries: list[str] = []  # host[:port] spoken to by plain http
    mirrors: dict[str, list[str]] = {}  # registry -> mirrors, tried in order
    parallel_pulls: int = 3
    squashfs: bool = False  # keep each image as one file, too, for nodes with squashfuse
    max_size: str = "64Gi"  # of one image unpacked, as its files say that they are long
    max_files: int = 1_000_000  # and how many they, its folders and its links may be
    limit: str = "50Gi"  # what unpacked images may take; beyond it unused ones go, oldest first

    def __post_init__(self) -> None:
        _check_size("max_size", self.max_size)
        if self.max_files < 1:
            raise ValueError(f"expected a max_files from 1, found {self.max_files}")


class NetworkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The addresses and names of pods and services."""

    pod_range: str = "10.244.0.0/16"  # every pod has an address of it
    service_range: str = "10.96.0.0/16"  # every service has an address of it
    domain: str = "cluster.local"  # the root of all names of the cluster
    allow_outside: bool = False  # whether others than the cluster's own pods may connect to pods
    upstream: list[str] = []  # DNS servers for all other names; empty: those of the node
    stub_domains: dict[str, list[str]] = {}  # domain -> DNS servers that know it
    compile: bool = True  # whether a part of the pod network is compiled, where there is a compiler
    node_ports: bool = False  # whether NodePort and LoadBalancer services are open at this host
    ingress_port: int = 0  # where Ingresses are served at this host by HTTP; 0: nowhere
    ingress_tls_port: int = 0  # and by HTTPS
    # Ranges of this host's loopback or link to which services may lead all the same
    allow_destinations: list[str] = []

    def __post_init__(self) -> None:
        pods, services = _network(self.pod_range), _network(self.service_range)
        if pods.overlaps(services):
            raise ValueError(f"pod_range {pods} and service_range {services} overlap")
        for server in [*self.upstream, *(s for many in self.stub_domains.values() for s in many)]:
            ip_address(server.partition("#")[0])
        Destinations.of(self.allow_destinations)


def _network(text: str) -> IPv4Network:
    """Return a range with room for more than a handful; raise ValueError."""
    network = IPv4Network(text)
    if not 8 <= network.prefixlen <= 24:
        raise ValueError(f"expected a range from /8 to /24, found {network}")
    return network


class StorageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The places of the folders of persistent volumes."""

    scratch: str = ""  # folder on a shared scratch file system: the class `scratch`; empty: none


class AutoscalingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Horizontal pod autoscalers; seconds, and upstream's defaults."""

    sync_period: float = 15.0  # between two looks at one autoscaler
    tolerance: float = 0.1  # of the ratio of current to wanted, within which nothing is done
    downscale_stabilization: float = 300.0  # where the autoscaler's behavior says nothing
    cpu_initialization_period: float = 300.0  # in which a starting pod's CPU is not believed
    initial_readiness_delay: float = 30.0  # in which a pod that is not ready never was
    metric_resolution: float = 10.0  # agents are asked at most so often what containers use


class WallTimeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The replacement of pods of services before their job's time limit ends them."""

    replace: bool = True
    lead: float = 300.0  # seconds before the limit; never more than half of the pod's time
    waits: float = 2.0  # or so many times as long as such pods lately waited, if that is more


class OidcSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An OpenID Connect issuer whose people may come in; kube-apiserver's --oidc-* flags."""

    issuer_url: str = ""  # https://…; empty: none
    client_id: str = ""  # the audience that tokens must be for
    username_claim: str = "sub"
    username_prefix: str = ""  # empty: the issuer's URL and #, but none before an email; -: none
    groups_claim: str = ""  # empty: no groups
    groups_prefix: str = ""
    required_claims: dict[str, str] = {}
    ca_file: str = ""  # authorities that the issuer's certificate is checked by; empty: the host's


class UpstreamSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The original control plane, where it takes the place of our API server."""

    kube_apiserver: str = ""  # program; empty: kube-apiserver on PATH
    etcd: str = ""
    flags: list[str] = []  # added to kube-apiserver's command line; the last of two counts


class PodSecuritySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pod security levels where a namespace has no labels, as `level` or `level:version`."""

    enforce: str = "privileged"
    audit: str = "privileged"
    warn: str = "privileged"
    exempt_namespaces: list[str] = []
    exempt_users: list[str] = []
    exempt_runtime_classes: list[str] = []


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """config.yaml; everything has a default, so that an empty home works."""

    name: str = "orlop"  # cluster and context name in the kubeconfig
    engine: str = ""  # slurm or local; empty: slurm where sbatch answers, else local
    listen: str = "0.0.0.0"
    control_plane: Literal["embedded", "upstream"] = "embedded"  # whose API server
    port: int = 0  # API server; 0: any free port, kept for the life of the home folder
    kubelet_port: int = 0
    advertise: list[str] = []  # addresses compute nodes may reach us at, beside those found
    log_level: str = "info"
    log_format: str = "text"
    without_kinds: list[str] = []  # bundled kinds to leave out, by the names of their definitions
    audit_policy: str = ""  # file with a Policy of audit.k8s.io/v1; empty: no audit log
    upstream: UpstreamSettings = UpstreamSettings()
    oidc: OidcSettings = OidcSettings()
    slurm: SlurmSettings = SlurmSettings()
    agent: AgentSettings = AgentSettings()
    images: ImageSettings = ImageSettings()
    network: NetworkSettings = NetworkSettings()
    storage: StorageSettings = StorageSettings()
    autoscaling: AutoscalingSettings = AutoscalingSettings()
    wall_time: WallTimeSettings = WallTimeSettings()
    pod_security: PodSecuritySettings = PodSecuritySettings()


@dataclass(frozen=True, slots=True)
class Paths:
    """The home folder of a cluster, and the paths in it that several parts know."""

    home: Path

    @property
    def images(self) -> Path:
        return self.home / "images"

    @property
    def config(self) -> Path:
        return self.home / wellknown.CONFIG_FILE

    @property
    def kubeconfig(self) -> Path:
        return self.home / wellknown.KUBECONFIG_FILE

    @property
    def state(self) -> Path:
        return self.home / wellknown.STATE_FILE

    @property
    def pki(self) -> Path:
        return self.home / "pki"

    @property
    def log(self) -> Path:
        return self.home / "log"

    @property
    def log_file(self) -> Path:
        """Return the file with the control plane's log."""
        return self.log / "orlop.log"

    @property
    def audit_log(self) -> Path:
        """Return the file that says who asked for what, where an audit policy is configured."""
        return self.log / "audit.log"

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def pods(self) -> Path:
        return self.home / "pods"

    @property
    def arrays(self) -> Path:
        """Return the folder of job arrays: which task is which pod."""
        return self.home / "arrays"

    @property
    def gangs(self) -> Path:
        """Return the folder of gangs: which step of one job is which pod."""
        return self.home / "gangs"

    @property
    def volumes(self) -> Path:
        return self.home / "volumes"

    @property
    def seccomp(self) -> Path:
        """Return the folder of seccomp profiles that pods may name; the user's own."""
        return self.home / "seccomp"

    @property
    def endpoint(self) -> Path:
        return self.home / wellknown.ENDPOINT_FILE

    @property
    def pid(self) -> Path:
        return self.home / wellknown.PID_FILE

    @property
    def lock(self) -> Path:
        """Return the file that is locked by the one control plane that may run in this home."""
        return self.run / "lock"

    @property
    def cluster_uid(self) -> Path:
        """Return the path of the id by which the cluster knows its jobs; made at the first `up`."""
        return self.home / "cluster-uid"

    def pod(self, namespace: str, name: str, uid: str) -> Path:
        """Return the folder of one pod."""
        return self.pods / f"{namespace}_{name}_{uid}"


def home_from_env(environ: dict[str, str] | None = None) -> Paths:
    """Return the home folder: ORLOP_HOME, else ~/.orlop."""
    env = os.environ if environ is None else environ
    return Paths(Path(env.get(wellknown.HOME_ENV) or Path.home() / ".orlop").absolute())


def load(paths: Paths, overrides: dict[str, Any] | None = None) -> Settings:
    """Load the settings of a home: its config.yaml, then `overrides` (flags), over the defaults."""
    try:
        raw = yaml.load(_text(paths.config), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        if not isinstance(raw or {}, dict):
            raise ValueError(f"expected a mapping of settings, found {raw!r}")
        return msgspec.convert(_merged(raw or {}, overrides or {}), Settings)
    except (yaml.YAMLError, ValueError, OSError) as error:
        message = f"{paths.config}: {error}; docs/reference/configuration.md lists every setting"
        raise ConfigError(message, "InvalidConfiguration") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return `over` laid on `base`, section by section."""
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = _merged(result[key], value) if both else value
    return result
