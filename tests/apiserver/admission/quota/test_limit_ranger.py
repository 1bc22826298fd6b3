"""Defaults and bounds of a namespace."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api import kinds


async def limit(local, **item) -> None:
    spec = {"limits": [{"type": "Container", **item}]}
    await local.create(
        kinds.LIMIT_RANGE, {"metadata": {"name": "limits", "namespace": "default"}, "spec": spec}
    )


def asking(pod, requests: dict | None = None, limits: dict | None = None, name: str = "a") -> dict:
    made = pod(name)
    made["spec"]["containers"][0]["resources"] = {
        "requests": requests or {},
        "limits": limits or {},
    }
    return made


async def test_what_a_container_leaves_out_is_filled_in_and_told(local, pod) -> None:
    await limit(local, default={"cpu": "2", "memory": "1Gi"}, defaultRequest={"cpu": "1"})
    made = pod("a")
    made["spec"]["initContainers"] = [
        {"name": "first", "image": "i", "resources": {"limits": {"cpu": "1"}}}
    ]
    made = await local.create(kinds.POD, made)
    resources = made["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"cpu": "2", "memory": "1Gi"}
    assert resources["requests"] == {"cpu": "1", "memory": "1Gi"}
    first = made["spec"]["initContainers"][0]["resources"]
    assert first["limits"]["cpu"] == first["requests"]["cpu"] == "1"
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container main; cpu, memory limit for "
        "container main; memory request for init container first; memory limit for init "
        "container first"
    )
    assert made["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("item", "least", "most", "why"),
    [
        ({"min": {"cpu": "1"}}, {"cpu": "500m"}, {"cpu": "2"},
         "minimum cpu usage per Container is 1, but request is 500m"),
        ({"max": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "2"},
         "maximum cpu usage per Container is 1, but limit is 2"),
        ({"max": {"memory": "1Gi"}, "type": "Pod"}, {}, {},
         "maximum memory usage per Pod is 1Gi.  No limit is specified"),
        ({"min": {"cpu": "1"}, "type": "Pod"}, {}, {},
         "minimum cpu usage per Pod is 1.  No request is specified"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "3"},
         "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {}, {},
         "cpu max limit to request ratio per Container is 2, but no request is specified or "
         "request is 0"),
    ],
)  # fmt: skip
async def test_what_is_out_of_bounds_is_refused(local, pod, item, least, most, why) -> None:
    await limit(local, **item)
    with pytest.raises(errors.Forbidden) as refused:
        await local.create(kinds.POD, asking(pod, least, most))
    assert refused.value.message == f'pods "a" is forbidden: {why}'


async def test_several_things_wrong_are_told_together(local, pod) -> None:
    await limit(local, max={"cpu": "1", "memory": "1Mi"})
    with pytest.raises(errors.Forbidden, match=r"\[maximum cpu .*, maximum memory .*\]"):
        await local.create(kinds.POD, asking(pod, {}, {"cpu": "2", "memory": "2Mi"}))


async def test_a_ratio_may_be_a_fraction_and_is_exact(local, pod) -> None:
    await limit(local, maxLimitRequestRatio={"cpu": "1.5"})
    await local.create(kinds.POD, asking(pod, {"cpu": "2"}, {"cpu": "3"}))
    with pytest.raises(errors.Forbidden, match="ratio per Container is 1500m"):
        await local.create(kinds.POD, asking(pod, {"cpu": "2"}, {"cpu": "3001m"}, name="b"))


async def test_pods_that_are_there_are_left_alone(local, pod) -> None:
    made = await local.create(kinds.POD, pod("a"))
    await limit(local, min={"cpu": "1"})
    made["metadata"]["labels"] = {"x": "y"}
    await local.update(kinds.POD, made)


@pytest.mark.parametrize(
    ("size", "why"),
    [
        ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
        ("1Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
    ],
)
async def test_claims_have_bounds_too(local, size, why) -> None:
    await limit(local, type="PersistentVolumeClaim", min={"storage": "1Gi"}, max={"storage": "2Gi"})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    claim = {"metadata": {"name": "c", "namespace": "default"}, "spec": spec}
    with pytest.raises(errors.Forbidden, match=why):
        await local.create(kinds.PERSISTENT_VOLUME_CLAIM, claim)
