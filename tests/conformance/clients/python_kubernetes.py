"""The official Python client, typed and dynamic, through a day of an ordinary program.

Run by test_clients with the interpreter of the clients' environment and a namespace.
"""

import sys

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

NAMESPACE = sys.argv[1]
config.load_kube_config()
core, apps = client.CoreV1Api(), client.AppsV1Api()


def config_map(name, **data):
    return client.V1ConfigMap(
        metadata=client.V1ObjectMeta(name=name, labels={"made": "here"}), data=data
    )


def objects():
    made = core.create_namespaced_config_map(NAMESPACE, config_map("a", k="1"))
    assert made.metadata.uid
    core.create_namespaced_config_map(NAMESPACE, config_map("b", k="2"))
    try:
        core.create_namespaced_config_map(NAMESPACE, config_map("a"))
        raise AssertionError("a second one of the same name")
    except ApiException as error:
        assert (error.status, '"reason":"AlreadyExists"' in error.body.replace(" ", "")) == (
            409,
            True,
        )
    listed = core.list_namespaced_config_map(NAMESPACE, label_selector="made=here", limit=1)
    assert len(listed.items) == 1
    assert listed.metadata._continue
    rest = core.list_namespaced_config_map(
        NAMESPACE, label_selector="made=here", limit=1, _continue=listed.metadata._continue
    )
    assert [one.metadata.name for one in (*listed.items, *rest.items)] == ["a", "b"]
    made.data = {"k": "3"}
    assert core.replace_namespaced_config_map("a", NAMESPACE, made).data == {"k": "3"}
    try:
        core.replace_namespaced_config_map("a", NAMESPACE, made)
        raise AssertionError("an old state was written back")
    except ApiException as error:
        assert error.status == 409
    patched = core.patch_namespaced_config_map("a", NAMESPACE, {"data": {"x": "y"}})
    assert patched.data == {"k": "3", "x": "y"}
    remove = [{"op": "remove", "path": "/data/x"}]
    assert core.patch_namespaced_config_map("a", NAMESPACE, remove).data == {"k": "3"}


def watching():
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    core.create_namespaced_config_map(NAMESPACE, config_map("seen"))
    core.delete_namespaced_config_map("seen", NAMESPACE)
    seen = []
    watcher = watch.Watch()
    for event in watcher.stream(
        core.list_namespaced_config_map, NAMESPACE, resource_version=start, timeout_seconds=20
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 2:
            watcher.stop()
    assert seen == [("ADDED", "seen"), ("DELETED", "seen")]


def workloads():
    labels = {"app": "web"}
    container = client.V1Container(
        name="web",
        image="web",
        ports=[client.V1ContainerPort(container_port=80)],
        resources=client.V1ResourceRequirements(requests={"cpu": "100m"}),
    )
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
    )
    spec = client.V1DeploymentSpec(
        replicas=2, selector=client.V1LabelSelector(match_labels=labels), template=template
    )
    made = apps.create_namespaced_deployment(
        NAMESPACE, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    )
    assert made.spec.strategy.rolling_update.max_surge == "25%"
    scaled = apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 5}})
    assert scaled.spec.replicas == 5
    assert apps.read_namespaced_deployment("web", NAMESPACE).spec.replicas == 5
    apps.delete_namespaced_deployment("web", NAMESPACE)


def rights():
    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(
            resource_attributes=client.V1ResourceAttributes(verb="list", resource="pods")
        )
    )
    api = client.AuthorizationV1Api()
    assert api.create_self_subject_access_review(review).status.allowed


def applying():
    api = dynamic.DynamicClient(client.ApiClient())
    resource = api.resources.get(api_version="v1", kind="ConfigMap")
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "applied"},
        "data": {"a": "1"},
    }
    made = resource.server_side_apply(
        body, namespace=NAMESPACE, field_manager="here", force_conflicts=True
    )
    assert made.metadata.managedFields[0].manager == "here"
    try:
        resource.server_side_apply(
            {**body, "data": {"a": "2"}}, namespace=NAMESPACE, field_manager="other"
        )
        raise AssertionError("two managers of one field without a conflict")
    except ApiException as error:
        assert error.status == 409
    names = [one.metadata.name for one in resource.get(namespace=NAMESPACE).items]
    assert "applied" in names
    resource.delete(name="applied", namespace=NAMESPACE)


def ending():
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="made=here")
    left = core.list_namespaced_config_map(NAMESPACE, label_selector="made=here")
    assert left.items == []
    try:
        core.read_namespaced_config_map("a", NAMESPACE)
        raise AssertionError("it is still there")
    except ApiException as error:
        assert error.status == 404


for step in (objects, watching, workloads, rights, applying, ending):
    step()
    print(step.__name__, flush=True)
