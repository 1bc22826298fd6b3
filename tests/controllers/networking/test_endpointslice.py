"""Services find their pods: as slices, and as Endpoints."""

from __future__ import annotations

import pytest

from orlop.api.kinds import ENDPOINT_SLICE, ENDPOINTS, POD, SERVICE
from orlop.api.objects import Key, key_of, labels_of, meta, uid_of
from orlop.controllers.networking.endpoints import EndpointsController
from orlop.controllers.networking.endpointslice import LARGEST, EndpointSlices, Group, arrange
from orlop.controllers.networking.service_pods import ports_of
from tests.controllers.world import Kubelet, World, eventually, pod, stays


def service(name: str = "web", **spec) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "labels": {"team": "a"}},
        "spec": {
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            **spec,
        },
    }


def parts(cluster: World, **kubelet):
    return (
        lambda informers: EndpointSlices(cluster.api, informers),
        lambda informers: EndpointsController(cluster.api, informers),
        lambda informers: Kubelet(cluster.api, informers, **kubelet),
    )


async def slices(cluster: World, name: str = "web") -> list[dict]:
    return await cluster.list(ENDPOINT_SLICE, labels=f"kubernetes.io/service-name={name}")


async def ready(cluster: World, name: str = "web") -> set[str]:
    """Names of pods that a proxy would send to."""
    return {
        endpoint["targetRef"]["name"]
        for one in await slices(cluster, name)
        for endpoint in one["endpoints"] or []
        if endpoint["conditions"]["ready"]
    }


async def test_ready_pods_are_published_in_both_ways(cluster):
    made = await cluster.create(SERVICE, service())
    await cluster.create(POD, pod("a", labels={"app": "web"}))
    await cluster.create(POD, pod("other", labels={"app": "else"}))
    async with cluster.running(*parts(cluster)):

        async def is_published():
            assert await ready(cluster) == {"a"}
            return (await cluster.get(ENDPOINTS, "web"))["subsets"][0]["addresses"]

        (address,) = await eventually(is_published)
        (one,) = await slices(cluster)
        bound = await cluster.get(POD, "a")
        assert one["addressType"] == "IPv4"
        assert one["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        assert one["endpoints"] == [
            {
                "addresses": [bound["status"]["podIP"]],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "nodeName": "n1",
                "targetRef": {
                    "kind": "Pod",
                    "namespace": "default",
                    "name": "a",
                    "uid": uid_of(bound),
                },
            }
        ]
        assert meta(one)["ownerReferences"][0]["uid"] == uid_of(made)
        assert labels_of(one) == {
            "team": "a",
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }
        assert address["ip"] == bound["status"]["podIP"]
        assert address["targetRef"]["name"] == "a"


async def test_readiness_labels_and_deletion_are_followed(cluster):
    await cluster.create(SERVICE, service())
    for name in ("a", "b", "c"):
        await cluster.create(POD, pod(name, labels={"app": "web"}))
    slow: set[str] = set()
    is_ready = lambda one: meta(one)["name"] not in slow  # noqa: E731
    async with cluster.running(*parts(cluster, is_ready=is_ready)):
        await eventually(lambda: _equal(ready(cluster), {"a", "b", "c"}))
        slow.add("b")
        await cluster.patch(POD, "b", {"metadata": {"annotations": {"look": "again"}}})
        await eventually(lambda: _equal(ready(cluster), {"a", "c"}))
        subset = (await eventually(lambda: _subsets(cluster, 2)))[0]
        assert [one["targetRef"]["name"] for one in subset["notReadyAddresses"]] == ["b"]
        await cluster.patch(POD, "c", {"metadata": {"labels": {"app": "debug"}}})
        await eventually(lambda: _equal(ready(cluster), {"a"}))
        await cluster.api.delete(POD, Key("default", "a"))
        await eventually(lambda: _equal(ready(cluster), set()))


async def _equal(found, expected) -> bool:
    return await found == expected


async def _subsets(cluster: World, number: int) -> list[dict]:
    subsets = (await cluster.get(ENDPOINTS, "web")).get("subsets") or []
    assert subsets
    assert len(subsets[0].get("addresses", [])) == number
    return subsets


async def test_a_service_without_pods_has_one_empty_slice(cluster):
    await cluster.create(SERVICE, service())
    async with cluster.running(*parts(cluster)):

        async def is_empty():
            (one,) = await slices(cluster)
            return not one["endpoints"]

        await eventually(is_empty)
        await stays(is_empty)


async def test_not_ready_pods_are_published_where_the_service_asks_for_it(cluster):
    await cluster.create(SERVICE, service(publishNotReadyAddresses=True))
    await cluster.create(POD, pod("a", labels={"app": "web"}))
    async with cluster.running(*parts(cluster, is_ready=lambda _: False)):
        await eventually(lambda: _equal(ready(cluster), {"a"}))
        ((endpoint,),) = [one["endpoints"] for one in await slices(cluster)]
        assert endpoint["conditions"] == {"ready": True, "serving": False, "terminating": False}
        await eventually(lambda: _subsets(cluster, 1))


async def test_a_headless_service_names_its_pods(cluster):
    await cluster.create(SERVICE, service(clusterIP="None"))
    named = pod("a", labels={"app": "web"}, hostname="first", subdomain="web")
    await cluster.create(POD, named)
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: _equal(ready(cluster), {"a"}))
        (one,) = await slices(cluster)
        assert one["endpoints"][0]["hostname"] == "first"
        assert labels_of(one)["service.kubernetes.io/headless"] == ""


async def test_services_without_a_selector_belong_to_who_made_them(cluster):
    spec = service("manual")
    del spec["spec"]["selector"]
    await cluster.create(SERVICE, spec)
    own = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "manual", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 1}]}],
    }
    await cluster.create(ENDPOINTS, own)
    async with cluster.running(*parts(cluster)):

        async def untouched():
            found = await cluster.get(ENDPOINTS, "manual")
            assert found["subsets"][0]["addresses"] == [{"ip": "10.9.9.9"}]
            return await slices(cluster, "manual") == []

        await stays(untouched)


async def test_a_deleted_service_takes_its_endpoints_with_it(cluster):
    await cluster.create(SERVICE, service())
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: cluster.get(ENDPOINTS, "web"))
        await cluster.api.delete(SERVICE, Key("default", "web"))

        async def is_gone():
            return await cluster.find(ENDPOINTS, "web") is None

        await eventually(is_gone)


async def test_a_slice_that_somebody_deletes_comes_back(cluster):
    await cluster.create(SERVICE, service())
    await cluster.create(POD, pod("a", labels={"app": "web"}))
    async with cluster.running(*parts(cluster)):
        await eventually(lambda: _equal(ready(cluster), {"a"}))
        (one,) = await slices(cluster)
        await cluster.api.delete(ENDPOINT_SLICE, key_of(one))

        async def is_new():
            (found,) = await slices(cluster)
            return uid_of(found) != uid_of(one)

        await eventually(is_new)


def endpoint(name: str, **more) -> dict:
    return {"addresses": [f"10.0.0.{name}"], "targetRef": {"uid": name}, **more}


def existing(name: str, *endpoints: dict) -> dict:
    return {**slice_for(list(endpoints)), "metadata": {**slice_for([])["metadata"], "name": name}}


A_SERVICE = {
    **service(),
    "metadata": {"name": "web", "namespace": "default", "uid": "u", "labels": {}},
}
PORTS = Group.of("IPv4", [{"name": "http", "port": 80, "protocol": "TCP"}])


def slice_for(endpoints: list[dict]) -> dict:
    (made,) = arrange(A_SERVICE, {PORTS: endpoints or [endpoint("0")]}, []).create
    return {**made, "endpoints": endpoints}


def test_endpoints_stay_where_they_are_and_new_ones_fill_up():
    first = existing("s1", *(endpoint(str(n)) for n in range(LARGEST - 1)))
    second = existing("s2", endpoint("200"), endpoint("201"))
    wanted = [*first["endpoints"], endpoint("201"), endpoint("300"), endpoint("301")]
    changes = arrange(A_SERVICE, {PORTS: wanted}, [first, second])
    assert (changes.create, changes.delete) == ([], [])
    sizes = {meta(one)["name"]: len(one["endpoints"]) for one in changes.update}
    assert sizes == {"s1": LARGEST, "s2": 2}


def test_what_is_right_is_not_written():
    kept = existing("s1", endpoint("1"), endpoint("2"))
    assert arrange(A_SERVICE, {PORTS: [endpoint("2"), endpoint("1")]}, [kept]) == ([], [], [])


def test_many_endpoints_make_several_slices_and_emptied_ones_go():
    wanted = [endpoint(str(n)) for n in range(2 * LARGEST + 1)]
    made = arrange(A_SERVICE, {PORTS: wanted}, []).create
    assert [len(one["endpoints"]) for one in made] == [LARGEST, LARGEST, 1]
    left = existing("s1", endpoint("gone"))
    other = existing("s2", endpoint("1"))
    changes = arrange(A_SERVICE, {PORTS: [endpoint("1")]}, [left, other])
    assert [meta(one)["name"] for one in changes.delete] == ["s1"]
    assert changes.update == []


def test_slices_of_former_ports_become_slices_of_the_new_ones_or_go():
    former = [existing("s1", endpoint("1")), existing("s2", endpoint("2"))]
    now = Group.of("IPv4", [{"name": "http", "port": 81, "protocol": "TCP"}])
    changes = arrange(A_SERVICE, {now: [endpoint("1"), endpoint("2")]}, former)
    assert changes.create == []
    assert [meta(one)["name"] for one in changes.delete] == ["s2"]
    (recycled,) = changes.update
    assert (meta(recycled)["name"], recycled["ports"][0]["port"]) == ("s1", 81)
    assert recycled["endpoints"] == [endpoint("1"), endpoint("2")]


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        ({"port": 80}, [{"port": 80, "protocol": "TCP"}]),
        ({"port": 80, "targetPort": 8080}, [{"port": 8080, "protocol": "TCP"}]),
        ({"port": 80, "targetPort": "http"}, [{"port": 9000, "protocol": "TCP"}]),
        ({"port": 80, "targetPort": "dns", "protocol": "UDP"}, [{"port": 53, "protocol": "UDP"}]),
        ({"port": 80, "targetPort": "dns"}, []),
        ({"port": 80, "targetPort": "absent"}, []),
        (
            {"port": 80, "name": "x", "appProtocol": "http"},
            [{"port": 80, "protocol": "TCP", "name": "x", "appProtocol": "http"}],
        ),
    ],
    ids=["same", "number", "name", "name and protocol", "other protocol", "absent", "all said"],
)
def test_ports_as_a_pod_has_them(port, expected):
    ports = [
        {"name": "http", "containerPort": 9000},
        {"name": "dns", "containerPort": 53, "protocol": "UDP"},
    ]
    backend = {"spec": {"containers": [{"ports": ports}]}}
    assert ports_of({"spec": {"ports": [port]}}, backend) == expected
