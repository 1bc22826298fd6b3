"""Runs every pod under a service account, with its token and the CA in a folder.

An admission plugin, always on. It names the account (`default` where the pod names none), and where
tokens are issued it adds the projected volume `kube-api-access-…` to all containers that have not
mounted something there themselves. As plugin/pkg/admission/serviceaccount, but for one thing: the
account `default`, which a controller makes in every namespace, need not be there yet.
"""

from __future__ import annotations

import random

from ...api import kinds
from ...api.names import generate
from ...api.objects import Key, Obj
from ...store import Store
from ...wellknown import MIRROR, SERVICE_ACCOUNT_PATH
from ..request.failures import forbidden
from .chain import Attributes, Plugin

DEFAULT = "default"
_VOLUME = "kube-api-access-"
_ROOT_CA = "kube-root-ca.crt"
_LIFETIME = 3607  # seconds; see subresources.token for what is special about this number


class ServiceAccount(Plugin):
    def __init__(
        self, store: Store, *, has_tokens: bool = False, rng: random.Random | None = None
    ) -> None:
        """Prepare to mount tokens.

        Without `has_tokens` nothing is mounted: there is no key to sign one.
        """
        self._store = store
        self._has_tokens = has_tokens
        self._rng = rng or random.Random()

    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.obj
        if not _is_new_pod(attributes) or pod is None or not isinstance(pod.get("spec"), dict):
            return
        spec = pod["spec"]
        if MIRROR in (pod["metadata"].get("annotations") or {}):
            return  # it only shows what runs without it, and speaks for nobody
        spec["serviceAccountName"] = spec["serviceAccount"] = (
            spec.get("serviceAccountName") or spec.get("serviceAccount") or DEFAULT
        )
        account = self._account(attributes, spec["serviceAccountName"])
        if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]
        if self._has_tokens and _wants_token(spec, account):
            self._mount(spec)

    def _account(self, attributes: Attributes, name: str) -> Obj:
        key = Key(attributes.namespace, str(name))
        record = self._store.newest(kinds.SERVICE_ACCOUNT.resource, key)
        if record is not None:
            return record.decode()
        if name == DEFAULT or not self._has_tokens:
            return {}
        why = f'error looking up service account {key.namespace}/{name}: serviceaccount "{name}"'
        raise forbidden(attributes.kind, attributes.name, f"{why} not found")

    def _mount(self, spec: Obj) -> None:
        """Let every container have the folder, and the pod the volume if one needs it."""
        volumes = spec.get("volumes") or []
        has_volume = [v["name"] for v in volumes if str(v.get("name", "")).startswith(_VOLUME)]
        name = has_volume[0] if has_volume else generate(_VOLUME, self._rng)
        mount = {"name": name, "mountPath": SERVICE_ACCOUNT_PATH, "readOnly": True}
        needy = [container for container in _containers(spec) if not _has_mount(container)]
        for container in needy:
            container["volumeMounts"] = [*(container.get("volumeMounts") or []), dict(mount)]
        if needy and not has_volume:
            spec["volumes"] = [*volumes, _volume(name)]


def _is_new_pod(attributes: Attributes) -> bool:
    is_pod = (attributes.kind.group, attributes.kind.plural) == ("", "pods")
    return is_pod and attributes.operation == "CREATE" and not attributes.subresource


def _wants_token(spec: Obj, account: Obj) -> bool:
    """Return whether the pod wants a token. Its own word counts over its account's."""
    for holder in (spec, account):
        if holder.get("automountServiceAccountToken") is not None:
            return bool(holder["automountServiceAccountToken"])
    return True


def _containers(spec: Obj) -> list[Obj]:
    lists = (spec.get("initContainers") or [], spec.get("containers") or [])
    return [container for some in lists for container in some if isinstance(container, dict)]


def _has_mount(container: Obj) -> bool:
    mounts = container.get("volumeMounts") or []
    return any(mount.get("mountPath") == SERVICE_ACCOUNT_PATH for mount in mounts)


def _volume(name: str) -> Obj:
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _LIFETIME}},
        {"configMap": {"name": _ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
    ]
    return {"name": name, "projected": {"defaultMode": 0o644, "sources": sources}}
