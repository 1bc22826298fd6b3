"""Built-in kinds: the managed fields that upstream writes for them, and what they cost."""

from __future__ import annotations

import msgspec
import pytest

from orlop.api import defaults, kinds
from orlop.api.managedfields.builtin import Shapes
from orlop.api.managedfields.compare import compare
from orlop.api.managedfields.configuration import fields_of
from orlop.api.managedfields.manager import update
from orlop.api.managedfields.shapes import LEAF, KeyedList, Leaf, Map, SetList, Struct
from orlop.api.managedfields.write import Write
from tests.api.test_speed import POD, round_trips


@pytest.fixture(scope="module")
def shapes(schema) -> Shapes:
    return Shapes(schema)


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "web", "image": "i", "ports": [{"containerPort": 80}]}]
            },
        },
    },
}

# As kube-apiserver answers to `kubectl create`.
CREATED = """
metadata: {labels: {".": {}, app: {}}}
spec:
  progressDeadlineSeconds: {}
  replicas: {}
  revisionHistoryLimit: {}
  selector: {}
  strategy: {rollingUpdate: {".": {}, maxSurge: {}, maxUnavailable: {}}, type: {}}
  template:
    metadata: {labels: {".": {}, app: {}}}
    spec:
      containers:
        'k:{"name":"web"}':
          ".": {}
          image: {}
          imagePullPolicy: {}
          name: {}
          ports:
            ".": {}
            'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, containerPort: {}, protocol: {}}
          resources: {}
          terminationMessagePath: {}
          terminationMessagePolicy: {}
      dnsPolicy: {}
      restartPolicy: {}
      schedulerName: {}
      securityContext: {}
      terminationGracePeriodSeconds: {}
"""


def expanded(tree: dict) -> dict:
    """The short form above as FieldsV1."""
    return {
        name if name[:2] == "k:" or name == "." else f"f:{name}": expanded(below)
        for name, below in tree.items()
    }


def test_a_created_deployment_is_owned_as_upstream_has_it(shapes: Shapes) -> None:
    obj = msgspec.json.decode(msgspec.json.encode(DEPLOYMENT))
    defaults.apply_defaults(kinds.DEPLOYMENT, obj)
    changed = compare({}, obj, shapes.of(kinds.DEPLOYMENT)).changed
    assert changed == expanded(msgspec.yaml.decode(CREATED))


def test_an_applied_one_is_owned_only_where_it_says_something(shapes: Shapes) -> None:
    fields = fields_of(DEPLOYMENT, shapes.of(kinds.DEPLOYMENT))
    container = fields["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"web"}']
    port = {".": {}, "f:containerPort": {}}
    ports = {'k:{"containerPort":80,"protocol":"TCP"}': port}
    assert container == {".": {}, "f:image": {}, "f:name": {}, "f:ports": ports}
    assert fields["f:metadata"] == {"f:labels": {"f:app": {}}}


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("spec.nodeSelector", Leaf),
        ("spec.tolerations", Leaf),
        ("spec.containers", KeyedList),
        ("spec.affinity", Struct),
        ("metadata.labels", Map),
        ("metadata.finalizers", SetList),
        ("metadata.ownerReferences", KeyedList),
        ("metadata.uid", Leaf),
    ],
)
def test_shapes_follow_the_facts(shapes: Shapes, path: str, shape: type) -> None:
    found = shapes.of(kinds.POD)
    for name in path.split("."):
        found = found.fields[name]
    assert isinstance(found, shape)


def test_a_selector_is_one_thing(shapes: Shapes) -> None:
    spec = shapes.of(kinds.DEPLOYMENT).fields["spec"]
    assert spec.fields["selector"] is LEAF


@pytest.mark.parametrize(
    ("kind", "subresource", "changed"),
    [
        (kinds.POD, "", ["f:metadata", "f:spec"]),
        (kinds.POD, "status", ["f:metadata", "f:status"]),
        (kinds.CONFIG_MAP, "", ["f:data", "f:metadata"]),
    ],
    ids=str,
)
def test_each_endpoint_owns_what_it_writes(shapes: Shapes, kind, subresource, changed) -> None:
    new = {
        "apiVersion": "v1",
        "kind": "X",
        "metadata": {"name": "a", "uid": "b", "resourceVersion": "1", "labels": {"a": "b"}},
        "spec": {"nodeName": "a"},
        "status": {"phase": "x"},
        "data": {"a": "b"},
    }
    found = compare({}, new, shapes.of(kind, subresource)).changed
    assert list(found) == changed
    assert list(found["f:metadata"]) == ["f:labels"]


def test_a_deployments_status_does_not_own_labels(shapes: Shapes) -> None:
    new = {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}}
    found = compare({}, new, shapes.of(kinds.DEPLOYMENT, "status")).changed
    assert list(found["f:metadata"]) == ["f:annotations"]


def test_every_kind_has_a_shape(shapes: Shapes) -> None:
    for kind in kinds.STORED:
        for subresource in ("", "status"):
            assert compare({}, {"metadata": {}}, shapes.of(kind, subresource)) == ({}, {})


def conditions(ready: str) -> list[dict]:
    names = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    return [{"type": name, "status": ready, "lastTransitionTime": "t"} for name in names]


def test_noting_who_wrote_a_pods_status_costs_few_round_trips_of_its_json(shapes) -> None:
    pod = msgspec.json.decode(POD)
    defaults.apply_defaults(kinds.POD, pod)
    update(Write("a", "v1", shapes.of(kinds.POD), "2026-01-01T00:00:00Z"), None, pod)
    pod["metadata"]["uid"] = "u"
    kubelet = Write("b", "v1", shapes.of(kinds.POD, "status"), "2026-01-01T00:00:01Z", "status")
    old = {**pod, "metadata": dict(pod["metadata"])}
    old["status"] = {"phase": "Pending", "conditions": conditions("False")}
    update(kubelet, pod, old)
    new = msgspec.json.decode(msgspec.json.encode(old))
    new["status"] = {"phase": "Running", "podIP": "10.0.0.1", "conditions": conditions("True")}

    def write() -> None:
        update(kubelet, old, {**new, "metadata": dict(new["metadata"])})

    assert round_trips(write) < 4
