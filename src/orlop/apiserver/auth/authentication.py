"""Finds out who is calling: the subject of a verified client certificate.

Called for every request before anything else. The TLS layer has checked the certificate against our
CA; here it is read. Nobody is anonymous, but for a few paths that are open to all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...api.objects import Obj
from ...errors import Unauthorized

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    """A name and its groups, as RBAC knows them."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups


def user(name: str, groups: Iterable[str] = ()) -> User:
    """Make an authenticated user of these groups."""
    return User(name, tuple(dict.fromkeys([*groups, AUTHENTICATED])))


def user_info(user: User) -> Obj:
    """Make the UserInfo of authentication.k8s.io."""
    info: Obj = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = dict(user.extra)
    return info


def from_certificate(certificate: Mapping[str, Any] | None) -> User:
    """Return the user of a verified certificate, as ssl.getpeercert() gives it."""
    if not certificate:
        raise Unauthorized("Unauthorized")
    names: dict[str, list[str]] = {}
    for relative_name in certificate.get("subject", ()):
        for field_name, value in relative_name:
            names.setdefault(field_name, []).append(value)
    common_names = names.get("commonName")
    if not common_names:
        raise Unauthorized("Unauthorized")
    return user(common_names[0], names.get("organizationName", ()))
