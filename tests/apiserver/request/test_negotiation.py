"""What clients accept, and what they get."""

from __future__ import annotations

import pytest

from orlop.apiserver.discovery.documents import aggregated_version
from orlop.apiserver.request.negotiation import form_of
from orlop.errors import NotAcceptable

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
TABLE_BETA = "application/json;as=Table;v=v1beta1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize(
    ("accept", "media_type", "shape"),
    [
        ("", "application/json", "object"),
        ("*/*", "application/json", "object"),
        ("application/json", "application/json", "object"),
        (f"{TABLE},{TABLE_BETA},application/json", "application/json", "table"),
        (f"{PROTOBUF},application/json", "application/json", "object"),
        (f"{PROTOBUF}, */*", "application/json", "object"),
        ("application/yaml", "application/yaml", "object"),
        ("application/yaml, application/json", "application/json", "object"),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            "application/json",
            "partial",
        ),
        ("application/json;as=Unheard;v=v1;g=meta.k8s.io,application/json", "application/json",
         "object"),
        ("application/json;q=0.5", "application/json", "object"),
    ],
)  # fmt: skip
def test_the_first_form_that_can_be_served_is_chosen(accept, media_type, shape) -> None:
    form = form_of(accept)
    assert (form.media_type, form.shape) == (media_type, shape)


def test_the_version_of_a_table_is_the_one_asked_for() -> None:
    assert form_of(TABLE_BETA).version == "v1beta1"


@pytest.mark.parametrize("accept", [PROTOBUF, "text/html", "application/json;as=Table;v=v9"])
def test_what_cannot_be_served_is_not_acceptable(accept) -> None:
    with pytest.raises(NotAcceptable, match="application/json"):
        form_of(accept)


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        ("", ""),
        ("application/json", ""),
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "v2"),
        ("application/json;v=v2beta1;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList,"
         "application/json", "v2beta1"),
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
         "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
         "application/json", "v2"),
        ("application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList", ""),
    ],
)  # fmt: skip
def test_aggregated_discovery_is_for_those_who_ask(accept, version) -> None:
    assert aggregated_version(accept) == version
