"""update: optimistic, idempotent, and never more than the client may change."""

from __future__ import annotations

import asyncio
import random

import pytest

from orlop import errors
from orlop.api import kinds
from orlop.api.objects import Key

MAPS = "/api/v1/namespaces/default/configmaps"
A = Key("default", "a")


async def test_an_update_replaces_and_moves_the_revision(api, config_map) -> None:
    made = await api.create(kinds.CONFIG_MAP, config_map("a", {"x": "1"}))
    changed = await api.update(kinds.CONFIG_MAP, {**made, "data": {"y": "2"}})
    assert changed["data"] == {"y": "2"}
    assert changed["metadata"]["uid"] == made["metadata"]["uid"]
    assert int(changed["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_an_update_of_an_old_state_conflicts(api, config_map) -> None:
    made = await api.create(kinds.CONFIG_MAP, config_map("a"))
    await api.update(kinds.CONFIG_MAP, {**made, "data": {"y": "2"}})
    with pytest.raises(errors.Conflict, match="the object has been modified"):
        await api.update(kinds.CONFIG_MAP, {**made, "data": {"y": "3"}})


async def test_an_update_without_a_revision_wins_over_any(api, config_map) -> None:
    await api.create(kinds.CONFIG_MAP, config_map("a"))
    await api.update(kinds.CONFIG_MAP, config_map("a", {"y": "2"}))
    assert (await api.get(kinds.CONFIG_MAP, A))["data"] == {"y": "2"}


async def test_an_update_that_changes_nothing_keeps_the_revision(site, api, config_map) -> None:
    made = await api.create(kinds.CONFIG_MAP, config_map("a"))
    before = site.store.revision
    assert await api.update(kinds.CONFIG_MAP, made) == made
    assert site.store.revision == before


async def test_an_update_meant_for_another_of_the_same_name_conflicts(api, config_map) -> None:
    await api.create(kinds.CONFIG_MAP, config_map("a"))
    with pytest.raises(errors.Conflict, match="UID in precondition: other"):
        await api.update(kinds.CONFIG_MAP, config_map("a", uid="other"))


async def test_what_the_server_says_of_an_object_cannot_be_changed(api, config_map) -> None:
    made = await api.create(kinds.CONFIG_MAP, config_map("a"))
    stamped = config_map(
        "a", creationTimestamp="1999-01-01T00:00:00Z", deletionTimestamp="1999-01-01T00:00:00Z"
    )
    changed = await api.update(kinds.CONFIG_MAP, {**stamped, "data": {"y": "2"}})
    assert changed["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert "deletionTimestamp" not in changed["metadata"]


async def test_an_update_of_what_is_not_there_is_not_found(api, config_map) -> None:
    with pytest.raises(errors.NotFound, match='configmaps "a" not found'):
        await api.update(kinds.CONFIG_MAP, config_map("a"))


async def test_some_kinds_are_created_by_update(api) -> None:
    role = {"metadata": {"name": "r", "namespace": "default"}, "rules": []}
    made = await api.update(kinds.ROLE, role)
    assert made["metadata"]["uid"]


async def test_some_kinds_insist_on_a_revision(api) -> None:
    lease = {"metadata": {"name": "l", "namespace": "default"}, "spec": {"holderIdentity": "me"}}
    await api.create(kinds.LEASE, lease)
    with pytest.raises(errors.Invalid, match="must be specified for an update"):
        await api.update(kinds.LEASE, lease)


async def test_the_name_in_the_path_must_be_that_of_the_object(http, config_map) -> None:
    await http("POST", MAPS, config_map("a"))
    reply = await http("PUT", f"{MAPS}/a", config_map("b"))
    assert reply.code == 400
    assert (
        "the name of the object (b) does not match the name on the URL (a)"
        in (reply.json["message"])
    )


async def test_status_and_the_rest_are_written_apart(api, pod) -> None:
    made = await api.create(kinds.POD, pod("a"))
    made["status"] = {"phase": "Running", "podIP": "10.0.0.1"}
    made["spec"]["nodeName"] = "sneaked-in"
    after = await api.update(kinds.POD, made, subresource="status")
    assert after["status"]["phase"] == "Running"
    assert "nodeName" not in after["spec"]
    after["metadata"]["labels"] = {"x": "y"}
    after["status"] = {"phase": "Failed"}
    again = await api.update(kinds.POD, after)
    assert again["status"]["phase"] == "Running"
    assert again["metadata"]["labels"] == {"x": "y"}


async def test_generation_counts_changes_of_the_spec_alone(api) -> None:
    template = {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}  # fmt: skip
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = await api.create(kinds.DEPLOYMENT, {"metadata": {"name": "a", "namespace": "default"},
                                               "spec": spec})  # fmt: skip
    made["metadata"]["labels"] = {"x": "y"}
    labelled = await api.update(kinds.DEPLOYMENT, made)
    assert labelled["metadata"]["generation"] == 1
    labelled["spec"]["replicas"] = 5
    scaled = await api.update(kinds.DEPLOYMENT, labelled)
    assert scaled["metadata"]["generation"] == 2
    scaled["status"] = {"replicas": 5, "observedGeneration": 2}
    reported = await api.update(kinds.DEPLOYMENT, scaled, subresource="status")
    assert reported["metadata"]["generation"] == 2


async def test_a_dry_run_of_an_update_changes_nothing(http, config_map) -> None:
    await http("POST", MAPS, config_map("a"))
    reply = await http("PUT", f"{MAPS}/a?dryRun=All", config_map("a", {"y": "2"}))
    assert reply.json["data"] == {"y": "2"}
    assert (await http("GET", f"{MAPS}/a")).json["data"] == {"k": "v"}


async def test_taking_off_the_last_finalizer_of_a_deleted_object_removes_it(
    api, config_map
) -> None:
    await api.create(kinds.CONFIG_MAP, config_map("a", finalizers=["x.dev/one", "x.dev/two"]))
    await api.delete(kinds.CONFIG_MAP, A)
    held = await api.get(kinds.CONFIG_MAP, A)
    assert held["metadata"]["deletionTimestamp"]
    held["metadata"]["finalizers"] = ["x.dev/two"]
    held = await api.update(kinds.CONFIG_MAP, held)
    held["metadata"]["finalizers"] = []
    await api.update(kinds.CONFIG_MAP, held)
    with pytest.raises(errors.NotFound):
        await api.get(kinds.CONFIG_MAP, A)


async def test_a_hundred_writers_of_one_object_lose_no_write(api, config_map) -> None:
    """Each reads, adds one, writes, and tries again when it was too slow."""
    await api.create(kinds.CONFIG_MAP, config_map("a", {"n": "0"}))
    conflicts = 0

    async def add_one() -> None:
        nonlocal conflicts
        while True:
            current = await api.get(kinds.CONFIG_MAP, A)
            current["data"]["n"] = str(int(current["data"]["n"]) + 1)
            await asyncio.sleep(0)
            try:
                await api.update(kinds.CONFIG_MAP, current)
                return
            except errors.Conflict:
                conflicts += 1
                await asyncio.sleep(random.random() * 0.3)

    await asyncio.gather(*(add_one() for _ in range(100)))
    assert (await api.get(kinds.CONFIG_MAP, A))["data"] == {"n": "100"}
    assert conflicts > 0
