"""The table of kinds against two sources that others wrote, and the registry over it."""

from __future__ import annotations

import ast
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.kinds import BUILT_IN, COMPUTED, REVIEWS, STORED, Kind, Kinds, subresource

CONNECT = {"attach", "exec", "portforward", "proxy"}
VERBS = {"post": "create", "put": "update", "global_list": "list", "global_watch": "watch"}


@pytest.fixture(scope="module")
def resources() -> dict[tuple[str, str, str], dict[str, Any]]:
    """Every resource class of the model package: plural, scope, verbs, subresources."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    subresources: list[tuple[tuple[str, str, str], str]] = []
    for file in metadata.files("lightkube-models") or ():
        path = Path(str(file))
        if path.parent.name != "resources" or path.suffix != ".py":
            continue
        for node in ast.parse(Path(str(file.locate())).read_text()).body:
            info = _api_info(node)
            if info is None:
                continue
            key = tuple(ast.literal_eval(word) for word in info["resource"].args)
            if "parent" in info:
                parent = tuple(ast.literal_eval(word) for word in info["parent"].args)
                subresources.append((parent, ast.literal_eval(info["action"])))
                continue
            assert isinstance(node, ast.ClassDef)
            found[key] = {
                "plural": ast.literal_eval(info["plural"]),
                "namespaced": "Namespaced" in ast.unparse(node.bases[0]),
                "verbs": {VERBS.get(v, v) for v in ast.literal_eval(info["verbs"])},
                "subresources": set(),
            }
    for parent, action in subresources:
        found[parent]["subresources"].add(action)
    return found


def _api_info(node: ast.stmt) -> dict[str, Any] | None:
    if not isinstance(node, ast.ClassDef):
        return None
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            return {keyword.arg or "": keyword.value for keyword in statement.value.keywords}
    return None


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.resource + "." + kind.version)
def test_each_kind_is_as_the_model_package_has_it(kind: Kind, resources) -> None:
    known = resources[kind.group, kind.version, kind.kind]
    assert kind.plural == known["plural"]
    assert kind.namespaced == known["namespaced"]
    assert set(kind.verbs) == known["verbs"]
    missing = known["subresources"] - set(kind.subresources)
    # A status that a later release added is served once our schema knows it everywhere.
    assert missing <= ({"status"} if kind is kinds.CSI_NODE else set())
    assert set(kind.subresources) - known["subresources"] <= CONNECT


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.resource + "." + kind.version)
def test_each_kind_has_a_definition_upstream(kind: Kind, upstream) -> None:
    known = {
        (one["group"], one["version"], one["kind"])
        for definition in upstream.values()
        for one in definition.get("x-kubernetes-group-version-kind", ())
    }
    assert (kind.group, kind.version, kind.kind) in known


def test_every_stable_kind_of_the_promised_groups_is_there(resources) -> None:
    promised = {kind.group for kind in BUILT_IN}
    ours = {(kind.group, kind.version, kind.kind) for kind in BUILT_IN}
    left_out = {
        key[2]
        for key in resources
        if key[0] in promised and key not in ours and "alpha" not in key[1] and "beta" not in key[1]
    }
    assert left_out == {"ComponentStatus"}  # deprecated, and never stored


def test_constants_are_listed_once_and_reviews_are_never_stored() -> None:
    constants = [value for value in vars(kinds).values() if isinstance(value, Kind)]
    assert sorted(map(repr, constants)) == sorted(map(repr, (*BUILT_IN, *COMPUTED)))
    assert not set(STORED) & set(REVIEWS)
    assert all(kind.verbs == ("create",) for kind in REVIEWS)


def test_short_names_are_unique_but_for_the_two_views_of_one_kind() -> None:
    seen: dict[str, Kind] = {}
    for kind in BUILT_IN:
        for name in kind.short_names:
            other = seen.setdefault(name, kind)
            assert other.plural == kind.plural, name


@pytest.mark.parametrize(
    ("kind", "api_version", "resource", "list_kind"),
    [
        (kinds.POD, "v1", "pods", "PodList"),
        (kinds.DEPLOYMENT, "apps/v1", "deployments.apps", "DeploymentList"),
        (kinds.ROLE, "rbac.authorization.k8s.io/v1", "roles.rbac.authorization.k8s.io", "RoleList"),
    ],
)
def test_names_of_a_kind(kind: Kind, api_version: str, resource: str, list_kind: str) -> None:
    assert (kind.api_version, kind.resource, kind.list_kind) == (api_version, resource, list_kind)
    assert kind.singular == kind.kind.lower()


@pytest.mark.parametrize(
    ("kind", "keeps"),
    [
        (kinds.POD, True),
        (kinds.DEPLOYMENT, True),
        (kinds.CRON_JOB, True),
        (kinds.ENDPOINT_SLICE, True),
        (kinds.SERVICE, False),
        (kinds.CONFIG_MAP, False),
        (kinds.HORIZONTAL_POD_AUTOSCALER, False),
        (kinds.LEASE, False),
        (kinds.PERSISTENT_VOLUME_CLAIM, False),
    ],
)
def test_which_kinds_keep_a_generation(kind: Kind, keeps: bool) -> None:
    assert kind.keeps_generation is keeps


def test_the_registry_finds_by_resource_and_by_kind() -> None:
    served = Kinds()
    assert served.by_resource("apps", "v1", "deployments") is kinds.DEPLOYMENT
    assert served.by_kind("apps/v1", "Deployment") is kinds.DEPLOYMENT
    assert served.by_kind("v1", "Pod") is kinds.POD
    assert served.by_resource("apps", "v1beta1", "deployments") is None
    assert served.by_kind("apps/v1", "Nothing") is None
    assert len(served) == len(BUILT_IN)


def test_the_core_group_comes_first_and_versions_by_preference() -> None:
    groups = Kinds().groups()
    assert next(iter(groups)) == ""
    assert groups["autoscaling"] == ["v2", "v1"]
    assert groups["apps"] == ["v1"]


def test_custom_kinds_join_and_leave() -> None:
    served = Kinds()
    custom = Kind("example.com", "v1alpha1", "Widget", "widgets", True)
    served.add(custom)
    assert served.by_kind("example.com/v1alpha1", "Widget") is custom
    assert served.of_group_version("example.com", "v1alpha1") == [custom]
    renamed = Kind("example.com", "v1alpha1", "Gadget", "widgets", True)
    served.add(renamed)
    assert served.by_kind("example.com/v1alpha1", "Widget") is None
    served.remove(renamed)
    served.remove(renamed)
    assert "example.com" not in served.groups()
    assert len(served) == len(BUILT_IN)


@pytest.mark.parametrize(
    ("versions", "ordered"),
    [
        (["v1", "v2"], ["v2", "v1"]),
        (["v1beta1", "v1", "v1alpha1"], ["v1", "v1beta1", "v1alpha1"]),
        (["v1beta1", "v1beta2"], ["v1beta2", "v1beta1"]),
        (["v2alpha1", "v1beta1"], ["v1beta1", "v2alpha1"]),
        (["foo", "v1alpha1", "v10", "v2"], ["v10", "v2", "v1alpha1", "foo"]),
    ],
)
def test_versions_sort_as_upstream_prefers_them(versions: list[str], ordered: list[str]) -> None:
    assert sorted(versions, key=kinds.version_priority, reverse=True) == ordered


@pytest.mark.parametrize(
    ("kind", "name", "gvk", "verbs"),
    [
        (kinds.POD, "status", ("", "v1", "Pod"), ("get", "patch", "update")),
        (kinds.POD, "log", ("", "v1", "Pod"), ("get",)),
        (kinds.POD, "exec", ("", "v1", "PodExecOptions"), ("create", "get")),
        (kinds.POD, "eviction", ("policy", "v1", "Eviction"), ("create",)),
        (kinds.POD, "binding", ("", "v1", "Binding"), ("create",)),
        (kinds.DEPLOYMENT, "scale", ("autoscaling", "v1", "Scale"), ("get", "patch", "update")),
        (
            kinds.SERVICE_ACCOUNT,
            "token",
            ("authentication.k8s.io", "v1", "TokenRequest"),
            ("create",),
        ),
        (
            kinds.NODE,
            "proxy",
            ("", "v1", "NodeProxyOptions"),
            ("create", "delete", "get", "patch", "update"),
        ),
        (kinds.NAMESPACE, "finalize", ("", "v1", "Namespace"), ("update",)),
    ],
)
def test_subresources_have_kinds_and_verbs(kind: Kind, name: str, gvk: tuple, verbs: tuple) -> None:
    found = subresource(kind, name)
    assert found is not None
    assert (found.group, found.version, found.kind) == gvk
    assert found.verbs == verbs


def test_every_subresource_is_known_and_others_are_none() -> None:
    assert all(subresource(kind, name) for kind in BUILT_IN for name in kind.subresources)
    assert subresource(kinds.CONFIG_MAP, "status") is None
    assert subresource(kinds.DEPLOYMENT, "exec") is None
