"""Autoscalers at the real API server, with measurements and a clock that tests move."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api.kinds import (
    COMPUTED,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    EVENT,
    HORIZONTAL_POD_AUTOSCALER,
    HORIZONTAL_POD_AUTOSCALER_V1,
    POD,
    POD_METRICS,
    Kind,
)
from orlop.api.objects import Key, condition_of, meta
from orlop.api.times import rfc3339
from orlop.client.clock import ManualClock
from orlop.controllers.autoscaling.horizontal_pod_autoscaler import HorizontalPodAutoscalers
from orlop.controllers.workloads.deployment.controller import Deployments
from orlop.controllers.workloads.replicaset import ReplicaSets
from tests.controllers.world import Kubelet, World, eventually, stays, workload

PERIOD = 15.0


class Measures:
    """What every pod uses: `cpu` thousandths of a core, in its one container."""

    kinds = COMPUTED

    def __init__(self, cluster, clock):
        self.cluster, self.clock = cluster, clock
        self.cpu = 0
        self.asked = 0

    async def objects(self, kind, namespace):
        self.asked += 1
        usage = {"cpu": f"{self.cpu}m", "memory": "100Mi"}
        return [
            {
                "kind": POD_METRICS.kind,
                "apiVersion": POD_METRICS.api_version,
                "metadata": {key: meta(pod).get(key) for key in ("name", "namespace", "labels")},
                "timestamp": rfc3339(self.clock.now()),
                "window": "10s",
                "containers": [{"name": "main", "usage": usage}],
            }
            for pod in await self.cluster.list(POD, namespace)
            if (pod.get("status") or {}).get("phase") == "Running"
        ]


@pytest.fixture
def clock(cluster: World) -> ManualClock:
    clock = ManualClock()
    cluster.server.registry.now = clock.now
    return clock


@pytest.fixture
def measures(cluster, clock):
    source = Measures(cluster, clock)
    cluster.server.serve_virtual(source)
    return source


def autoscaler(*metrics, name="web", least=1, most=10, target="web", **spec):
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": list(metrics) or [cpu(50)],
            **spec,
        },
    }


def cpu(percent):
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def parts(cluster, clock):
    return (
        lambda informers: Deployments(cluster.api, informers),
        lambda informers: ReplicaSets(cluster.api, informers),
        lambda informers: Kubelet(cluster.api, informers, clock=clock),
        lambda informers: HorizontalPodAutoscalers(cluster.api, informers, clock=clock),
    )


async def a_deployment(cluster, clock, replicas=1, name="web", request="1"):
    made = workload(DEPLOYMENT, name, replicas=replicas)
    requests = {"resources": {"requests": {"cpu": request}}} if request else {}
    made["spec"]["template"]["spec"]["containers"][0] |= requests
    await cluster.create(DEPLOYMENT, made)
    await running(cluster, replicas, name)
    clock.advance(600)  # all pods have been there for long


async def running(cluster, count, name="web"):
    async def are_there():
        pods = await cluster.list(POD, labels=f"app={name}")
        alive = [one for one in pods if "deletionTimestamp" not in meta(one)]
        ready = [condition_of(one, "Ready") for one in alive]
        assert len(alive) == count
        assert all(one is not None and one["status"] == "True" for one in ready)

    await eventually(are_there, f"{count} pods run")


async def replicas(cluster, count, clock=None):
    """With a clock, time passes meanwhile, a period at a time."""

    async def scaled():
        if clock is not None:
            clock.advance(PERIOD)
        assert (await cluster.get(DEPLOYMENT, "web"))["spec"]["replicas"] == count

    await eventually(scaled, f"{count} replicas are wanted")


async def condition(cluster, kind, reason, name="web"):
    async def said():
        found = condition_of(await cluster.get(HORIZONTAL_POD_AUTOSCALER, name), kind)
        assert found["reason"] == reason
        return found

    return await eventually(said, f"{kind} is {reason}")


async def events(cluster, reason):
    return [one["message"] for one in await cluster.list(EVENT) if one["reason"] == reason]


async def test_it_follows_the_load_up_and_down_again(cluster, clock, measures):
    async with cluster.running(*parts(cluster, clock)):
        await a_deployment(cluster, clock)
        measures.cpu = 1000
        await cluster.create(HORIZONTAL_POD_AUTOSCALER, autoscaler(most=4))
        await replicas(cluster, 2)
        await running(cluster, 2)
        clock.advance(600)
        await replicas(cluster, 4, clock)
        await eventually(lambda: _says_so(cluster))
        await running(cluster, 4)
        measures.cpu = 10
        clock.advance(PERIOD)
        await condition(cluster, "AbleToScale", "ScaleDownStabilized")
        await replicas(cluster, 1, clock)
        told = await eventually(lambda: _all(cluster))
        assert "New size: 1; reason: All metrics below target" in told
        above = "cpu resource utilization (percentage of request) above target"
        assert f"New size: 2; reason: {above}" in told


async def _says_so(cluster):
    status = (await cluster.get(HORIZONTAL_POD_AUTOSCALER, "web"))["status"]
    assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 4)
    current = status["currentMetrics"][0]["resource"]["current"]
    assert current == {"averageUtilization": 100, "averageValue": "1"}


async def _all(cluster):
    told = await events(cluster, "SuccessfulRescale")
    assert len(told) == 3
    return told


async def test_nothing_is_asked_where_there_is_no_autoscaler(cluster, clock, measures):
    async with cluster.running(*parts(cluster, clock)):
        await a_deployment(cluster, clock)
        clock.advance(600)
        assert measures.asked == 0
        await cluster.create(HORIZONTAL_POD_AUTOSCALER, autoscaler())
        await condition(cluster, "ScalingActive", "ValidMetricFound")
        asked = measures.asked
        await stays(lambda: _equal(measures, asked))
        clock.advance(PERIOD)
        await eventually(lambda: _equal(measures, asked + 1))
        await cluster.api.delete(HORIZONTAL_POD_AUTOSCALER, Key("default", "web"))
        await stays(lambda: _equal(measures, asked + 1))
        clock.advance(600)
        await stays(lambda: _equal(measures, asked + 1))


async def _equal(measures, count):
    return measures.asked == count


@pytest.mark.parametrize(
    ("now", "least", "most", "wanted", "why"),
    [(1, 3, 5, 3, "below Spec.MinReplicas"), (6, 1, 2, 2, "above Spec.MaxReplicas")],
    ids=["too few", "too many"],
)
async def test_bounds_hold_without_any_metric(cluster, clock, now, least, most, wanted, why):
    async with cluster.running(*parts(cluster, clock)):
        await a_deployment(cluster, clock, now)
        await cluster.create(HORIZONTAL_POD_AUTOSCALER, autoscaler(least=least, most=most))
        await replicas(cluster, wanted)

        async def told():
            (message,) = await events(cluster, "SuccessfulRescale")
            assert message == f"New size: {wanted}; reason: Current number of replicas {why}"

        await eventually(told)


async def test_a_target_of_none_is_left_alone(cluster, clock, measures):
    async with cluster.running(*parts(cluster, clock)):
        await a_deployment(cluster, clock, 0)
        await cluster.create(HORIZONTAL_POD_AUTOSCALER, autoscaler())
        found = await condition(cluster, "ScalingActive", "ScalingDisabled")
        assert found["status"] == "False"


async def test_a_target_that_is_not_there_is_said(cluster, clock, measures):
    async with cluster.running(*parts(cluster, clock)):
        await cluster.create(HORIZONTAL_POD_AUTOSCALER, autoscaler(target="nobody"))
        found = await condition(cluster, "AbleToScale", "FailedGetScale")
        assert 'deployments.apps "nobody" not found' in found["message"]


async def test_a_pod_without_a_request_is_named(cluster, clock, measures):
    async with cluster.running(*parts(cluster, clock)):
        await a_deployment(cluster, clock, request="")
        await cluster.create(HORIZONTAL_POD_AUTOSCALER, autoscaler())
        found = await condition(cluster, "ScalingActive", "FailedGetResourceMetric")
        assert "missing request for cpu in container main of Pod web-" in found["message"]
        assert len(await events(cluster, "FailedComputeMetricsReplicas")) == 1


async def test_two_autoscalers_of_one_target_do_nothing(cluster, clock, measures):
    async with cluster.running(*parts(cluster, clock)):
        await a_deployment(cluster, clock)
        await cluster.create(HORIZONTAL_POD_AUTOSCALER, autoscaler())
        await condition(cluster, "ScalingActive", "ValidMetricFound")
        await cluster.create(HORIZONTAL_POD_AUTOSCALER, autoscaler(name="other"))
        found = await condition(cluster, "ScalingActive", "AmbiguousSelector", "other")
        assert "default/other default/web" in found["message"]


async def test_memory_and_single_containers_count_too(cluster, clock, measures):
    amount = {"type": "AverageValue", "averageValue": "25Mi"}
    memory = {"type": "Resource", "resource": {"name": "memory", "target": amount}}
    async with cluster.running(*parts(cluster, clock)):
        await a_deployment(cluster, clock)
        await cluster.create(HORIZONTAL_POD_AUTOSCALER, autoscaler(memory))
        await replicas(cluster, 4)
        body = {"name": "cpu", "container": "main", "target": cpu(10)["resource"]["target"]}
        one = {"type": "ContainerResource", "containerResource": body}
        measures.cpu = 1000
        change = {"spec": {"metrics": [one]}}
        await running(cluster, 4)
        clock.advance(600)
        await cluster.patch(HORIZONTAL_POD_AUTOSCALER, "web", change)
        await replicas(cluster, 8)


def pods_metric(amount):
    body = {
        "metric": {"name": "requests"},
        "target": {"type": "AverageValue", "averageValue": amount},
    }
    return {"type": "Pods", "pods": body}


def object_metric(**target):
    described = {"apiVersion": "v1", "kind": "Service", "name": "front"}
    body = {"metric": {"name": "rate"}, "describedObject": described, "target": target}
    return {"type": "Object", "object": body}


def external_metric(**target):
    selector = {"matchLabels": {"queue": "a"}}
    body = {"metric": {"name": "depth", "selector": selector}, "target": target}
    return {"type": "External", "external": body}


class Adapter:
    """Serves the custom and external metrics APIs, as an adapter behind an APIService would."""

    def __init__(self, cluster, value="30"):
        self.cluster, self.value = cluster, value
        self.paths = []

    async def __call__(self, user, path, query):
        self.paths.append((path, dict(query)))
        if "/v1beta2/" in path:
            raise errors.NotFound("the server could not find the requested resource")
        if "/pods/*/" in path:
            pods = await self.cluster.list(POD)
            return {"items": [self._item(meta(pod)["name"]) for pod in pods]}
        return {"items": [self._item("front")]}

    def _item(self, name):
        return {"describedObject": {"name": name}, "value": self.value}


@pytest.mark.parametrize(
    ("metric", "path", "query"),
    [
        (
            pods_metric("10"),
            "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/pods/*/requests",
            {"labelSelector": "app=web"},
        ),
        (
            object_metric(type="Value", value="10"),
            "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/services/front/rate",
            {},
        ),
        (
            external_metric(type="AverageValue", averageValue="10"),
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/depth",
            {"labelSelector": "queue=a"},
        ),
        (
            external_metric(type="Value", value="10"),
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/depth",
            {"labelSelector": "queue=a"},
        ),
    ],
    ids=["pods", "object", "external for each", "external for all"],
)
async def test_metrics_of_an_adapter(cluster, clock, metric, path, query):
    adapter = cluster.server.registry.aggregated = Adapter(cluster)
    async with cluster.running(*parts(cluster, clock)):
        await a_deployment(cluster, clock)
        await cluster.create(HORIZONTAL_POD_AUTOSCALER, autoscaler(metric))
        await replicas(cluster, 3)
        assert (path, query) in adapter.paths


@pytest.mark.parametrize(
    ("metric", "reason", "group"),
    [
        (pods_metric("10"), "FailedGetPodsMetric", "custom.metrics.k8s.io"),
        (object_metric(type="Value", value="1"), "FailedGetObjectMetric", "custom.metrics.k8s.io"),
        (
            external_metric(type="Value", value="1"),
            "FailedGetExternalMetric",
            "external.metrics.k8s.io",
        ),
    ],
    ids=["pods", "object", "external"],
)
async def test_without_an_adapter_it_says_what_is_missing(cluster, clock, metric, reason, group):
    async with cluster.running(*parts(cluster, clock)):
        await a_deployment(cluster, clock)
        await cluster.create(HORIZONTAL_POD_AUTOSCALER, autoscaler(metric))
        found = await condition(cluster, "ScalingActive", reason)
        assert f"an adapter that serves {group} must be installed" in found["message"]


async def test_a_metric_that_fails_never_scales_down(cluster, clock, measures):
    async with cluster.running(*parts(cluster, clock)):
        await a_deployment(cluster, clock, 2)
        await cluster.create(HORIZONTAL_POD_AUTOSCALER, autoscaler(pods_metric("1"), cpu(50)))
        await condition(cluster, "ScalingActive", "FailedGetPodsMetric")
        measures.cpu = 1000
        await replicas(cluster, 4, clock)
        await condition(cluster, "ScalingActive", "ValidMetricFound")


async def test_what_version_1_says_is_done(cluster, clock, measures):
    old = autoscaler()
    old["apiVersion"] = "autoscaling/v1"
    del old["spec"]["metrics"]
    old["spec"]["targetCPUUtilizationPercentage"] = 25
    async with cluster.running(*parts(cluster, clock)):
        await a_deployment(cluster, clock)
        measures.cpu = 500
        await cluster.create(HORIZONTAL_POD_AUTOSCALER_V1, old)
        await replicas(cluster, 2)

        async def told():
            status = (await cluster.get(HORIZONTAL_POD_AUTOSCALER_V1, "web"))["status"]
            assert status["currentCPUUtilizationPercentage"] == 50

        await eventually(told)


GADGETS = Kind("example.com", "v1", "Gadget", "gadgets", True)


def definition():
    fields = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": fields, "status": fields}}
        },
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.size",
                "statusReplicasPath": ".status.size",
                "labelSelectorPath": ".status.selector",
            },
        },
    }
    names = {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "gadgets.example.com"}, "spec": spec}


async def test_custom_resources_are_scaled_by_their_own_fields(cluster, clock, measures):
    async with cluster.running(*parts(cluster, clock)):
        await cluster.create(CUSTOM_RESOURCE_DEFINITION, definition())
        gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}

        async def made():
            return await cluster.create(GADGETS, {**gadget, "spec": {"size": 2}})

        await eventually(made)
        status = {"status": {"size": 2, "selector": "app=web"}}
        await cluster.api.patch(GADGETS, Key("default", "g"), status, subresource="status")
        await a_deployment(cluster, clock, 2)
        measures.cpu = 1000
        target = {"apiVersion": "example.com/v1", "kind": "Gadget", "name": "g"}
        await cluster.create(HORIZONTAL_POD_AUTOSCALER, autoscaler(scaleTargetRef=target))

        async def scaled():
            assert (await cluster.api.get(GADGETS, Key("default", "g")))["spec"]["size"] == 4

        await eventually(scaled)
