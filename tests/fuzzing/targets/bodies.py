"""Bodies of requests: JSON, YAML, protobuf, patches, and the objects that are made of them."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from orlop.api import kinds, protobuf
from orlop.api.patch import json as json_patch
from orlop.api.patch import merge as merge_patch
from orlop.api.patch import strategic as strategic_patch
from orlop.api.schema import load
from orlop.apiserver import ApiServer
from orlop.apiserver.auth.authentication import User
from orlop.apiserver.registry import Call
from orlop.apiserver.request import body
from orlop.apiserver.verbs.apply import apply
from orlop.apiserver.verbs.create import create
from orlop.apiserver.verbs.patch import JSON, MERGE, STRATEGIC, patch
from orlop.errors import ApiError
from orlop.store import Store
from tests.api.test_protobuf import body as protobuf_body
from tools.devroot import PROJECT

from ..target import Loop, Registry, Target, encoded

target = Registry()
BOSS = User("fuzz", ("system:masters",))
_YAML_WORDS = encoded(
    (
        *(
            "---\n",
            "...\n",
            "&a ",
            "*a",
            "<<: *a\n",
            "? ",
            ": ",
            "- ",
            "|\n",
            ">-\n",
            "%YAML 1.1\n",
        ),
        *(
            "!!binary ",
            "!!set ",
            "!!omap ",
            "!!int ",
            "!!float ",
            "!!timestamp ",
            "!!python/name:os ",
        ),
        *(
            "!<tag:yaml.org,2002:str> ",
            "190:20:30",
            "1:1:1:1:1",
            ".inf",
            ".nan",
            "0o17",
            "0b1",
            "~",
        ),
        *("&a [*a, *a]", "2001-12-14t21:59:43.10-05:00", "[a, b", "{a: b", "\t", "#", "@", "`"),
    )
)
_PATCH_WORDS = encoded(
    (
        *("$patch", "replace", "delete", "merge", "$retainKeys", "$setElementOrder/containers"),
        *("$deleteFromPrimitiveList/finalizers", "add", "remove", "copy", "move", "test", "op"),
        *(
            "path",
            "from",
            "value",
            "/spec/containers/0",
            "/metadata/labels/-",
            "/-",
            "~1",
            "~0",
            "~",
        ),
        *("metadata", "spec", "containers", "name", "env", "ports", "labels", "managedFields"),
        *("f:spec", 'k:{"name":"a"}', "v:1", "i:0", ".", "fieldsV1", "fieldsType", "time"),
    )
)


def examples() -> list[dict[str, Any]]:
    """Objects that people really send, of the built-in kinds."""
    found: list[dict[str, Any]] = []
    for path in sorted((PROJECT / "examples").glob("*.yaml")):
        found += [one for one in yaml.safe_load_all(path.read_text()) if one]
    return [one for one in found if len(json.dumps(one)) < 3000]


def pod() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "default",
            "labels": {"a": "b"},
            "finalizers": ["example.com/a"],
            "annotations": {"orlop.dev/runtime": "native", "slurm.orlop.dev/time": "10"},
        },
        "spec": {
            "containers": [
                {
                    "name": "a",
                    "image": "busybox:1",
                    "command": ["sh", "-c", "true"],
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}],
                    "ports": [{"containerPort": 80, "name": "web", "protocol": "TCP"}],
                    "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"path": "/", "port": "web"}},
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                },
                {"name": "b", "image": "busybox:1"},
            ],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "tolerations": [{"key": "a", "operator": "Exists"}],
        },
    }


def _keepable(value: object) -> None:
    """What has been read is written again, into the store or an answer."""
    msgspec.json.encode(value)


@target("body-json", "apiserver/request/body.py: decode_json", "whoever has any token")
def body_json() -> Target:
    def run(data: bytes) -> None:
        _keepable(body.decode_object("application/json", data))

    seeds = tuple(json.dumps(one).encode() for one in [pod(), *examples()[:10]])
    return Target(run, seeds, refuses=(ApiError,), is_json=True, largest=1 << 19)


@target("body-yaml", "apiserver/request/body.py: decode_yaml", "whoever has any token")
def body_yaml() -> Target:
    def run(data: bytes) -> None:
        _keepable(body.decode_object("application/yaml", data))

    return Target(run, _yaml_seeds(), _YAML_WORDS, (ApiError,), longest=2048, largest=1 << 17)


@target("body-apply", "apiserver/request/body.py: apply_body", "whoever has any token")
def body_apply() -> Target:
    def run(data: bytes) -> None:
        _keepable(body.apply_body(data))

    seeds = (*_yaml_seeds(), json.dumps(pod()).encode())
    return Target(run, seeds, _YAML_WORDS, (ApiError,), longest=2048, largest=1 << 17)


def _yaml_seeds() -> tuple[bytes, ...]:
    small = sorted((yaml.safe_dump(one).encode() for one in examples()), key=len)[:12]
    return (
        *small,
        b"a: &x [1, 2]\nb: *x\nc: {<<: {d: 1}, e: ~}\n",
        b"on: yes\n1: 2\n0x1f: 0o17\nf: |\n  text\n  more\ng: >-\n  folded\n",
        b"a: \"\\u00e9\\x41\"\nb: 'it''s'\nc: !!binary aGk=\n? [1]\n: 2\n",
    )


@target("body-protobuf", "api/protobuf.py: decode", "whoever has any token")
def body_protobuf() -> Target:
    def run(data: bytes) -> None:
        _keepable(protobuf.decode(data))

    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "a.b.c"},
        "spec": {"group": "b.c", "versions": [{"name": "v1", "served": True, "storage": True}]},
    }
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "creationTimestamp": "2026-01-02T12:04:05Z"},
        "firstTimestamp": "2026-01-02T12:04:05Z",
        "eventTime": "2026-01-02T12:04:05.123456Z",
    }
    made = [_wired(one) for one in (pod(), definition, event)]
    return Target(run, tuple(made), encoded(("v1", "Pod", "DeleteOptions")), (ApiError,))


def _wired(obj: dict[str, Any]) -> bytes:
    """As protobuf; what the encoder of the tests does not know is left out."""
    obj = copy.deepcopy(obj)
    for one in (obj.get("spec") or {}).get("containers") or ():
        one.pop("livenessProbe", None)
    return protobuf_body(obj)


# Patches, by themselves


def _patching(change: Callable[[Any, Any], Any], patches: list[Any]) -> Target:
    base = msgspec.json.encode(pod())

    def run(data: bytes) -> None:
        patch = body.decode_json(data)
        _keepable(change(msgspec.json.decode(base), patch))

    seeds = tuple(json.dumps(one).encode() for one in patches)
    return Target(run, seeds, _PATCH_WORDS, (ApiError,), is_json=True)


JSON_PATCHES: list[Any] = [
    [{"op": "replace", "path": "/spec/containers/0/image", "value": "b:2"}],
    [{"op": "copy", "from": "/spec", "path": "/metadata/annotations"}] * 2,
    [{"op": "test", "path": "/metadata/name", "value": "p"}, {"op": "remove", "path": "/spec"}],
    [{"op": "add", "path": "/metadata/labels/a~1b", "value": {}},
     {"op": "move", "from": "/spec", "path": "/x"}],
    [{"op": "add", "path": "/spec/containers/-", "value": {"name": "c"}}],
]  # fmt: skip
MERGE_PATCHES: list[Any] = [
    {"metadata": {"labels": {"a": None, "b": "c"}}, "spec": {"containers": []}},
    {"spec": {"containers": [{"name": "a"}], "nodeName": None}},
]
STRATEGIC_PATCHES: list[Any] = [
    {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "$patch": "delete"}]}},
    {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"], "finalizers": ["b/c"]}},
    {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {}}]}},
    {"spec": {"$patch": "replace", "containers": [{"name": "z"}]}, "metadata": {"labels": None}},
    {"spec": {"containers": [{"name": "a", "env": [{"name": "A", "$patch": "delete"}],
                              "ports": [{"containerPort": 80, "$patch": "merge"}]}]}},
]  # fmt: skip


@target("patch-json", "api/patch/json.py, and jsonpatch below it", "small accounts")
def patch_json() -> Target:
    return _patching(json_patch.apply, JSON_PATCHES)


@target("patch-merge", "api/patch/merge.py", "small accounts")
def patch_merge() -> Target:
    return _patching(merge_patch.apply, MERGE_PATCHES)


@target("patch-strategic", "api/patch/strategic.py", "small accounts")
def patch_strategic() -> Target:
    struct = load(None).type_of(kinds.POD)
    return _patching(
        lambda obj, patch: strategic_patch.apply(obj, patch, struct), STRATEGIC_PATCHES
    )


# Whole writes, as a dry run: decoding by schema, defaults, managed fields, admission, rules


class Writes:
    """An API server without HTTP, whose objects nobody changes."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.folder = tempfile.TemporaryDirectory(prefix="orlop-fuzz-")
        self.client: Any = None
        self.registry = self.loop.run(self._open)
        self.by_kind = {
            (kind.api_version, kind.kind): kind
            for kind in kinds.STORED
            if not kind.group.startswith(("authentication", "authorization"))
        }

    async def _open(self) -> Any:
        store = await Store.open(Path(self.folder.name) / "state.db")
        server = ApiServer(store, schema=load(None))
        self.client = client = server.client("fuzz", ["system:masters"])
        await client.create(kinds.NAMESPACE, {"metadata": {"name": "default"}})
        account = {"metadata": {"name": "default", "namespace": "default"}}
        await client.create(kinds.SERVICE_ACCOUNT, account)
        await client.create(kinds.POD, pod())
        return server.registry

    def call(self, kind: kinds.Kind, name: str = "") -> Call:
        namespace = "default" if kind.namespaced else ""
        return Call(
            BOSS, kind, namespace, name, dry_run=True, field_manager="m", field_validation="Warn"
        )

    def create(self, data: bytes) -> None:
        obj = body.decode_json(data)
        of = (obj.get("apiVersion"), obj.get("kind")) if isinstance(obj, dict) else None
        kind = self.by_kind.get(of, kinds.POD) if _is_pair(of) else kinds.POD
        self.loop.run(lambda: create(self.registry, self.call(kind), obj))


def _is_pair(of: tuple[Any, Any] | None) -> bool:
    return of is not None and all(isinstance(one, str) for one in of)


@target(
    "object-create",
    "a whole create: schema, defaults, managed fields, admission, rules",
    "small accounts",
)
def object_create() -> Target:
    writes = Writes()
    known = [one for one in examples() if (one["apiVersion"], one["kind"]) in writes.by_kind]
    seeds = tuple(json.dumps(one).encode() for one in (pod(), *known))
    fields = sorted({name for one in known for name in _names_in(one)})
    return Target(writes.create, seeds, encoded((*fields, *_EDGES)), (ApiError,), is_json=True)


_EDGES = (
    *(
        "metadata",
        "generateName",
        "ownerReferences",
        "deletionTimestamp",
        "managedFields",
        "status",
    ),
    *("0 0 * * *", "1e3", "100m", "25%", "a in (b)", "=a", "IPv6", "::1", "10.0.0.0/33", "None"),
    *("2026-01-02T15:04:05Z", "9999-99-99T99:99:99Z", "0001-01-01T00:00:00Z", "P1D", "1h30m"),
)


def _names_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {*value, *(name for one in value.values() for name in _names_in(one))}
    if isinstance(value, list):
        return {name for one in value for name in _names_in(one)}
    return set()


@target("object-patch", "a whole patch of a pod, of each media type", "small accounts")
def object_patch() -> Target:
    writes = Writes()
    types = (JSON, MERGE, STRATEGIC)

    def run(data: bytes) -> None:
        found = body.decode_json(data)
        for media_type in types[:1] if isinstance(found, list) else types[1:]:
            call = writes.call(kinds.POD, "p")
            changed = patch(writes.registry, call, media_type, found)
            writes.loop.run(lambda changed=changed: changed)

    seeds = [*JSON_PATCHES, *MERGE_PATCHES, *STRATEGIC_PATCHES]
    made = tuple(json.dumps(one).encode() for one in seeds)
    return Target(run, made, _PATCH_WORDS, (ApiError,), is_json=True)


@target("object-apply", "a whole server-side apply to a pod", "small accounts")
def object_apply() -> Target:
    writes = Writes()

    def run(data: bytes) -> None:
        found, _ = body.apply_body(data)
        call = writes.call(kinds.POD, "p")
        writes.loop.run(lambda: apply(writes.registry, call, found, force=True))

    managed = [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "time": "2026-01-02T15:04:05Z",
                "fieldsV1": {"f:spec": {'k:{"name":"a"}': {".": {}, "f:image": {}},
                                        "v:1": {}}}}]  # fmt: skip
    entries = {**pod(), "metadata": {"name": "p", "managedFields": managed}}
    seeds = (pod(), {**pod(), "spec": {"containers": [{"name": "a"}]}}, entries)
    made = tuple(json.dumps(one).encode() for one in seeds)
    return Target(run, made, _PATCH_WORDS, (ApiError,), is_json=True)
