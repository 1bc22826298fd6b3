"""The checks of the restricted level: today's best practice for hardening pods.

Called by `standards` beside those of the baseline. Pure; each check says its reason and detail in
upstream's words, or nothing.
"""

from __future__ import annotations

from ..objects import Obj
from .baseline import added_capabilities, bad_seccomp
from .baseline import seccomp as baseline_seccomp
from .subject import FINE, Found, Subject, containers, plural, quoted, setters

_VOLUMES = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim",
    "projected", "secret",
)  # fmt: skip


def privilege_escalation(pod: Subject) -> Found:
    if pod.is_windows:
        return FINE
    bad = pod.those(lambda context: context.get("allowPrivilegeEscalation") is not False)
    if not bad:
        return FINE
    what = "must set securityContext.allowPrivilegeEscalation=false"
    return "allowPrivilegeEscalation != false", f"{containers(bad)} {what}"


def capabilities(pod: Subject) -> Found:
    if pod.is_windows:
        return FINE

    def keeps_some(context: Obj) -> bool:
        return "ALL" not in ((context.get("capabilities") or {}).get("drop") or ())

    def more(context: Obj) -> set[str]:
        return added_capabilities(context) - {"NET_BIND_SERVICE"}

    keeping, adding = pod.those(keeps_some), pod.those(more)
    said: list[str] = []
    if keeping:
        what = 'must set securityContext.capabilities.drop=["ALL"]'
        said.append(f"{containers(keeping)} {what}")
    if adding:
        contexts = (one.get("securityContext") or {} for one in pod.containers)
        added = quoted(sorted(set[str]().union(*map(more, contexts))))
        what = f"must not include {added} in securityContext.capabilities.add"
        said.append(f"{containers(adding)} {what}")
    return ("unrestricted capabilities", "; ".join(said)) if said else FINE


def volumes(pod: Subject) -> Found:
    bad: list[str] = []
    kinds: set[str] = set()
    for one in pod.spec.get("volumes") or ():
        used = [name for name in one if name != "name"]
        if not any(name in _VOLUMES for name in used):
            bad.append(one.get("name", ""))
            kinds.update(used or ["unknown"])
    if not bad:
        return FINE
    verb = "uses" if len(bad) == 1 else "use"
    listed = sorted(kinds)
    types = f"restricted volume {plural('type', listed)} {quoted(listed)}"
    return "restricted volume types", f"{plural('volume', bad)} {quoted(bad)} {verb} {types}"


def run_as_non_root(pod: Subject) -> Found:
    if pod.minor >= 35 and pod.spec.get("hostUsers") is False:
        return FINE  # root of its own user namespace alone
    reason, said = "runAsNonRoot != true", pod.context.get("runAsNonRoot")
    who = setters(said is False, pod.those(lambda context: context.get("runAsNonRoot") is False))
    if who:
        return reason, f"{who} must not set securityContext.runAsNonRoot=false"
    silent = [] if said else pod.those(lambda context: context.get("runAsNonRoot") is None)
    if not silent:
        return FINE
    return reason, f"pod or {containers(silent)} must set securityContext.runAsNonRoot=true"


def run_as_user(pod: Subject) -> Found:
    if pod.minor >= 35 and pod.spec.get("hostUsers") is False:
        return FINE

    def is_root(context: Obj) -> bool:
        return context.get("runAsUser") == 0

    who = setters(is_root(pod.context), pod.those(is_root))
    return ("runAsUser=0", f"{who} must not set runAsUser=0") if who else FINE


def seccomp(pod: Subject) -> Found:
    if pod.is_windows:
        return FINE
    refused = baseline_seccomp(pod)
    if refused != FINE:
        return refused
    has_profile = pod.context.get("seccompProfile") is not None and not bad_seccomp(pod.context)
    silent = pod.those(lambda context: context.get("seccompProfile") is None)
    if has_profile or not silent:
        return FINE
    what = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return "seccompProfile", f"pod or {containers(silent)} {what}"
