"""delete and deletecollection: grace, finalizers, preconditions, propagation."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api import kinds
from orlop.api.objects import Key
from orlop.api.times import parse

A = Key("default", "a")
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


async def bound_pod(api, pod) -> None:
    await api.create(kinds.POD, pod("a"))
    await api.create_subresource(kinds.POD, A, "binding", {"target": {"name": "n1"}})


async def test_most_kinds_go_at_once_and_answer_with_a_status(api, config_map) -> None:
    made = await api.create(kinds.CONFIG_MAP, config_map("a"))
    answer = await api.delete(kinds.CONFIG_MAP, A)
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    uid = made["metadata"]["uid"]
    assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": uid}
    with pytest.raises(errors.NotFound):
        await api.get(kinds.CONFIG_MAP, A)
    with pytest.raises(errors.NotFound):
        await api.delete(kinds.CONFIG_MAP, A)


async def test_a_pod_that_was_never_bound_goes_at_once(api, pod) -> None:
    await api.create(kinds.POD, pod("a"))
    assert (await api.delete(kinds.POD, A))["kind"] == "Pod"
    with pytest.raises(errors.NotFound):
        await api.get(kinds.POD, A)


async def test_a_bound_pod_is_given_its_grace(site, api, pod) -> None:
    await bound_pod(api, pod)
    before = site.server.registry.now()
    marked = await api.delete(kinds.POD, A)
    metadata = marked["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 30
    assert 29 <= parse(metadata["deletionTimestamp"]) - before <= 32
    assert await api.get(kinds.POD, A) == marked


async def test_a_second_delete_can_only_shorten_the_grace(api, pod) -> None:
    await bound_pod(api, pod)
    first = await api.delete(kinds.POD, A, grace=20)
    assert await api.delete(kinds.POD, A, grace=60) == first
    assert (await api.delete(kinds.POD, A, grace=5))["metadata"]["deletionGracePeriodSeconds"] == 5
    await api.delete(kinds.POD, A, grace=0)
    with pytest.raises(errors.NotFound):
        await api.get(kinds.POD, A)


async def test_a_pod_that_has_ended_goes_at_once(api, pod) -> None:
    await bound_pod(api, pod)
    await api.patch(kinds.POD, A, {"status": {"phase": "Succeeded"}}, subresource="status")
    await api.delete(kinds.POD, A)
    with pytest.raises(errors.NotFound):
        await api.get(kinds.POD, A)


@pytest.mark.parametrize(
    ("precondition", "word"), [({"uid": "other"}, "UID"), ({"resource_version": "1"}, "Version")]
)
async def test_preconditions_that_do_not_hold_conflict(api, config_map, precondition, word) -> None:
    await api.create(kinds.CONFIG_MAP, config_map("a"))
    with pytest.raises(errors.Conflict, match=f"Precondition failed: .*{word}"):
        await api.delete(kinds.CONFIG_MAP, A, **precondition)
    await api.get(kinds.CONFIG_MAP, A)


async def test_preconditions_that_hold_let_it_go(api, config_map) -> None:
    metadata = (await api.create(kinds.CONFIG_MAP, config_map("a")))["metadata"]
    await api.delete(
        kinds.CONFIG_MAP, A, uid=metadata["uid"], resource_version=metadata["resourceVersion"]
    )
    with pytest.raises(errors.NotFound):
        await api.get(kinds.CONFIG_MAP, A)


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
async def test_a_policy_is_a_finalizer_for_the_garbage_collector(
    api, config_map, policy, finalizer
) -> None:
    await api.create(kinds.CONFIG_MAP, config_map("a"))
    marked = await api.delete(kinds.CONFIG_MAP, A, propagation=policy)
    assert marked["metadata"]["finalizers"] == [finalizer]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    await api.patch(kinds.CONFIG_MAP, A, {"metadata": {"finalizers": None}})
    with pytest.raises(errors.NotFound):
        await api.get(kinds.CONFIG_MAP, A)


async def test_a_foreign_finalizer_holds_the_object(api, config_map) -> None:
    await api.create(kinds.CONFIG_MAP, config_map("a", finalizers=["x.dev/mine"]))
    first = await api.delete(kinds.CONFIG_MAP, A)
    assert first["metadata"]["deletionTimestamp"]
    assert await api.delete(kinds.CONFIG_MAP, A) == first, "a second delete changes nothing"


async def test_a_namespace_is_marked_until_it_is_finalized(api) -> None:
    await api.create(kinds.NAMESPACE, {"metadata": {"name": "n"}})
    marked = await api.delete(kinds.NAMESPACE, Key("", "n"))
    assert marked["status"]["phase"] == "Terminating"
    marked["spec"]["finalizers"] = []
    await api.update(kinds.NAMESPACE, marked, subresource="finalize")
    with pytest.raises(errors.NotFound):
        await api.get(kinds.NAMESPACE, Key("", "n"))


async def test_options_come_in_the_body_or_in_the_query(http, config_map) -> None:
    await http("POST", MAPS, config_map("a"))
    reply = await http("DELETE", f"{MAPS}/a?propagationPolicy=Foreground")
    assert reply.json["metadata"]["finalizers"] == ["foregroundDeletion"]
    await http("POST", MAPS, config_map("b"))
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "orphanDependents": True}
    reply = await http("DELETE", f"{MAPS}/b", body)
    assert reply.json["metadata"]["finalizers"] == ["orphan"]


@pytest.mark.parametrize(
    "options", [{"propagationPolicy": "Maybe"}, ["x"],
                {"propagationPolicy": "Orphan", "orphanDependents": True}],
)  # fmt: skip
async def test_options_that_make_no_sense_are_refused(http, config_map, options) -> None:
    await http("POST", MAPS, config_map("a"))
    assert (await http("DELETE", f"{MAPS}/a", options)).code == 400


async def test_a_dry_run_of_a_delete_deletes_nothing(http, config_map, pod) -> None:
    await http("POST", MAPS, config_map("a"))
    assert (await http("DELETE", f"{MAPS}/a?dryRun=All")).code == 200
    assert (await http("DELETE", f"{MAPS}/a", {"dryRun": ["All"]})).code == 200
    assert (await http("GET", f"{MAPS}/a")).code == 200


async def test_a_collection_is_deleted_by_selector(http, config_map) -> None:
    for name, colour in [("a", "red"), ("b", "blue"), ("c", "red")]:
        await http("POST", MAPS, config_map(name, labels={"colour": colour}))
    reply = await http("DELETE", f"{MAPS}?labelSelector=colour%3Dred")
    assert [item["metadata"]["name"] for item in reply.json["items"]] == ["a", "c"]
    left = (await http("GET", MAPS)).json["items"]
    assert [item["metadata"]["name"] for item in left] == ["b"]


async def test_a_large_collection_is_deleted_whole(local, http, config_map) -> None:
    for n in range(150):
        await local.create(kinds.CONFIG_MAP, config_map(f"m{n}"))
    assert (await http("DELETE", MAPS)).code == 200
    assert (await http("GET", MAPS)).json["items"] == []
