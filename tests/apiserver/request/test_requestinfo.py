"""Paths and methods become verbs on resources."""

from __future__ import annotations

import posixpath
import time
import unicodedata
from dataclasses import replace
from urllib.parse import unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from multidict import MultiDict

from orlop.apiserver.request.requestinfo import RequestInfo, flag, parse
from orlop.errors import BadRequest


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
        ("GET", "/api/v1/nodes/n%2F1", {}, "get  v1  nodes n 1"),
        ("GET", "/api/v1/nodes/n%252F1", {}, "get  v1  nodes n%2F1 "),
        ("GET", "/apis%2fapps/v1%2Fdeployments", {}, "list apps v1  deployments  "),
        ("GET", "//api///v1/pods/", {}, "list  v1  pods  "),
        ("GET", "/api/v1/namespaces/a/pods%2F", {}, "list  v1 a pods  "),
        ("DELETE", "/api/v1/watch/pods", {}, "delete  v1  watch pods "),
        ("BIND", "/api/v1/pods/a", {}, "  v1  pods a "),
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


@pytest.mark.parametrize("slash", ["/", "%2F"])
def test_slashes_without_end_are_read_at_once(slash) -> None:
    began = time.process_time()
    assert parse("GET", "/api/v1/pods" + slash * 50_000, {}).resource == "pods"
    assert time.process_time() - began < 0.5


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


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/a/../b/pods",
        "/api/v1/namespaces/a/%2e%2E/b/pods",
        "/api/v1/./pods",
        "/version/..",
        "/api/v1/pods%00/x",
        "/api/v1/pods/a%0d%0ab",
        "/api/v1/pods/a%ff",
        "/api/v1/namespaces/a/pods/b/log/../../c",
        "/apis/ext.io/v1/namespaces/a/things/x/proxy/../../y",
        "/api/v1/nodes/../proxy/x",
    ],
)
def test_a_path_that_could_be_two_is_refused(path) -> None:
    with pytest.raises(BadRequest):
        parse("GET", path, {})


def test_a_watch_is_asked_for_or_not() -> None:
    both = MultiDict([("watch", "false"), ("watch", "true")])
    with pytest.raises(BadRequest, match="a watch and for none"):
        parse("GET", "/api/v1/pods", both)
    assert parse("GET", "/api/v1/pods/a", both).verb == "get"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/apis%2fext.io/v1/things", "/apis/ext.io/v1/things"),
        ("/apis/ext.io/v1//things/", "/apis/ext.io/v1/things"),
        ("/apis/ext.io/v1/things/a%3Fb%23c", "/apis/ext.io/v1/things/a%3Fb%23c"),
        ("/apis/ext.io/v1/things/a;b=c", "/apis/ext.io/v1/things/a%3Bb=c"),
        ("/apis/ext.io/v1/things/a%252e", "/apis/ext.io/v1/things/a%252e"),
    ],
)
def test_others_are_asked_for_what_was_authorized(path, target) -> None:
    assert parse("GET", path, {}).target == target


def test_what_others_may_take_for_a_slash_is_not_passed_on() -> None:
    info = parse("GET", "/apis/ext.io/v1/things/a%EF%BC%8Fb", {})
    with pytest.raises(BadRequest, match="others take for others"):
        _ = info.target


def _as_a_lenient_server(target: str) -> list[str]:
    """The words of a path to one that drops parameters, normalizes characters, and cleans up."""
    plain = "/".join(word.partition(";")[0] for word in target.split("/"))
    path = unicodedata.normalize("NFKC", unquote(plain)).replace("\\", "/")
    return posixpath.normpath(path).strip("/").split("/")


_PIECES = st.sampled_from(
    ["/", "//", "%2f", "%2F", "%252f", ".", "..", "%2e", "%2E%2e", "%252e", ";a=b", "%3b", "?",
     "#", "%00", "%0a", "%ff", "\uff0f", "%EF%BC%8F", "%ef%bc%8e", "api", "apis", "APIS", "v1",
     "ext.io", "namespaces", "mine", "yours", "things", "x", "status", "proxy", "watch", "\\",
     "%5c", "*", "@", ":", "%20"]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=24).map("".join), st.sampled_from(["GET", "DELETE", "POST"]))
@example("apis%2fext.io/v1/namespaces/mine/things/../../yours/things/x", "GET")
@settings(deadline=None, max_examples=400)
def test_whoever_reads_the_path_reads_what_was_authorized(text, method) -> None:
    try:
        info = parse(method, f"/{text.partition('?')[0].partition('#')[0]}", {})
        target = info.target
    except BadRequest:
        return
    again = parse(method, target, {})
    assert replace(again, prefix="", beyond="") == replace(info, prefix="", beyond="")
    if info.is_resource and not info.beyond and "\\" not in info.path:
        assert _as_a_lenient_server(target) == info.path.strip("/").split("/")
