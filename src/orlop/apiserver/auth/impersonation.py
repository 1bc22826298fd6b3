"""Lets those who may act as another: `kubectl --as`.

Called after authentication with the request's headers; what follows, authorization included, sees
the other user. As apiserver/pkg/endpoints/filters/impersonation.go.
"""

from __future__ import annotations

from urllib.parse import unquote

from multidict import MultiMapping

from ..request.failures import bad_request
from .authentication import AUTHENTICATED, User
from .authorization import Authorizer, refusal
from .rbac import Attributes

_USER, _GROUP, _UID = "Impersonate-User", "Impersonate-Group", "Impersonate-Uid"
_EXTRA = "impersonate-extra-"
_SERVICE_ACCOUNT = "system:serviceaccount:"
_AUTHENTICATION = "authentication.k8s.io"


def effective_user(user: User, headers: MultiMapping[str], authorizer: Authorizer) -> User:
    """Return who the request is taken for; Forbidden if `user` may not act as them."""
    wanted = headers.get(_USER, "")
    groups, uid, extra = headers.getall(_GROUP, []), headers.get(_UID, ""), _extra(headers)
    said = (wanted, uid, *groups, *extra, *(one for many in extra.values() for one in many))
    if not all(text.isprintable() for text in said):
        raise bad_request("whom to impersonate must be said in printable characters")
    if not wanted:
        if groups or uid or extra:
            raise bad_request("requested groups, uid or extra without impersonating a user")
        return user
    for needed in (_of_user(wanted), *_of_others(groups, uid, extra)):
        if not authorizer.allows(user, needed):
            raise refusal(user, needed, None)
    return User(wanted, _groups(wanted, groups), uid, extra)


def _of_user(wanted: str) -> Attributes:
    if wanted.startswith(_SERVICE_ACCOUNT):
        namespace, _, name = wanted.removeprefix(_SERVICE_ACCOUNT).partition(":")
        return Attributes("impersonate", "", "serviceaccounts", namespace=namespace, name=name)
    return Attributes("impersonate", "", "users", name=wanted)


def _of_others(groups: list[str], uid: str, extra: dict[str, list[str]]) -> list[Attributes]:
    needed = [Attributes("impersonate", "", "groups", name=group) for group in groups]
    if uid:
        needed.append(Attributes("impersonate", _AUTHENTICATION, "uids", name=uid))
    needed += [
        Attributes("impersonate", _AUTHENTICATION, "userextras", key, name=value)
        for key, values in extra.items()
        for value in values
    ]
    return needed


def _groups(wanted: str, groups: list[str]) -> tuple[str, ...]:
    if not groups and wanted.startswith(_SERVICE_ACCOUNT):
        namespace = wanted.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if wanted == "system:anonymous":
        return tuple(groups or ["system:unauthenticated"])
    return tuple(dict.fromkeys([*groups, AUTHENTICATED]))


def _extra(headers: MultiMapping[str]) -> dict[str, list[str]]:
    extra: dict[str, list[str]] = {}
    for name, value in headers.items():
        if name.lower().startswith(_EXTRA):
            extra.setdefault(unquote(name.lower().removeprefix(_EXTRA)), []).append(value)
    return extra
