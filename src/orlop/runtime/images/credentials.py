"""Reads logins for registries, from pull secrets and from where docker and apptainer keep them.

Used by `cache` before it asks a registry. Credentials are read here, not written and not logged.
"""

from __future__ import annotations

import base64
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...api.objects import Obj
from ...api.reading import decode_json

_LONGEST_HOST = 255  # with its port
_HUB_NAMES = {"index.docker.io", "registry-1.docker.io", "docker.io"}
_ENVIRONMENT = (
    ("APPTAINER_DOCKER_USERNAME", "APPTAINER_DOCKER_PASSWORD"),
    ("SINGULARITY_DOCKER_USERNAME", "SINGULARITY_DOCKER_PASSWORD"),
)


@dataclass(frozen=True, slots=True)
class Credential:
    username: str
    password: str = field(repr=False)
    identity_token: str = field(default="", repr=False)

    def basic(self) -> str:
        pair = f"{self.username}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


Keyring = list[tuple[str, Credential]]  # (registry pattern as written, login)


def of_secrets(secrets: Sequence[Obj]) -> Keyring:
    """Return logins of Secrets of the types dockerconfigjson and dockercfg; others are skipped."""
    keyring: Keyring = []
    for secret in secrets:
        data: Mapping[str, str] = secret.get("data") or {}
        if text := data.get(".dockerconfigjson"):
            keyring += _entries(_json(base64.b64decode(text)).get("auths"))
        if text := data.get(".dockercfg"):
            keyring += _entries(_json(base64.b64decode(text)))
    return keyring


def of_user(environ: Mapping[str, str], home: Path) -> Keyring:
    """Return logins of the user who runs Orlop."""
    keyring: Keyring = []
    for name, password in _ENVIRONMENT:
        if environ.get(name) and environ.get(password):
            keyring.append(("*", Credential(environ[name], environ[password])))
    for config in configs_of(environ, home):
        keyring += _entries(config.get("auths"))
    return keyring


def configs_of(environ: Mapping[str, str], home: Path) -> list[dict[str, Any]]:
    """Return the user's files of logins; those that are missing or unreadable hold none."""
    found = []
    for path in _files(environ, home):
        try:
            found.append(_json(path.read_bytes()))
        except OSError:
            continue
    return found


def matching(keyring: Keyring, registry: str, repository: str) -> list[Credential]:
    """Return the logins to try for a repository: the longest match first, then anonymously."""
    found = [
        (len(_path(pattern)), place, credential)
        for place, (pattern, credential) in enumerate(keyring)
        if _matches(pattern, registry, repository)
    ]
    found.sort(key=lambda entry: (-entry[0], entry[1]))
    return list(dict.fromkeys(credential for _, _, credential in found))


def _files(environ: Mapping[str, str], home: Path) -> Iterable[Path]:
    if explicit := environ.get("REGISTRY_AUTH_FILE"):
        yield Path(explicit)
    yield Path(environ.get("DOCKER_CONFIG") or home / ".docker") / "config.json"
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        yield Path(runtime) / "containers" / "auth.json"
    yield home / ".apptainer" / "docker-config.json"
    yield home / ".singularity" / "docker-config.json"


def _matches(pattern: str, registry: str, repository: str) -> bool:
    """Match as pkg/credentialprovider/keyring.go: host with wildcards, then a path as a prefix."""
    bare = pattern.split("://", 1)[-1]
    host = bare.split("/", 1)[0]
    if canonical(host) != canonical(registry) and not _is_like(registry, host):
        return False
    path = _path(pattern)
    return not path or repository == path or repository.startswith(f"{path}/")


def _is_like(host: str, pattern: str) -> bool:
    """Return whether wildcards fit; as upstream, a bracket that is not closed is no pattern at all.

    `fnmatch` would look for the end of each of them anew.
    """
    is_closed = pattern.rfind("[") <= pattern.rfind("]")
    is_short = len(host) <= _LONGEST_HOST and len(pattern) <= _LONGEST_HOST
    return is_short and is_closed and fnmatch.fnmatchcase(host, pattern)


def _path(pattern: str) -> str:
    """Return the repository of a pattern; docker's `/v1/` and `/v2/` mean the whole registry."""
    _, _, path = pattern.split("://", 1)[-1].partition("/")
    path = path.strip("/")
    return "" if path in ("v1", "v2") else path


def canonical(host: str) -> str:
    return "docker.io" if host in _HUB_NAMES else host


def _entries(auths: Any) -> Keyring:
    keyring: Keyring = []
    if isinstance(auths, dict):
        for pattern, entry in auths.items():
            credential = _credential(entry) if isinstance(entry, dict) else None
            if credential is not None:
                keyring.append((str(pattern), credential))
    return keyring


def _credential(entry: dict[str, Any]) -> Credential | None:
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if not username and entry.get("auth"):
        try:
            pair = base64.b64decode(str(entry["auth"])).decode()
        except ValueError:  # neither base64 nor text
            return None
        username, _, password = pair.partition(":")
    token = str(entry.get("identitytoken") or "")
    if not username and not token:
        return None
    return Credential(username, password.rstrip("\0"), token)


def _json(data: bytes) -> dict[str, Any]:
    try:
        value = decode_json(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
