"""Neighbours within a partition: what Slurm can be told, it is told."""

from __future__ import annotations

from tests.e2e.site import Obj, Site, eventually, pod

NODES = "slurm.orlop.dev/node-list"


def term(app: str) -> Obj:
    return {
        "labelSelector": {"matchLabels": {"app": app}},
        "topologyKey": "kubernetes.io/hostname",
    }


def required(kind: str, app: str) -> Obj:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term(app)]}}


def test_pods_that_must_be_apart_have_hosts_of_their_own(site: Site) -> None:
    for number in range(3):
        site.apply(
            pod(
                f"apart-{number}",
                "busybox",
                "sleep 60",
                metadata={"labels": {"app": "apart"}},
                affinity=required("podAntiAffinity", "apart"),
                terminationGracePeriodSeconds=0,
            )
        )
    running = [site.wait_phase(f"apart-{number}", "Running") for number in range(3)]
    hosts = {one["metadata"]["annotations"][NODES] for one in running}
    assert len(hosts) == 3
    told = dict(site.events("apart-0"))
    assert "--exclusive" in told["PlacementPassedOn"]
    site.kubectl("delete", "pods", "--all")


def test_a_pod_goes_to_the_host_of_the_one_it_must_be_near(site: Site) -> None:
    near = pod(
        "near",
        "busybox",
        "sleep 60",
        affinity=required("podAffinity", "store"),
        terminationGracePeriodSeconds=0,
    )
    site.apply(near)
    said = eventually(lambda: dict(site.events("near")).get("FailedScheduling"), "it waits")
    assert "didn't match pod affinity rules" in said
    store = pod("store", "busybox", "sleep 60", metadata={"labels": {"app": "store"}})
    site.apply({**store, "spec": {**store["spec"], "terminationGracePeriodSeconds": 0}})
    host = site.wait_phase("store", "Running")["metadata"]["annotations"][NODES]
    assert site.wait_phase("near", "Running")["metadata"]["annotations"][NODES] == host
    site.kubectl("delete", "pods", "--all")


def test_a_pod_that_can_never_fit_says_so_at_once(site: Site) -> None:
    big = {"resources": {"requests": {"cpu": "9"}}}
    site.apply(pod("big", "busybox", "true", container=big))
    said = eventually(lambda: dict(site.events("big")).get("FailedScheduling"), "it says so")
    assert said.startswith("0/3 nodes are available: ")
    assert "The largest hosts: " in said
    site.kubectl("delete", "pods", "--all")


def test_a_feature_that_some_hosts_have_is_found_by_selector_and_by_affinity(site: Site) -> None:
    label = "feature.slurm.orlop.dev/ib"
    with_it = set(site.run("sinfo", "-h", "-N", "-p", "main", "-o", "%N %f").stdout.splitlines())
    hosts = {line.split()[0] for line in with_it if "ib" in line.split()[1].split(",")}
    assert 0 < len(hosts) < len(with_it)
    expression = {"key": label, "operator": "In", "values": ["true"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    partition = {"slurm.orlop.dev/partition": "main"}
    site.apply(pod("selects", "busybox", "true", nodeSelector={label: "true", **partition}))
    site.apply(pod("asks", "busybox", "true", affinity=affinity, nodeSelector=partition))
    for name in ("selects", "asks"):
        ended = site.wait_phase(name, "Succeeded")
        assert ended["metadata"]["annotations"][NODES] in hosts
