"""Server-side apply beside Orlop's own components, which write the same objects."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.site import Site, eventually

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: {namespace}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {{name: main, image: busybox, command: [sleep, "60"]}}
"""


def apply(site: Site, replicas: int) -> str:
    manifest = WEB.format(namespace=site.namespace, replicas=replicas)
    return site.kubectl("apply", "--server-side", "-f", "-", input=manifest)


def managers(obj: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {
        (one["manager"], one["operation"], one.get("subresource", ""))
        for one in obj["metadata"]["managedFields"]
    }


def shown(site: Site, *what: str) -> Any:
    return json.loads(site.kubectl("get", *what, "-o", "json", "--show-managed-fields"))


def test_an_applied_deployment_runs_and_is_applied_again_without_conflicts(site: Site) -> None:
    apply(site, 2)
    eventually(
        lambda: shown(site, "deploy", "web").get("status", {}).get("readyReplicas") == 2,
        "two pods are ready",
    )
    assert managers(shown(site, "deploy", "web")) == {
        ("kubectl", "Apply", ""),
        ("kube-controller-manager", "Update", ""),
        ("kube-controller-manager", "Update", "status"),
    }
    for pod in shown(site, "pods", "-l", "app=web")["items"]:
        assert managers(pod) >= {
            ("kube-controller-manager", "Update", ""),
            ("kubelet", "Update", "status"),
        }
    apply(site, 1)
    eventually(
        lambda: shown(site, "deploy", "web")["status"].get("replicas") == 1, "one pod is left"
    )
    site.kubectl("delete", "deploy", "web")
