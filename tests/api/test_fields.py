"""Field selectors: which fields, and the zero that an absent field stands for."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.fields import parse_fields, selectable
from orlop.api.kinds import Kind
from orlop.errors import BadRequest

POD = {
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"nodeName": "n1", "restartPolicy": "Always"},
    "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
}
EVENT = {
    "metadata": {"name": "e", "namespace": "default"},
    "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default", "uid": "u"},
    "reason": "Started",
    "source": {"component": "kubelet"},
    "type": "Normal",
}


@pytest.mark.parametrize(
    ("kind", "obj", "text", "matches"),
    [
        (kinds.POD, POD, "", True),
        (kinds.POD, POD, "metadata.name=a", True),
        (kinds.POD, POD, "metadata.name==a", True),
        (kinds.POD, POD, "metadata.name!=a", False),
        (kinds.POD, POD, "metadata.name=a,status.phase=Running", True),
        (kinds.POD, POD, "metadata.name=a,status.phase=Failed", False),
        (kinds.POD, POD, "spec.nodeName=n1", True),
        (kinds.POD, POD, "spec.nodeName=", False),
        (kinds.POD, {"metadata": {"name": "b"}}, "spec.nodeName=", True),
        (kinds.POD, {"metadata": {"name": "b"}}, "spec.nodeName!=", False),
        (kinds.POD, POD, "spec.hostNetwork=false", True),
        (kinds.POD, {"spec": {"hostNetwork": True}}, "spec.hostNetwork=true", True),
        (kinds.POD, POD, "status.podIPs=10.0.0.1", True),
        (kinds.NODE, {"spec": {}}, "spec.unschedulable=false", True),
        (kinds.NODE, {"spec": {"unschedulable": True}}, "spec.unschedulable=false", False),
        (kinds.NODE, {}, "spec.unschedulable!=true", True),
        (kinds.JOB, {"status": {"succeeded": 3}}, "status.successful=3", True),
        (kinds.JOB, {}, "status.successful=0", True),
        (kinds.REPLICA_SET, {}, "status.replicas=0", True),
        (kinds.SECRET, {"type": "Opaque"}, "type=Opaque", True),
        (kinds.SERVICE, {"spec": {"type": "ClusterIP"}}, "spec.type=ClusterIP", True),
        (kinds.NAMESPACE, {"status": {"phase": "Active"}}, "status.phase=Active", True),
        (kinds.EVENT, EVENT, "involvedObject.name=a,involvedObject.kind=Pod", True),
        (kinds.EVENT, EVENT, "involvedObject.uid=other", False),
        (kinds.EVENT, EVENT, "source=kubelet", True),
        (kinds.EVENT, {"reportingComponent": "x"}, "source=x,reportingComponent=x", True),
        (kinds.EVENT, EVENT, "involvedObject.fieldPath=", True),
        (kinds.EVENTS_EVENT, EVENT, "regarding.name=a", True),
        (kinds.EVENTS_EVENT, {"regarding": {"name": "a"}}, "regarding.name=a", True),
        (kinds.EVENTS_EVENT, {"reportingController": "c"}, "reportingController=c", True),
        (kinds.CONFIG_MAP, POD, "metadata.namespace=default", True),
        (kinds.POD, {"metadata": {"name": "a,b"}}, r"metadata.name=a\,b", True),
        (kinds.POD, {"metadata": {"name": "a=b"}}, r"metadata.name=a\=b", True),
    ],
)
def test_what_field_selectors_select(
    kind: Kind, obj: dict[str, Any], text: str, matches: bool
) -> None:
    assert parse_fields(kind, text).matches(obj) is matches


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (kinds.POD, "spec.image=x", "field label not supported: spec.image"),
        (
            kinds.CONFIG_MAP,
            "data.a=x",
            '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (
            kinds.POD,
            "metadata.name",
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
        ),
        (kinds.POD, "metadata.name=a=b", "can't understand 'metadata.name=a=b'"),
    ],
)
def test_what_cannot_be_selected_is_a_bad_request(kind: Kind, text: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_fields(kind, text)
    assert message in caught.value.message


def test_every_kind_can_be_selected_by_name_and_namespace() -> None:
    for kind in kinds.BUILT_IN:
        assert selectable(kind)[:2] == ("metadata.name", "metadata.namespace")


def test_an_index_can_ask_for_the_value_it_needs() -> None:
    selector = parse_fields(kinds.POD, "spec.nodeName=n1,status.phase!=Failed")
    assert selector.exact("spec.nodeName") == "n1"
    assert selector.exact("status.phase") is None
    assert not selector.is_empty
    assert str(selector) == "spec.nodeName=n1,status.phase!=Failed"
