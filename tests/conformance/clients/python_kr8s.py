"""kr8s, as people use it in notebooks.

Run by test_clients with the interpreter of the clients' environment and a namespace.
"""

import sys

import kr8s
from kr8s.objects import ConfigMap, Deployment, Pod

NAMESPACE = sys.argv[1]
api = kr8s.api(namespace=NAMESPACE)
assert api.version()["major"] == "1"
assert any(kind["name"] == "pods" for kind in api.api_resources())

settings = ConfigMap(
    {"metadata": {"name": "settings", "namespace": NAMESPACE}, "data": {"colour": "red"}}
)
settings.create()
assert settings.exists()
settings.patch({"data": {"colour": "blue"}})
assert settings.raw["data"]["colour"] == "blue"
settings.label({"tier": "front"})
settings.annotate({"note": "hello"})
found = list(kr8s.get("configmaps", namespace=NAMESPACE, label_selector={"tier": "front"}))
assert [one.name for one in found] == ["settings"]
assert found[0].annotations["note"] == "hello"

web = Deployment(
    {
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    }
)
web.create()
web.spec["replicas"] = 1
web.patch({"spec": {"replicas": 3}})
web.refresh()
assert web.replicas == 3

pod = Pod.gen(name="solo", image="web", namespace=NAMESPACE)
pod.create()
pod.refresh()
assert pod.status.phase == "Pending"
assert not pod.ready()
assert [one.name for one in Pod.list(namespace=NAMESPACE)] == ["solo"]
events = api.watch("pods", namespace=NAMESPACE)
kind, seen = next(events)
assert (kind, seen.name) == ("ADDED", "solo")
pod.delete()

try:
    Pod.get("nobody", namespace=NAMESPACE, timeout=1)
    raise AssertionError("found a pod that is not there")
except kr8s.NotFoundError:
    pass
settings.delete()
web.delete()
assert not settings.exists()
