"""Paths and methods become verbs on resources."""

from __future__ import annotations

import pytest

from orlop.apiserver.requestinfo import RequestInfo, flag, parse


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", {}, "list  v1  pods  "),
        ("GET", "/api/v1/pods", {"watch": "true"}, "watch  v1  pods  "),
        ("GET", "/api/v1/pods", {"watch": "True"}, "watch  v1  pods  "),
        ("GET", "/api/v1/pods", {"watch": "0"}, "list  v1  pods  "),
        ("GET", "/api/v1/namespaces/a/pods", {}, "list  v1 a pods  "),
        ("POST", "/api/v1/namespaces/a/pods", {}, "create  v1 a pods  "),
        ("GET", "/api/v1/namespaces/a/pods/b", {}, "get  v1 a pods b "),
        ("HEAD", "/api/v1/namespaces/a/pods/b", {}, "get  v1 a pods b "),
        ("GET", "/api/v1/namespaces/a/pods/b/log", {}, "get  v1 a pods b log"),
        ("PUT", "/api/v1/namespaces/a/pods/b/status", {}, "update  v1 a pods b status"),
        ("DELETE", "/api/v1/namespaces/a/pods", {}, "deletecollection  v1 a pods  "),
        ("DELETE", "/api/v1/namespaces/a/pods/b", {}, "delete  v1 a pods b "),
        ("GET", "/api/v1/namespaces", {}, "list  v1  namespaces  "),
        ("GET", "/api/v1/namespaces/a", {}, "get  v1 a namespaces a "),
        ("PUT", "/api/v1/namespaces/a/finalize", {}, "update  v1 a namespaces a finalize"),
        ("PATCH", "/api/v1/namespaces/a/status", {}, "patch  v1 a namespaces a status"),
        ("GET", "/apis/apps/v1/deployments", {}, "list apps v1  deployments  "),
        ("PATCH", "/apis/apps/v1/namespaces/a/deployments/b/scale", {},
         "patch apps v1 a deployments b scale"),
        ("GET", "/api/v1/watch/namespaces/a/pods", {}, "watch  v1 a pods  "),
        ("GET", "/api/v1/watch/namespaces/a/pods/b", {}, "watch  v1 a pods b "),
        ("GET", "/api/v1/nodes/n%2F1", {}, "get  v1  nodes n/1 "),
    ],
)  # fmt: skip
def test_a_resource_path_is_read(method, path, query, expected) -> None:
    info = parse(method, path, query)
    found = (
        f"{info.verb} {info.group} {info.version} {info.namespace} {info.resource} "
        f"{info.name} {info.subresource}"
    )
    assert found == expected
    assert info.is_resource


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/apis", "/apis/apps/v1", "/version"])
def test_other_paths_are_no_resources(path) -> None:
    assert parse("GET", path, {}) == RequestInfo("get", path)


def test_what_follows_a_subresource_is_kept() -> None:
    assert parse("GET", "/api/v1/nodes/n/proxy/a/b", {}).rest == "a/b"


@pytest.mark.parametrize(
    ("text", "expected"), [("true", True), ("", True), ("1", True), ("false", False), ("0", False)]
)
def test_all_but_false_and_0_is_true(text, expected) -> None:
    assert flag({"x": text}, "x") is expected


def test_an_absent_flag_is_false() -> None:
    assert not flag({}, "x")
