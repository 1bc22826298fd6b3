"""kubernetes_asyncio: the same API over aiohttp, with several requests at once.

Run by test_clients with the interpreter of the clients' environment and a namespace.
"""

import asyncio
import sys

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.exceptions import ApiException

NAMESPACE = sys.argv[1]
KIND = {"group": "async.example.com", "version": "v1", "plural": "widgets"}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.async.example.com"},
    "spec": {
        "group": "async.example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"size": {"type": "integer", "minimum": 1}},
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
            }
        ],
    },
}


def widget(name, size):
    return {
        "apiVersion": "async.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": size},
    }


async def many(core):
    bodies = [{"metadata": {"name": f"n{number}"}, "data": {"k": "v"}} for number in range(20)]
    made = await asyncio.gather(
        *(core.create_namespaced_config_map(NAMESPACE, body) for body in bodies)
    )
    revisions = [int(one.metadata.resource_version) for one in made]
    assert len(set(revisions)) == 20
    listed = await core.list_namespaced_config_map(NAMESPACE)
    assert {one.metadata.name for one in listed.items} >= {f"n{number}" for number in range(20)}
    await core.delete_collection_namespaced_config_map(NAMESPACE)


async def custom(api):
    definitions = client.ApiextensionsV1Api(api)
    await definitions.create_custom_resource_definition(DEFINITION)
    custom_objects = client.CustomObjectsApi(api)
    where = {**KIND, "namespace": NAMESPACE}
    for _ in range(50):
        try:
            await custom_objects.create_namespaced_custom_object(**where, body=widget("w", 2))
            break
        except ApiException as error:
            assert error.status == 404, error
            await asyncio.sleep(0.1)
    try:
        await custom_objects.create_namespaced_custom_object(**where, body=widget("bad", 0))
        raise AssertionError("too small a widget was taken")
    except ApiException as error:
        assert error.status == 422
    found = await custom_objects.list_namespaced_custom_object(**where)
    assert [one["spec"]["size"] for one in found["items"]] == [2]
    events = watch.Watch().stream(
        custom_objects.list_namespaced_custom_object,
        **where,
        resource_version=found["metadata"]["resourceVersion"],
        timeout_seconds=20,
    )
    await custom_objects.patch_namespaced_custom_object_status(
        **where,
        name="w",
        body={"status": {"is": "fine"}},
        _content_type="application/merge-patch+json",
    )
    async for event in events:
        assert (event["type"], event["object"]["status"]) == ("MODIFIED", {"is": "fine"})
        break
    await definitions.delete_custom_resource_definition("widgets.async.example.com")


async def main():
    await config.load_kube_config()
    async with client.ApiClient() as api:
        version = await client.VersionApi(api).get_code()
        assert version.major == "1"
        await many(client.CoreV1Api(api))
        await custom(api)


asyncio.run(main())
