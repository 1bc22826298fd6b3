"""Decides as whom a container runs: its security context, then the pod's, then the image's USER.

Called while a plan is made, with the texts of the image's own /etc/passwd and /etc/group. As the
kubelet and the container runtimes decide it. The accounts of this host are not used: they mean
nothing inside an image.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...api.objects import Obj, meta
from .refusal import Refusal


@dataclass(frozen=True, slots=True)
class Accounts:
    """The users and groups of an image."""

    passwd: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class User:
    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def container_user(pod: Obj, container: Obj, image_user: str, accounts: Accounts) -> User:
    """Return the user of a container; refuse what runAsNonRoot forbids."""
    of_pod = pod["spec"].get("securityContext") or {}
    context = {**of_pod, **(container.get("securityContext") or {})}
    _check_non_root(pod, container, context, image_user)
    if context.get("runAsUser") is not None:
        user, name = _by_uid(int(context["runAsUser"]), accounts)
    else:
        user, name = _of_image(image_user, accounts)
    gid = user.gid if context.get("runAsGroup") is None else int(context["runAsGroup"])
    return User(user.uid, gid, _groups(of_pod, name, accounts))


def _groups(of_pod: Obj, name: str, accounts: Accounts) -> tuple[int, ...]:
    groups = [int(group) for group in of_pod.get("supplementalGroups") or []]
    if of_pod.get("fsGroup") is not None:
        groups.append(int(of_pod["fsGroup"]))
    if name and of_pod.get("supplementalGroupsPolicy") != "Strict":
        groups.extend(_memberships(name, accounts))
    return tuple(dict.fromkeys(groups))


def _check_non_root(pod: Obj, container: Obj, context: Obj, image_user: str) -> None:
    """Check as pkg/kubelet/kuberuntime/security_context_others.go: verifyRunAsNonRoot."""
    if not context.get("runAsNonRoot"):
        return
    metadata = meta(pod)
    who = (
        f'(pod: "{metadata["name"]}_{metadata.get("namespace", "")}({metadata.get("uid", "")})", '
        f"container: {container['name']})"
    )
    run_as = context.get("runAsUser")
    if run_as is not None:
        if run_as == 0:
            raise Refusal(f"container's runAsUser breaks non-root policy {who}")
        return
    name = image_user.partition(":")[0]
    if name in ("", "0"):
        raise Refusal(f"container has runAsNonRoot and image will run as root {who}")
    if not name.isdecimal():
        raise Refusal(
            f"container has runAsNonRoot and image has non-numeric user ({name}), "
            f"cannot verify user is non-root {who}"
        )


def _of_image(text: str, accounts: Accounts) -> tuple[User, str]:
    """Return the image's USER, `user[:group]`, each a name or a number; empty means root."""
    user_text, _, group_text = text.partition(":")
    if not user_text:
        user, name = User(0, 0), "root"
    elif user_text.isdecimal():
        user, name = _by_uid(int(user_text), accounts)
    else:
        user, name = _by_name(user_text, accounts), user_text
    if group_text:
        user = User(user.uid, _gid(group_text, accounts))
    return user, name


def _by_uid(uid: int, accounts: Accounts) -> tuple[User, str]:
    for name, number, gid in _passwd(accounts):
        if number == uid:
            return User(uid, gid), name
    return User(uid, 0), ""


def _by_name(name: str, accounts: Accounts) -> User:
    for known, uid, gid in _passwd(accounts):
        if known == name:
            return User(uid, gid)
    words = f"unable to find user {name}: no matching entries in passwd file"
    raise Refusal(words, "CreateContainerError")


def _gid(text: str, accounts: Accounts) -> int:
    if text.isdecimal():
        return int(text)
    for name, gid, _ in _group(accounts):
        if name == text:
            return gid
    words = f"unable to find group {text}: no matching entries in group file"
    raise Refusal(words, "CreateContainerError")


def _memberships(name: str, accounts: Accounts) -> list[int]:
    return [gid for _, gid, members in _group(accounts) if name in members]


def _passwd(accounts: Accounts) -> Iterator[tuple[str, int, int]]:
    for line in accounts.passwd.splitlines():
        fields = line.split(":")
        if len(fields) >= 4 and fields[2].isdecimal() and fields[3].isdecimal():
            yield fields[0], int(fields[2]), int(fields[3])


def _group(accounts: Accounts) -> Iterator[tuple[str, int, list[str]]]:
    for line in accounts.group.splitlines():
        fields = line.split(":")
        if len(fields) >= 4 and fields[2].isdecimal():
            yield fields[0], int(fields[2]), fields[3].split(",")
