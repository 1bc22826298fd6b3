"""lightkube: typed models, apply, watches and generic resources.

Run by test_clients with the interpreter of the clients' environment and a namespace.
"""

import sys

from lightkube import ApiError, Client
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod
from lightkube.types import PatchType

NAMESPACE = sys.argv[1]
client = Client(namespace=NAMESPACE, field_manager="lightkube")


def config_map(name, **data):
    metadata = ObjectMeta(name=name, namespace=NAMESPACE, labels={"by": "lightkube"})
    return ConfigMap(metadata=metadata, data=data)


made = client.create(config_map("one", k="v"))
assert made.metadata.uid
made.data["k"] = "w"
assert client.replace(made).data == {"k": "w"}
assert client.patch(ConfigMap, "one", {"data": {"x": "1"}}).data == {"k": "w", "x": "1"}
steps = [{"op": "remove", "path": "/data/x"}]
assert client.patch(ConfigMap, "one", steps, patch_type=PatchType.JSON).data == {"k": "w"}
start = client.list(ConfigMap)
assert [one.metadata.name for one in start if one.metadata.labels] == ["one"]

applied = ConfigMap(
    apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name="two"), data={"a": "1"}
)
client.apply(applied)
try:
    client.apply(
        ConfigMap(
            apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name="two"), data={"a": "2"}
        ),
        field_manager="another",
    )
    raise AssertionError("two managers of one field without a conflict")
except ApiError as error:
    assert error.status.code == 409
    assert error.status.reason == "Conflict"

for event, seen in client.watch(ConfigMap, resource_version=start.resourceVersion):
    assert (event, seen.metadata.name) == ("ADDED", "two")
    break

labels = {"app": "web"}
deployment = Deployment(
    metadata=ObjectMeta(name="web"),
    spec=DeploymentSpec(
        replicas=2,
        selector=LabelSelector(matchLabels=labels),
        template=PodTemplateSpec(
            metadata=ObjectMeta(labels=labels),
            spec=PodSpec(containers=[Container(name="web", image="web")]),
        ),
    ),
)
created = client.create(deployment)
assert created.spec.template.spec.restartPolicy == "Always"
scale = client.get(Deployment.Scale, "web")
scale.spec.replicas = 4
assert client.replace(scale, "web").spec.replicas == 4
assert client.get(Deployment, "web").spec.replicas == 4
try:
    client.create(Pod(metadata=ObjectMeta(name="Bad_Name"), spec=PodSpec(containers=[])))
    raise AssertionError("a pod of a bad name, without containers")
except ApiError as error:
    assert error.status.code == 422
    assert {cause.field for cause in error.status.details.causes} >= {"metadata.name"}
client.delete(Deployment, "web")
client.deletecollection(ConfigMap)
assert [one.metadata.name for one in client.list(ConfigMap, labels={"by": "lightkube"})] == []
assert client.get(Namespace, NAMESPACE).status.phase == "Active"
