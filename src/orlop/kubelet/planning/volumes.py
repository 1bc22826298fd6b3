"""Plans a pod's volumes and mounts, as data for the agent.

Called while a plan is made. ConfigMaps, Secrets, tokens and the downward API become plain files
with their modes; folders, paths, exports and images are named and left to the compute node. What is
not here was refused before (see `field_support`). The disk is not used.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...api.objects import Obj, annotations_of, meta
from ...api.quantity import to_bytes
from ...api.selectors import from_structure
from ...client.storage import PROVISIONED_BY
from ...wellknown import FOLDER_PROVISIONER
from .downward_api import Allocatable, field_value, resource_value
from .expansion import Room, expand, unknown_names
from .refusal import Refusal, mount_refusal
from .sources import Sources, TokenWish

DEFAULT_MODE = 0o644
GROUP_READS = 0o440
MOST_OF_FILES = 64 << 20  # of all volumes of a pod
LONGEST_PATH = 4096  # PATH_MAX of Linux
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")
# Sources of a PersistentVolume, as far as they can be told from its other fields.
_FOREIGN = (
    "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume",
    "flocker", "gcePersistentDisk", "glusterfs", "iscsi", "photonPersistentDisk", "portworxVolume",
    "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class File:
    path: str
    data: bytes
    mode: int
    uid: int | None = None  # inside the pod; None: whoever the agent is there
    gid: int | None = None

    def planned(self) -> Obj:
        data = base64.b64encode(self.data).decode()
        owner = {"uid": self.uid, "gid": self.gid}
        given = {name: value for name, value in owner.items() if value is not None}
        return {"path": self.path, "data": data, "mode": self.mode, **given}


def planned_volumes(pod: Obj, sources: Sources, allocatable: Allocatable) -> list[Obj]:
    """Return the `volumes` of the plan, in the pod's order."""
    maker = _Maker(pod, sources, allocatable)
    return [maker.volume(volume) for volume in pod["spec"].get("volumes") or []]


def files_maker(pod: Obj, sources: Sources, allocatable: Allocatable) -> Callable[[str], list[Obj]]:
    """Return what makes the files of one volume after another, as they should be now."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or []}
    maker = _Maker(pod, sources, allocatable)

    def files_of(name: str) -> list[Obj]:
        return maker.volume(volumes[name])["files"]  # type: ignore[no-any-return]

    return files_of


def planned_mounts(container: Obj, variables: Mapping[str, str]) -> list[Obj]:
    """Return the `mounts` of a container in the plan."""
    return [
        {
            "volume": mount["name"],
            "path": mount["mountPath"],
            "readOnly": bool(mount.get("readOnly")),
            "subPath": _sub_path(mount, variables),
            **_manner(mount),
        }
        for mount in container.get("volumeMounts") or []
    ]


def _manner(mount: Obj) -> Obj:
    """Return how far read-only goes, and whether later mounts of the node are seen."""
    depth, propagation = mount.get("recursiveReadOnly"), mount.get("mountPropagation")
    found: Obj = {"recursiveReadOnly": depth} if depth in ("Enabled", "IfPossible") else {}
    return {**found, "propagates": True} if propagation == "HostToContainer" else found


def _sub_path(mount: Obj, variables: Mapping[str, str]) -> str:
    template = mount.get("subPathExpr")
    if not template:
        return str(mount.get("subPath") or "")
    if unknown_names(template, variables):
        raise Refusal(f'failed to expand subPath for volumeMount "{mount["name"]}": {template}')
    path = expand(template, variables)
    if len(path) > LONGEST_PATH:
        raise Refusal(f'subPath of volumeMount "{mount["name"]}" is longer than {LONGEST_PATH}')
    # As volumevalidation.ValidatePathNoBacksteps: a variable must not lead out of the volume.
    if path.startswith("/") or ".." in path.split("/"):
        raise Refusal(f'subPath "{path}" must be a relative path that does not contain ".."')
    return path


class _Maker:
    """Makes the volumes of one pod; one method for each kind of volume."""

    def __init__(self, pod: Obj, sources: Sources, allocatable: Allocatable) -> None:
        self._pod = pod
        self._sources = sources
        self._allocatable = allocatable
        # One Secret may be in thousands of files, and a plan has a copy for each.
        self._room = Room(MOST_OF_FILES, "a pod may have no more in files of its plan")

    def volume(self, volume: Obj) -> Obj:
        name = volume["name"]
        if "hostPath" in volume:
            return {"name": name, **_host_path(volume["hostPath"])}
        if volume.get("nfs"):
            return {"name": name, **_nfs(volume["nfs"])}
        if volume.get("image"):
            return {"name": name, "kind": "image", "path": self._sources.image_roots[name]}
        if volume.get("persistentVolumeClaim") or volume.get("ephemeral"):
            return {"name": name, **self._claimed(volume)}
        for kind, files in self._files_makers().items():
            if volume.get(kind) is not None:
                made = [file.planned() for file in self._made(name, files, volume[kind])]
                fixed = {"fixed": True} if self._is_fixed(volume) else {}
                return {"name": name, "kind": "files", "files": made, **fixed}
        # No source at all means emptyDir, as upstream's defaults have it.
        empty = volume.get("emptyDir") or {}
        limit = empty.get("sizeLimit")
        return {
            "name": name,
            "kind": "emptyDir",
            "medium": empty.get("medium") or "",
            "sizeLimit": None if limit is None else to_bytes(limit),
            **({} if limit is None else {"limit": str(limit)}),  # in the user's own words
            **self._group(),
        }

    def _claimed(self, volume: Obj) -> Obj:
        """Return what is behind a claim, as far as an ordinary user can mount it."""
        name, found = volume["name"], self._sources.volumes[volume["name"]]
        spec = found["spec"]
        if spec.get("volumeMode") == "Block":
            raise mount_refusal(name, "block devices cannot be had by an ordinary user")
        claim = volume.get("persistentVolumeClaim") or {}
        planned: Obj = {"readOnly": True} if claim.get("readOnly") else {}
        if annotations_of(found).get(PROVISIONED_BY) == FOLDER_PROVISIONER:
            path = (spec.get("hostPath") or {}).get("path", "")
            return {"kind": "folder", "path": path, **planned, **self._group()}
        if spec.get("hostPath"):
            return {**_host_path(spec["hostPath"]), **planned}
        if spec.get("local"):
            path = spec["local"]["path"]
            return {"kind": "hostPath", "path": path, "type": "", **planned, **self._group()}
        if spec.get("nfs"):
            return {**_nfs(spec["nfs"]), **planned}
        kinds = ", ".join(key for key in spec if key in _FOREIGN) or "an unknown kind"
        words = (
            f"persistent volume {meta(found)['name']} is of {kinds}, which needs a driver that an "
            "ordinary user cannot run; hostPath, local and nfs volumes reach what the nodes mount"
        )
        raise mount_refusal(name, words)

    def _owned(self, file: File, user: int | None) -> File:
        """Set the owner as SetVolumeOwnership of pkg/volume: what is read-only is the group's to
        read.
        """
        file = file if file.uid is not None else replace(file, uid=user)
        group = _context(self._pod).get("fsGroup")
        if group is None:
            return file
        return replace(file, gid=int(group), mode=file.mode | GROUP_READS)

    def _group(self) -> Obj:
        """Return the group that a volume gets beside its owner, for volumes that the pod may
        change.
        """
        context = _context(self._pod)
        if context.get("fsGroup") is None:
            return {}
        policy = context.get("fsGroupChangePolicy") or "Always"
        return {"fsGroup": int(context["fsGroup"]), "fsGroupPolicy": policy}

    def _is_fixed(self, volume: Obj) -> bool:
        """Return whether all of it comes from immutable objects, which are not looked at twice."""
        parts = (volume.get("projected") or {}).get("sources") or [volume]
        return bool(parts) and all(self._is_immutable(part) for part in parts)

    def _is_immutable(self, part: Obj) -> bool:
        if part.get("configMap"):
            found = self._sources.config_maps.get(part["configMap"].get("name", ""))
        elif part.get("secret"):
            secret = part["secret"]
            found = self._sources.secrets.get(secret.get("secretName") or secret.get("name", ""))
        else:
            return False
        return found is not None and bool(found.get("immutable"))

    def _made(self, name: str, files: Callable[[Obj, int], list[File]], source: Obj) -> list[File]:
        mode = source.get("defaultMode")
        try:
            made = files(source, DEFAULT_MODE if mode is None else int(mode))
            self._room.take(*(file.data for file in made))
            return [self._owned(file, source.get("defaultUser")) for file in made]
        except Refusal as refusal:
            raise mount_refusal(name, refusal.message) from refusal

    def _files_makers(self) -> dict[str, Callable[[Obj, int], list[File]]]:
        return {
            "configMap": self._config_map,
            "secret": self._secret,
            "downwardAPI": self._downward,
            "projected": self._projected,
        }

    def _config_map(self, source: Obj, mode: int) -> list[File]:
        name = source.get("name", "")
        values = self._sources.config_map(name)
        if values is None:
            return _absent(source, f'configmap "{name}" not found')
        return _picked(source, values, mode, "config")

    def _secret(self, source: Obj, mode: int) -> list[File]:
        name = source.get("secretName") or source.get("name", "")
        values = self._sources.secret(name)
        if values is None:
            return _absent(source, f'secret "{name}" not found')
        return _picked(source, values, mode, "secret")

    def _downward(self, source: Obj, mode: int) -> list[File]:
        files = []
        for item in source.get("items") or []:
            text = self._downward_value(item)
            files.append(File(item["path"], text.encode(), _mode(item, mode), item.get("user")))
        return files

    def _downward_value(self, item: Obj) -> str:
        if item.get("fieldRef"):
            return field_value(self._pod, item["fieldRef"]["fieldPath"])
        reference = item["resourceFieldRef"]
        return resource_value(self._pod, {"name": ""}, reference, self._allocatable)

    def _token(self, source: Obj, mode: int) -> list[File]:
        """Make a token's file as pkg/volume/projected: for the pod's one user, or for its fsGroup
        too.
        """
        token = self._sources.tokens.get(TokenWish.of(source))
        if token is None:
            raise Refusal("no token of the service account was issued")
        user = _one_user(self._pod["spec"])
        if _context(self._pod).get("fsGroup") is not None:
            mode = 0o640
        elif user is not None:
            mode = 0o600
        owner = source.get("user")
        return [File(source["path"], token.encode(), mode, user if owner is None else owner)]

    def _trust(self, source: Obj, mode: int) -> list[File]:
        """Make files as pkg/kubelet/clustertrustbundle: certificates of one bundle, or of a
        signer's.
        """
        chosen = trusted(source, self._sources.trust_bundles)
        if chosen is None:
            name = source.get("name")
            which = f'"{name}"' if name else f"of signer {source.get('signerName')}"
            return _absent(source, f"clustertrustbundle {which} not found")
        return [File(source["path"], chosen.encode(), mode, source.get("user"))]

    def _projected(self, source: Obj, mode: int) -> list[File]:
        makers = {
            **self._files_makers(),
            "serviceAccountToken": self._token,
            "clusterTrustBundle": self._trust,
        }
        files: dict[str, File] = {}
        for part in source.get("sources") or []:
            for kind, part_source in part.items():
                if kind in makers:
                    files.update({file.path: file for file in makers[kind](part_source, mode)})
        return list(files.values())


def trusted(source: Obj, bundles: Sequence[Obj]) -> str | None:
    """Return the certificates that a clusterTrustBundle source names, each once; None: there are
    none.

    By signer, no labelSelector at all selects nothing and an empty one everything, as upstream.
    """
    if source.get("name"):
        found = [one for one in bundles if meta(one)["name"] == source["name"]]
    else:
        signer, selector = (
            source.get("signerName") or "",
            from_structure(source.get("labelSelector")),
        )
        of_signer = [b for b in bundles if (b["spec"].get("signerName") or "") == signer]
        found = [b for b in of_signer if selector.matches(meta(b).get("labels") or {})]
    blocks = [block for one in found for block in _PEM.findall(one["spec"].get("trustBundle", ""))]
    return "".join(f"{block}\n" for block in sorted(set(blocks))) if found else None


def unmet_options(sources: Sources) -> list[str]:
    """Return what persistent volumes ask of a mount that was made by the site, long ago."""
    return [
        f'spec.volumes["{name}"]: mountOptions of persistent volume {meta(found)["name"]} are not '
        "applied: the node has mounted it already"
        for name, found in sources.volumes.items()
        if found["spec"].get("mountOptions")
    ]


def _host_path(source: Obj) -> Obj:
    return {"kind": "hostPath", "path": source["path"], "type": source.get("type") or ""}


def _nfs(source: Obj) -> Obj:
    where = {"server": source["server"], "path": source["path"]}
    return {"kind": "nfs", **where, "readOnly": bool(source.get("readOnly"))}


def _context(pod: Obj) -> Obj:
    return pod["spec"].get("securityContext") or {}


def _one_user(spec: Obj) -> int | None:
    """Return the uid that every container is told to run as, if it is one and the same."""
    of_pod = (spec.get("securityContext") or {}).get("runAsUser")
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    users = {(c.get("securityContext") or {}).get("runAsUser", of_pod) for c in containers}
    return users.pop() if len(users) == 1 else None


def _absent(source: Obj, words: str) -> list[File]:
    if source.get("optional"):
        return []
    raise Refusal(words)


def _picked(source: Obj, values: Mapping[str, bytes], mode: int, word: str) -> list[File]:
    """Return all keys, or those that `items` names, under the paths it gives them."""
    items: list[Any] = source.get("items") or []
    if not items:
        return [File(key, values[key], mode) for key in sorted(values)]
    files = []
    for item in items:
        if item["key"] in values:
            data = values[item["key"]]
            files.append(File(item["path"], data, _mode(item, mode), item.get("user")))
        elif not source.get("optional"):
            raise Refusal(f"references non-existent {word} key: {item['key']}")
    return files


def _mode(item: Obj, default: int) -> int:
    mode = item.get("mode")
    return default if mode is None else int(mode)
