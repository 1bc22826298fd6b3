"""Selectors see the same in the narrow parse as in the whole object."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from orlop.api import kinds
from orlop.api.fields import selectable
from orlop.api.objects import Key
from orlop.apiserver.objects.selection import ALL, select
from orlop.store import Record, Store

LABELS = {"app": "web", "tier": "front"}
POD = {
    "metadata": {"name": "a", "namespace": "default", "labels": LABELS},
    "spec": {"nodeName": "n1", "hostNetwork": True, "containers": [{"name": "c"}]},
    "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "podIP": "10.0.0.1"},
}
EVENT = {
    "metadata": {"name": "a", "namespace": "default"},
    "involvedObject": {"kind": "Pod", "name": "p", "uid": "u"},
    "reason": "Started",
    "type": "Normal",
    "source": {"component": "kubelet"},
}
JOB = {"metadata": {"name": "a", "namespace": "default"}, "status": {"succeeded": 3}}


def record(obj: dict[str, Any]) -> Record:
    metadata = obj["metadata"]
    key = Key(metadata.get("namespace", ""), metadata["name"])
    return Record(1, key, msgspec.json.encode(obj))


@pytest.mark.parametrize(
    ("kind", "obj", "labels", "fields", "expected"),
    [
        (kinds.POD, POD, "", "", True),
        (kinds.POD, POD, "app=web", "", True),
        (kinds.POD, POD, "app=web,tier!=front", "", False),
        (kinds.POD, POD, "", "spec.nodeName=n1", True),
        (kinds.POD, POD, "", "spec.nodeName!=n1", False),
        (kinds.POD, POD, "", "spec.hostNetwork=true,status.phase=Running", True),
        (kinds.POD, POD, "", "status.podIPs=10.0.0.1", True),
        (kinds.POD, POD, "", "metadata.name=a", True),
        (kinds.POD, POD, "", "metadata.name=b", False),
        (kinds.POD, POD, "", "metadata.name=a,status.phase=Failed", False),
        (kinds.POD, POD, "app=none", "metadata.name=a", False),
        (kinds.POD, POD, "", "metadata.namespace=default", True),
        (kinds.EVENT, EVENT, "", "involvedObject.name=p,involvedObject.kind=Pod", True),
        (kinds.EVENT, EVENT, "", "involvedObject.uid=other", False),
        (kinds.EVENT, EVENT, "", "source=kubelet,reason=Started,type=Normal", True),
        (kinds.EVENTS_EVENT, EVENT, "", "regarding.name=p,reportingController=", True),
        (kinds.JOB, JOB, "", "status.successful=3", True),
        (kinds.NODE, {"metadata": {"name": "n"}}, "", "spec.unschedulable=false", True),
        (kinds.NODE, {"metadata": {"name": "n"}}, "!x", "", True),
    ],
)
def test_selectors_match_as_on_the_whole_object(kind, obj, labels, fields, expected) -> None:
    selection = select(kind, labels, fields)
    assert selection.matches(record(obj)) is expected
    whole = selection.labels.matches(obj["metadata"].get("labels") or {})
    assert (whole and selection.fields.matches(obj)) is expected


@pytest.mark.parametrize("kind", kinds.STORED, ids=lambda kind: kind.resource)
def test_every_selectable_field_survives_the_narrow_parse(kind) -> None:
    """An object that has a value at every path is selected by each of them."""
    obj: dict[str, Any] = {"metadata": {"name": "a", "namespace": "b", "labels": {"x": "y"}}}
    for path in selectable(kind):
        outer, _, inner = path.partition(".")
        if inner and outer != "metadata":
            obj.setdefault(outer, {})[inner] = "v"
        elif not inner:
            obj[outer] = "v"
    if isinstance(obj.get("source"), str):
        obj["source"] = {"component": "v"}
    if kind is kinds.POD:
        obj["status"]["podIPs"] = [{"ip": "v"}]
    for path in selectable(kind):
        selection = select(kind, "x=y", f"{path}=v")
        assert selection.matches(record(obj)) is selection.fields.matches(obj)


def test_everything_matches_without_a_look() -> None:
    assert ALL.is_everything
    assert ALL.matches(Record(1, Key("", "a"), b"not even JSON"))
    by_name = select(kinds.POD, fields="metadata.name=a")
    assert by_name.matches(Record(1, Key("", "a"), b"not even JSON"))


@pytest.mark.parametrize(
    ("kind", "labels", "fields", "terms"),
    [
        (kinds.POD, "app=web,tier in (front)", "", ["app=web", "tier=front"]),
        (kinds.POD, "app!=web,tier in (a,b),x", "", []),
        (kinds.POD, "", "spec.nodeName=n1,status.phase=Running", [".spec.nodeName=n1"]),
        (kinds.POD, "", "spec.nodeName=", [".spec.nodeName="]),
        (kinds.POD, "", "spec.nodeName!=n1", []),
        (kinds.EVENT, "", "involvedObject.name=p", [".involvedObject.name=p"]),
        (kinds.EVENTS_EVENT, "", "regarding.name=p", []),
    ],
)
def test_what_an_index_can_answer_is_asked_of_it(kind, labels, fields, terms) -> None:
    assert select(kind, labels, fields).terms == terms


@pytest.mark.parametrize(
    ("labels", "fields"),
    [("app=web", ""), ("", "spec.nodeName=n1"), ("app=db", "spec.nodeName="), ("a!=b", "")],
)
async def test_a_list_by_index_shows_what_a_scan_shows(tmp_path, labels, fields) -> None:
    store = await Store.open(tmp_path / "state.db")
    for number in range(30):
        spec = {"nodeName": f"n{number % 3}"} if number % 4 else {}
        metadata = {"name": f"p{number}", "namespace": "default"}
        metadata |= {"labels": {"app": "web" if number % 2 else "db"}} if number % 5 else {}
        obj = {"metadata": metadata, "spec": spec}
        await store.create("pods", Key("default", f"p{number}"), obj)
    selection = select(kinds.POD, labels, fields)
    found = [r for r in selection.find(store, "pods", "").records if selection.matches(r)]
    assert found == [r for r in store.list("pods").records if selection.matches(r)]
    assert found
    await store.close()
