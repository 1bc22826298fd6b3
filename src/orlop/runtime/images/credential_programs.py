"""Gets logins from docker's credential programs: `credsStore` and `credHelpers` of config.json.

Used by `cache`, in a thread, when an image is really pulled. `docker-credential-<name> get` has the
registry on its input and answers a login, or that there is none; one that fails, or takes long, is
told of in the log and passed over. Nothing is stored with such a program.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

from ...api.reading import decode_json
from ...log import logger
from .credentials import Credential, Keyring, canonical

log = logger(__name__)

TIMEOUT = 10.0  # some ask a cloud for a token
_HUB = "https://index.docker.io/v1/"  # what docker calls its own registry
_TOKEN = "<token>"  # in place of a name: the secret is an identity token
_NONE = "credentials not found"  # as github.com/docker/docker-credential-helpers says it


def of_programs(
    configs: Iterable[Mapping[str, Any]], registry: str, environ: Mapping[str, str]
) -> Keyring:
    """Return logins for a registry from the programs that docker's configurations name."""
    keyring: Keyring = []
    for config in configs:
        program = _program(config, registry)
        found = _ask(program, registry, environ) if program else None
        if found is not None:
            keyring.append((registry, found))
    return keyring


def _program(config: Mapping[str, Any], registry: str) -> str:
    """Return the program for just this registry, before the one for all."""
    own = config.get("credHelpers")
    if isinstance(own, dict):
        for host, program in own.items():
            if canonical(host.split("://", 1)[-1].split("/", 1)[0]) == canonical(registry):
                return str(program)
    return str(config.get("credsStore") or "")


def _ask(name: str, registry: str, environ: Mapping[str, str]) -> Credential | None:
    program = shutil.which(f"docker-credential-{name}", path=environ.get("PATH"))
    if program is None or "/" in name:
        log.warning("no such credential program", program=f"docker-credential-{name}")
        return None
    server = _HUB if canonical(registry) == "docker.io" else registry
    try:
        done = subprocess.run(
            [program, "get"],
            input=server,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            env=dict(environ),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("credential program failed", program=program, error=type(error).__name__)
        return None
    if done.returncode:
        if _NONE not in done.stdout:
            log.warning("credential program failed", program=program, code=done.returncode)
        return None
    return _credential(done.stdout)


def _credential(answer: str) -> Credential | None:
    try:
        found = decode_json(answer)
        username, secret = str(found["Username"]), str(found["Secret"])
    except (ValueError, KeyError, TypeError):
        return None
    if username == _TOKEN:
        return Credential("", "", secret)
    return Credential(username, secret) if username else None
