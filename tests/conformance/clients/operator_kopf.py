"""A small operator on kopf: each Greeting becomes a ConfigMap with the words to say.

Run by test_clients with `kopf run`. It uses what operators use: a definition of its own,
finalizers, status, events, owner references, resuming, and a timer.
"""

import kopf
import kubernetes_asyncio as kubernetes


@kopf.on.startup()
async def connect(settings, **_):
    await kubernetes.config.load_kube_config()
    settings.posting.enabled = True


def words(spec):
    return {"words": f"{spec.get('word', 'hello')}, {spec['whom']}"}


@kopf.on.create("example.com", "v1", "greetings")
@kopf.on.resume("example.com", "v1", "greetings")
async def make(spec, name, namespace, patch, body, **_):
    wanted = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": words(spec),
    }
    kopf.adopt(wanted)
    async with kubernetes.client.ApiClient() as api:
        core = kubernetes.client.CoreV1Api(api)
        try:
            await core.create_namespaced_config_map(namespace, wanted)
        except kubernetes.client.ApiException as error:
            if error.status != 409:
                raise
    kopf.info(body, reason="Greeted", message="all is said")
    patch.status["said"] = words(spec)["words"]


@kopf.on.update("example.com", "v1", "greetings", field="spec")
async def change(spec, name, namespace, patch, **_):
    async with kubernetes.client.ApiClient() as api:
        core = kubernetes.client.CoreV1Api(api)
        await core.patch_namespaced_config_map(name, namespace, {"data": words(spec)})
    patch.status["said"] = words(spec)["words"]


@kopf.on.delete("example.com", "v1", "greetings")
async def unmake(name, namespace, **_):
    async with kubernetes.client.ApiClient() as api:
        await kubernetes.client.CoreV1Api(api).delete_namespaced_config_map(name, namespace)


@kopf.timer("example.com", "v1", "greetings", interval=5.0)
async def mind(patch, **_):
    patch.status["minded"] = True
