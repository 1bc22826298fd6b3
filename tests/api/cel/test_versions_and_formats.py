"""Kubernetes' younger libraries: versions, named formats, messages, the authorizer."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.cel import CelError, CelSyntaxError, compile_expression
from orlop.api.cel.library.authorizer import Authorizer, Wanted
from orlop.api.formats import go_duration


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("semver('1.2.3').isLessThan(semver('1.10.0'))", True),
        ("semver('1.0.0-rc.2').compareTo(semver('1.0.0-rc.10'))", -1),
        ("semver('1.0.0').isGreaterThan(semver('1.0.0-rc.1'))", True),
        ("semver('1.0.0+a') == semver('1.0.0+b')", True),
        ("semver('v1.02', true).minor()", 2),
        ("[semver('1.2.3').major(), semver('1.2.3').patch()]", [1, 3]),
        ("isSemver('1.2')", False),
        ("isSemver('v1.2', true)", True),
        ("isSemver('01.2.3')", False),
        ("format.dns1123Label().validate('good').hasValue()", False),
        ("format.dns1123Label().validate('Bad').hasValue()", True),
        ("format.dns1123LabelPrefix().validate('good-').hasValue()", False),
        ("format.named('uuid').value().validate('no')", None),
        ("format.named('nothing').hasValue()", False),
        ("format.date().validate('2026-02-30').value()", ["invalid date"]),
        ("format.datetime().validate('2026-02-03T04:05:06Z').hasValue()", False),
        ("format.byte().validate('YQ==').hasValue()", False),
        ("format.uri().validate('relative').hasValue()", True),
        ("jsonpatch.escapeKey('a~b/c')", "a~0b~1c"),
    ],
)
def test_values(expression: str, value: Any) -> None:
    found = compile_expression(expression)({})
    assert found == value if value is not None else found.has_value


def test_a_message_is_a_map_where_messages_may_be_made() -> None:
    text = "Object{spec: Object.spec{replicas: 1 + 1, ?left: optional.none()}, data: {'a': 'b'}}"
    made = compile_expression(text, structs=("Object",))({})
    assert made == {"spec": {"replicas": 2}, "data": {"a": "b"}}
    with pytest.raises(CelSyntaxError, match="undeclared reference to 'Object'"):
        compile_expression(text)


@pytest.mark.parametrize("text", ["semver('x')", "semver(1)", "format.uuid().validate(1)"])
def test_what_has_no_value(text: str) -> None:
    with pytest.raises(CelError):
        compile_expression(text)({})


def test_the_authorizer_is_asked_what_the_calls_before_say() -> None:
    asked: list[Wanted] = []

    def decide(wanted: Wanted) -> bool:
        asked.append(wanted)
        return wanted.verb == "get"

    def make(*_: str) -> Authorizer:
        return Authorizer(decide, make, Wanted(resource="pods", name="a"))

    first = (
        "authorizer.group('apps').resource('deployments').subresource('scale').namespace('n')"
        ".name('d').check('get').allowed() && !authorizer.path('/x').check('post').allowed()"
    )
    second = (
        "authorizer.requestResource.check('get').allowed() && "
        "authorizer.serviceAccount('n','s').group('').resource('pods').check('get').reason() == ''"
    )
    for text in (first, second):  # a decision is dear: three are more than one expression has
        assert compile_expression(text, ["authorizer"])({"authorizer": make()}) is True
    assert asked[0] == Wanted("get", "", "apps", "deployments", "scale", "n", "d")
    assert (asked[1].path, asked[2].name) == ("/x", "a")
    with pytest.raises(CelError, match="no such overload"):
        compile_expression("authorizer.group('a').check('get')", ["authorizer"])(
            {"authorizer": make()}
        )


@pytest.mark.parametrize("text", ["9" * 400 + "h", "9" * 5000 + "s", "9223372037s", "2562048h"])
def test_a_duration_beyond_64_bits_is_none(text: str) -> None:
    """As Go has it."""
    assert go_duration(text) is None
    assert go_duration("2562047h") == 2562047 * 3600 * 10**9
