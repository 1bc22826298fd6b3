"""The users of a test cluster: the machine's own, but with fresh homes on the shared file system.

Called when a cluster starts; it writes the passwd file that is mounted over /etc/passwd on every
node, so that a home is the same path for commands, for jobs and for the tests outside. The
machine's own passwd file is never changed.
"""

from __future__ import annotations

import pwd
from dataclasses import dataclass
from pathlib import Path

from tools.devroot import PLAIN_USER, TEST_USER

PASSWD = Path("/etc/passwd")


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    uid: int
    gid: int


def account(name: str) -> Account:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise LookupError(f"no user {name} on this machine; tools/setup creates it") from None
    return Account(name, entry.pw_uid, entry.pw_gid)


def cluster_users(user: str) -> list[Account]:
    """The cluster's own user, and the two of set-up where they exist."""
    known = {entry.pw_name for entry in pwd.getpwall()}
    names = dict.fromkeys([user, *({TEST_USER, PLAIN_USER} & known)])
    return [account(name) for name in names]


def passwd_with_homes(text: str, homes: dict[str, Path]) -> str:
    """`text` of a passwd file, in which the users named have the given homes."""
    lines = []
    for line in text.splitlines():
        words = line.split(":")
        if words[0] in homes:
            words[5] = str(homes[words[0]])
        lines.append(":".join(words))
    return "\n".join(lines) + "\n"
