"""What every cluster has from its first moment."""

from __future__ import annotations

from orlop.api import kinds
from orlop.api.objects import Key


async def test_namespaces_roles_and_the_apis_service_are_there(site, local) -> None:
    names = {one["metadata"]["name"] for one in (await local.list(kinds.NAMESPACE)).items}
    assert names == {"default", "kube-system", "kube-public", "kube-node-lease"}
    namespace = await local.get(kinds.NAMESPACE, Key("", "default"))
    assert namespace["status"]["phase"] == "Active"
    assert namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] == "default"
    service = await local.get(kinds.SERVICE, Key("default", "kubernetes"))
    assert service["spec"]["clusterIP"] == "10.96.0.1"
    assert service["spec"]["ports"][0]["targetPort"] == site.port
    await local.get(kinds.CLUSTER_ROLE, Key("", "cluster-admin"))


async def test_a_second_start_changes_nothing(site, local) -> None:
    await local.patch(kinds.NAMESPACE, Key("", "default"), {"metadata": {"labels": {"mine": "1"}}})
    before = site.store.revision
    await site.server.prepare(site.port)
    assert site.store.revision == before
