"""The checks of the baseline level: no known ways out of a container.

Called by `standards`. Pure; each check says its reason and detail in upstream's words, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..objects import Obj
from .subject import FINE, Found, Subject, containers, plural, quoted, setters

_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
    "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
_SE_LINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t")
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
# What may be set, and since which minor version.
_SYSCTLS = {
    "kernel.shm_rmid_forced": 0,
    "net.ipv4.ip_local_port_range": 0,
    "net.ipv4.tcp_syncookies": 0,
    "net.ipv4.ping_group_range": 0,
    "net.ipv4.ip_unprivileged_port_start": 0,
    "net.ipv4.ip_local_reserved_ports": 27,
    "net.ipv4.tcp_keepalive_time": 29,
    "net.ipv4.tcp_fin_timeout": 29,
    "net.ipv4.tcp_keepalive_intvl": 29,
    "net.ipv4.tcp_keepalive_probes": 29,
    "net.ipv4.tcp_rmem": 32,
    "net.ipv4.tcp_wmem": 32,
}


def app_armor(pod: Subject) -> Found:
    def type_of(context: Obj) -> str:
        kind = (context.get("appArmorProfile") or {}).get("type")
        return "" if kind in (None, "RuntimeDefault", "Localhost") else str(kind)

    bad = pod.those(type_of)
    who = setters(bool(type_of(pod.context)), bad)
    kinds = {type_of(pod.context), *map(type_of, _contexts(pod))} - {""}
    said = [f"{who} must not set AppArmor profile type to {quoted(sorted(kinds))}"] if who else []
    annotations = pod.metadata.get("annotations") or {}
    noted = sorted(
        f'{name}="{value}"'
        for name, value in annotations.items()
        if name.startswith(_APP_ARMOR)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    said += [", ".join(noted)] if noted else []
    if not said:
        return FINE
    return plural("forbidden AppArmor profile", [*kinds, *noted]), "; ".join(said)


def _contexts(pod: Subject) -> list[Obj]:
    return [one.get("securityContext") or {} for one in pod.containers]


def added_capabilities(context: Obj) -> set[str]:
    return set((context.get("capabilities") or {}).get("add") or ())


def capabilities(pod: Subject) -> Found:
    bad = pod.those(lambda context: added_capabilities(context) - _CAPABILITIES)
    if not bad:
        return FINE
    added = set[str]().union(*map(added_capabilities, _contexts(pod))) - _CAPABILITIES
    what = f"must not include {quoted(sorted(added))} in securityContext.capabilities.add"
    return "non-default capabilities", f"{containers(bad)} {what}"


def host_namespaces(pod: Subject) -> Found:
    used = [name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)]
    return ("host namespaces", ", ".join(f"{name}=true" for name in used)) if used else FINE


def host_path_volumes(pod: Subject) -> Found:
    bad = [one["name"] for one in pod.spec.get("volumes") or () if one.get("hostPath") is not None]
    return ("hostPath volumes", f"{plural('volume', bad)} {quoted(bad)}") if bad else FINE


def host_probes(pod: Subject) -> Found:
    """Find probes and hooks that name a host: they are made from the node, to anywhere."""
    bad: list[str] = []
    hosts: set[str] = set()
    for one in pod.containers:
        found = {text for text in _hosts_of(one) if text}
        bad += [one.get("name", "")] if found else []
        hosts |= found
    if not bad:
        return FINE
    verb = "uses" if len(bad) == 1 else "use"
    named = f"probe or lifecycle {plural('host', sorted(hosts))} {quoted(sorted(hosts))}"
    return "probe or lifecycle host", f"{containers(bad)} {verb} {named}"


def _hosts_of(container: Obj) -> Iterator[str]:
    probes = ("livenessProbe", "readinessProbe", "startupProbe")
    hooks = container.get("lifecycle") or {}
    handlers = [container.get(name) or {} for name in probes]
    handlers += [hooks.get(name) or {} for name in ("postStart", "preStop")]
    for handler in handlers:
        for way in ("httpGet", "tcpSocket"):
            yield (handler.get(way) or {}).get("host") or ""


def host_ports(pod: Subject) -> Found:
    bad: list[str] = []
    used: set[int] = set()
    for one in pod.containers:
        ports = {port["hostPort"] for port in one.get("ports") or () if port.get("hostPort")}
        bad += [one.get("name", "")] if ports else []
        used |= ports
    if not bad:
        return FINE
    verb = "uses" if len(bad) == 1 else "use"
    listed = ", ".join(str(port) for port in sorted(used))
    return "hostPort", f"{containers(bad)} {verb} {plural('hostPort', sorted(used))} {listed}"


def privileged(pod: Subject) -> Found:
    bad = pod.those(lambda context: context.get("privileged"))
    if not bad:
        return FINE
    return "privileged", f"{containers(bad)} must not set securityContext.privileged=true"


def proc_mount(pod: Subject) -> Found:
    if pod.minor >= 35 and pod.spec.get("hostUsers") is False:
        return FINE  # the container's own user namespace holds what it sees

    def kind(context: Obj) -> str:
        mount = context.get("procMount")
        return "" if mount in (None, "Default") else str(mount)

    bad = pod.those(kind)
    if not bad:
        return FINE
    used = sorted({kind(context) for context in _contexts(pod)} - {""})
    what = f"must not set securityContext.procMount to {quoted(used)}"
    return "procMount", f"{containers(bad)} {what}"


def se_linux(pod: Subject) -> Found:
    def is_bad(context: Obj) -> bool:
        options = context.get("seLinuxOptions") or {}
        is_odd = (options.get("type") or "") not in _SE_LINUX_TYPES
        return is_odd or bool(options.get("user")) or bool(options.get("role"))

    who = setters(is_bad(pod.context), pod.those(is_bad))
    if not who:
        return FINE
    every = [(c.get("seLinuxOptions") or {}) for c in (pod.context, *_contexts(pod))]
    types = sorted({one.get("type") or "" for one in every} - set(_SE_LINUX_TYPES))
    said = [f"{plural('type', types)} {quoted(types)}"] if types else []
    said += [
        f"{name} may not be set" for name in ("user", "role") if any(o.get(name) for o in every)
    ]
    return (
        "seLinuxOptions",
        f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(said)}",
    )


def seccomp_annotations(pod: Subject) -> Found:
    annotations = pod.metadata.get("annotations") or {}
    names = [_SECCOMP_POD, *(_SECCOMP_CONTAINER + one.get("name", "") for one in pod.containers)]
    bad = sorted(
        f'{name}="{annotations[name]}"'
        for name in names
        if name in annotations
        and annotations[name] not in ("runtime/default", "docker/default")
        and not annotations[name].startswith("localhost/")
    )
    if not bad:
        return FINE
    return "seccompProfile", f"forbidden {plural('annotation', bad)} {', '.join(bad)}"


def bad_seccomp(context: Obj) -> str:
    """Return the type of a profile that no level allows."""
    profile = context.get("seccompProfile")
    kind = "" if profile is None else str(profile.get("type", ""))
    return "" if kind in ("", "RuntimeDefault", "Localhost") else kind


def seccomp(pod: Subject) -> Found:
    who = setters(bool(bad_seccomp(pod.context)), pod.those(bad_seccomp))
    if not who:
        return FINE
    used = sorted({bad_seccomp(one) for one in (pod.context, *_contexts(pod))} - {""})
    what = f"must not set securityContext.seccompProfile.type to {quoted(used)}"
    return "seccompProfile", f"{who} {what}"


def sysctls(pod: Subject) -> Found:
    names = [one.get("name", "") for one in pod.context.get("sysctls") or ()]
    bad = [name for name in names if pod.minor < _SYSCTLS.get(name, 1 << 31)]
    return ("forbidden sysctls", ", ".join(bad)) if bad else FINE


def windows_host_process(pod: Subject) -> Found:
    def is_bad(context: Obj) -> bool:
        return bool((context.get("windowsOptions") or {}).get("hostProcess"))

    who = setters(is_bad(pod.context), pod.those(is_bad))
    what = "must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", f"{who} {what}") if who else FINE
