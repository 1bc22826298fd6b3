"""A pod's claims are mounted once they are bound, and no job is asked for before."""

from __future__ import annotations

import json

from orlop.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from orlop.api.objects import Key

from .conftest import eventually

SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]


async def bind(site, holder="", **spec):
    """What the binder would do."""
    claim = {"metadata": {"name": "data"}, "spec": {**SPEC, **spec, "volumeName": "pv"}}
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    made = await site.api.create(PERSISTENT_VOLUME_CLAIM, claim, namespace="default")
    own = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    holder = {"namespace": "default", "name": "data", "uid": holder or made["metadata"]["uid"]}
    own |= {"hostPath": {"path": "/data"}, "claimRef": holder}
    await site.api.create(PERSISTENT_VOLUME, {"metadata": {"name": "pv"}, "spec": own})
    status = {"status": {"phase": "Bound"}}
    key = Key("default", "data")
    await site.api.patch(PERSISTENT_VOLUME_CLAIM, key, status, subresource="status")


async def said(site, words, name="web"):
    async def told():
        return any(words in note for note in map(str, await site.events(name)))

    await eventually(told, words)


async def test_a_pod_whose_claim_is_not_bound_waits_and_is_told(site):
    claim = {"metadata": {"name": "data"}, "spec": SPEC}
    await site.api.create(PERSISTENT_VOLUME_CLAIM, claim, namespace="default")
    await site.create(volumes=VOLUME)
    await said(site, "error processing PVC default/data: PVC is not bound")
    assert not list(site.paths.pods.glob("*"))


async def test_a_pod_without_its_claim_waits_and_is_told(site):
    await site.create(volumes=VOLUME)
    await said(site, 'persistentvolumeclaim "data" not found')


async def test_a_bound_claim_is_the_path_of_its_volume(site):
    await bind(site)
    await site.create(volumes=VOLUME)
    await site.submitted()
    plan = json.loads((site.folder() / "plan.json").read_text())
    assert plan["volumes"][0] == {"name": "d", "kind": "hostPath", "path": "/data", "type": ""}


async def test_a_claim_that_only_says_it_is_bound_gives_nobody_anothers_volume(site):
    await bind(site, holder="of-another-claim")
    await site.create(volumes=VOLUME)
    await said(site, "PV pv is not bound to this claim")
    assert not list(site.paths.pods.glob("*"))


async def test_read_write_once_pod_is_held_to_one_pod_here_too(site):
    await bind(site, accessModes=["ReadWriteOncePod"])
    await site.create("a", volumes=VOLUME)
    await site.submitted("a")
    await site.create("b", volumes=VOLUME)
    await said(site, "is ReadWriteOncePod and used by pod default/a", "b")


async def test_an_ephemeral_volume_takes_only_the_claim_of_its_pod(site):
    volumes = [{"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": SPEC}}}]
    claim = {"metadata": {"name": "web-d"}, "spec": SPEC}
    await site.api.create(PERSISTENT_VOLUME_CLAIM, claim, namespace="default")
    await site.create(volumes=volumes)
    await said(site, "was not created for pod")


async def test_a_pod_goes_as_soon_as_its_claim_is_bound(site):
    await site.create(volumes=VOLUME)
    await said(site, 'persistentvolumeclaim "data" not found')
    await bind(site)
    await site.submitted()
