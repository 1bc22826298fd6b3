"""Composes the files of a pod's /etc that tell it of names: resolv.conf and hosts.

Asked by `container_setup` before the first container starts, with the plan and the node's own
files. Text in, text out.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_NAMESERVERS, MAX_SEARCHES = 3, 32  # as upstream's validation has them


def nameservers(text: str) -> list[str]:
    """Return the nameservers of a resolv.conf."""
    lines = (line.split() for line in text.splitlines())
    return [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]


def resolv_conf(resolver: dict[str, Any] | None, of_node: str, nameserver: str = "") -> str:
    """Return the pod's resolv.conf, from its plan and the node's own. As pkg/kubelet/network/dns.

    `nameserver` is where the pod's own DNS is: in the place of a server on the node's loopback,
    which a pod with a loopback of its own cannot reach.
    """
    if resolver is None:
        return of_node
    policy, more = resolver["policy"], resolver["more"]
    if policy == "Default" and not any(more.values()):
        return _reachable(of_node, nameserver)
    servers, searches = list(resolver["nameservers"]), list(resolver["searches"])
    options = dict(resolver["options"])
    if policy == "Default":
        servers = nameservers(_reachable(of_node, nameserver))
        options = dict(_options(of_node))
    if policy != "None":
        searches += _searches(of_node)
    servers, searches = servers + more["nameservers"], searches + more["searches"]
    options.update(dict(more["options"]))
    lines = [f"nameserver {one}" for one in list(dict.fromkeys(servers))[:MAX_NAMESERVERS]]
    if searches:
        lines.insert(0, "search " + " ".join(list(dict.fromkeys(searches))[:MAX_SEARCHES]))
    if options:
        words = [f"{name}:{value}" if value else name for name, value in options.items()]
        lines.append("options " + " ".join(words))
    return "\n".join(lines) + "\n"


def _reachable(text: str, nameserver: str) -> str:
    """Return the node's file with our own server in the place of one on its loopback."""
    if not nameserver:
        return text
    lines = []
    for line in text.splitlines():
        words = line.split()
        is_server = len(words) > 1 and words[0] == "nameserver"
        is_own = is_server and (words[1].startswith("127.") or words[1] == "::1")
        lines.append(f"nameserver {nameserver}" if is_own else line)
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _searches(text: str) -> list[str]:
    """Return the search domains: the last `search` or `domain` counts, as resolv.conf(5) has it."""
    found: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] in (["search"], ["domain"]):
            found = [word for word in words[1:] if word != "."]
    return found


def _options(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["options"]:
            for word in words[1:]:
                name, _, value = word.partition(":")
                yield name, value


# As pkg/kubelet/kubelet_pods.go: managedHostsFileContent.
HOSTS_HEAD = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


def own_hosts(address: str, hostname: str, fqdn: str, aliases: list[dict[str, Any]]) -> str:
    """Return what a hosts file says of the pod itself, and of others as the pod wants it."""
    short = hostname.partition(".")[0] if fqdn and hostname == fqdn else hostname
    lines = [f"{address}\t{fqdn}\t{short}" if fqdn else f"{address}\t{hostname}"]
    if aliases:
        lines.append("\n# Entries added by HostAliases.")
    for alias in aliases:
        names = "\t".join(alias.get("hostnames") or [])
        lines.append(f"{alias['ip']}\t{names}")
    return "\n".join(lines) + "\n"
