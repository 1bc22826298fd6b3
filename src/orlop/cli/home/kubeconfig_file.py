"""Reads, writes and merges kubeconfig files: our own, made of the pki, and those of others.

Written by `serve`, read by `orlop kubeconfig` and the kubectl plugin. The user's own file is
changed on request, by way of `merged`.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from ...errors import ConfigError

Document = dict[str, Any]


def document(
    name: str, url: str, ca: bytes, certificate: bytes, key: bytes, *, user: str = ""
) -> Document:
    """Return a kubeconfig with one cluster, one user and one context, all in the file itself."""
    user = user or f"{name}-admin"
    cluster = {"server": url, "certificate-authority-data": _text(ca)}
    credentials = {"client-certificate-data": _text(certificate), "client-key-data": _text(key)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
        "preferences": {},
    }


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def dumped(config: Document) -> str:
    return yaml.safe_dump(config, sort_keys=False)


def loaded(path: Path) -> Document:
    """Return a kubeconfig file; empty where there is none."""
    try:
        config = yaml.safe_load(path.read_text()) or {}
    except FileNotFoundError:
        return {}
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is no kubeconfig: {error}; mend or move it") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{path} is no kubeconfig: expected a mapping; mend or move it")
    return config


def merged(theirs: Document, ours: Document) -> Document:
    """Return `theirs` with our cluster, user and context put in, and made the current one."""
    result = {"apiVersion": "v1", "kind": "Config", "preferences": {}, **theirs}
    for section in ("clusters", "users", "contexts"):
        new = {entry["name"] for entry in ours[section]}
        kept = [entry for entry in theirs.get(section) or [] if entry.get("name") not in new]
        result[section] = kept + ours[section]
    result["current-context"] = ours["current-context"]
    return result
