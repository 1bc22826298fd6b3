"""Writes the folder of a test cluster, and the words that connect its nodes.

Called by the cluster before its nodes boot: configuration, keys, the files mounted over the
machine's own, homes. It starts nothing.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.devroot import DevRoot

from . import cgroups, gpus, rest, slurm_conf
from .accounts import PASSWD, cluster_users, passwd_with_homes
from .programs import hidden_programs, link_runtimes
from .spec import HEAD_ADDRESS, Spec

# An address outside the cluster is refused at once instead of waited for.
HEAD_NETWORK = f"""\
link set lo up
link add br0 type bridge
address add {HEAD_ADDRESS}/24 dev br0
link set br0 up
route add unreachable default
"""


def cable(name: str, pid: int) -> str:
    """Lines for ip(8), in the head's namespace: a cable to a node, plugged into the bridge."""
    return f"""\
link add {name} type veth peer name eth0 netns {pid}
link set {name} master br0 up
"""


def node_network(address: str) -> str:
    return f"""\
link set lo up
address add {address}/24 dev eth0
link set eth0 up
route add default via {HEAD_ADDRESS}
"""


@contextmanager
def readable_by_all() -> Iterator[None]:
    """Makes files that every user can read, whatever the umask of whoever runs the tests."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def write(root: Path, spec: Spec, dev: DevRoot) -> None:
    for name in ("etc", "home", "log", "munge", "nodes", "state"):
        (root / name).mkdir()
    link_runtimes(root, dev, spec.runtimes)
    _write_etc(root, spec)
    _write_homes(root, spec)
    _write_keys(root)
    if spec.rest:
        rest.write_key(root)
    gpus.make(root, spec)


def _write_etc(root: Path, spec: Spec) -> None:
    hosts = ["127.0.0.1 localhost", *(f"{ip} {name}" for name, ip in spec.addresses.items())]
    users = cluster_users(spec.user)
    homes = {user.name: root / "home" / user.name for user in users}
    texts = {
        "slurm.conf": slurm_conf.slurm_conf(root, spec),
        "gres.conf": slurm_conf.gres_conf(spec),
        "hosts": "\n".join(hosts) + "\n",
        # No name server: names that /etc/hosts does not know fail at once.
        "resolv.conf": "# names come from /etc/hosts\n",
        "passwd": passwd_with_homes(PASSWD.read_text(), homes),
        "users": "".join(f"{user.uid} {user.gid}\n" for user in users),
        "hidden": "".join(f"{path}\n" for path in hidden_programs(spec.runtimes)),
        "hidden-program": "",
        "cgroup.conf": slurm_conf.NO_CGROUPS,
    }
    if spec.switches:
        texts["topology.conf"] = slurm_conf.topology_conf(spec)
    if spec.cgroups:
        texts["cgroup.conf"] = slurm_conf.cgroup_conf(cgroups.version())
        texts["cgroups"] = cgroups.table(root)
    for name, text in texts.items():
        (root / "etc" / name).write_text(text)


def _write_homes(root: Path, spec: Spec) -> None:
    for user in cluster_users(spec.user):
        home = root / "home" / user.name
        home.mkdir(mode=0o700)
        os.chown(home, user.uid, user.gid)


def _write_keys(root: Path) -> None:
    key = root / "munge" / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    munge = pwd.getpwnam("munge")
    for path in (key, root / "munge"):
        os.chown(path, munge.pw_uid, munge.pw_gid)
    # Everyone may talk to the socket in it; munged refuses a folder that others may list.
    (root / "munge").chmod(0o711)
    for name in ("state", "log"):
        shutil.chown(root / name, "slurm", "slurm")
