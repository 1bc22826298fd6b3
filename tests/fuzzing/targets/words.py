"""Small languages within objects: quantities, times, schedules, paths, patterns, CEL."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

from orlop.api import cron, formats, kinds, names, patterns, quantity, times
from orlop.api.cel import CelError, CelSyntaxError, CostExceeded, compile_expression
from orlop.api.crd import validation_rules
from orlop.api.crd.jsonpath import JsonPath
from orlop.api.fields import parse_fields
from orlop.controllers.workloads.cronjob.schedule import next_time
from orlop.errors import ApiError
from orlop.runtime.images import reference

from ..target import Registry, Target, encoded

target = Registry()


def _text(data: bytes) -> str:
    """Texts of JSON are Unicode."""
    return data.decode(errors="replace")


@target("word-quantity", "api/quantity.py", "small accounts")
def word_quantity() -> Target:
    def run(data: bytes) -> None:
        found = quantity.parse(_text(data))
        str(found)
        str(found + found)
        assert quantity.parse(str(found)).nanos or not found.nanos

    seeds = encoded(("500m", "1.5Gi", "1e3", "0", "-3k", "100n", ".5", "9223372036854775807", "1E"))
    return Target(
        run, seeds, encoded(("Ki", "Ei", "n", "e-", "E+", ".")), (quantity.QuantityError,)
    )


@target("word-time", "api/times.py and the formats of schemas", "small accounts")
def word_time() -> Target:
    def run(data: bytes) -> None:
        text = _text(data)
        formats.go_duration(text)
        for check in formats.CHECKS.values():
            check(text)
        times.canonical(text)

    seeds = encoded(
        (
            *(
                "2026-01-02T15:04:05Z",
                "2026-01-02T15:04:05.123456+01:00",
                "1h30m",
                "-1.5s",
                "2 days",
            ),
            *(
                "a@b.c",
                "10.0.0.0/8",
                "::1",
                "http://[::1]/a",
                "00:1b:63:84:45:e6",
                "#fff",
                "978-3-16",
            ),
            *(
                "rgb(1, 2%, 3)",
                "YQ==",
                "4111 1111 1111 1111",
                "7c0c8f0a-0000-4000-8000-000000000002",
            ),
        )
    )
    words = encoded(("T", "Z", "+99:99", "ns", "µs", "h", "0000-00-00", "9999-12-31", ".", "weeks"))
    return Target(run, seeds, words, (ValueError,), longest=512, largest=1 << 14)


@target("word-cron", "api/cron.py, and when it is next due", "small accounts")
def word_cron() -> Target:
    def run(data: bytes) -> None:
        next_time(cron.parse(_text(data)), dt.UTC, 1.7e9)

    seeds = encoded(
        ("0 0 * * *", "*/15 1-5,7 ? jan-mar sun", "@hourly", "0 0 30 2 *", "0 0 29 2 1/3")
    )
    return Target(run, seeds, encoded(("*/", "@yearly", "-", "/", ",", "?")), (cron.CronError,))


@target("word-names", "api/names.py, image names, field selectors", "small accounts")
def word_names() -> Target:
    checks = (
        *(names.dns1123_subdomain, names.dns1123_label, names.dns1035_label, names.label_value),
        *(names.wildcard_subdomain, names.qualified_name, names.env_name, names.config_key),
        *(names.port_name, names.http_header_name, names.path_segment),
    )

    def run(data: bytes) -> None:
        text = _text(data)
        for check in checks:
            check(text)
        parse_fields(kinds.POD, "")
        try:
            reference.parse(text)
        except Exception as error:
            if type(error).__name__ != "ImageError":
                raise

    seeds = encoded(
        (
            *("a-b.c", "example.com/a_b", "*.a.b", "busybox", "docker.io/library/busybox:1.36"),
            *("localhost:5000/a/b__c--d@sha256:" + "0" * 64, "[::1]:5000/x:y", "/abs/image.sif"),
        )
    )
    return Target(run, seeds, encoded((":", "@sha256:", "__", "--", "/", ".")), largest=1 << 14)


@target("word-jsonpath", "api/crd/jsonpath.py", "whoever may write definitions")
def word_jsonpath() -> Target:
    obj = {"spec": {"a": [{"type": "x", "n": 1}, {"type": "y"}]}, "status": {"b.c": None}}

    def run(data: bytes) -> None:
        text = _text(data)
        try:
            JsonPath(text).find(obj)
        finally:
            validation_rules.field_path(text) if text.startswith(".") else None

    seeds = encoded(
        (
            *(".spec.a[0].type", "{.spec.a[*].n}", '.spec.a[?(@.type=="x")].n', ".spec.a[-1:]"),
            *(
                "$.status['b.c']",
                r".status.b\.c",
                '.spec.a[?(@.n>=1)]["type"]',
                ".spec.a[::2]",
                ".",
            ),
        )
    )
    words = encoded(("[?(@", ")]", "[*]", "[::", "==", "\\", ".", "'", '"', "[-1]"))
    return Target(run, seeds, words, (ValueError,), largest=1 << 14)


@target(
    "word-pattern", "api/patterns.py: patterns of schemas, matched", "whoever may write definitions"
)
def word_pattern() -> Target:
    def run(data: bytes) -> None:
        pattern, _, text = _text(data).partition("\n")
        found = patterns.compiled(pattern)
        found.matches(text)
        found.find_all(text, 1000)

    seeds = encoded(
        (
            *(
                "^[a-z]+$\nabc",
                "^(a|b)*c\\z\nababc",
                "[[:alpha:]]{2,5}\nabcd",
                "(?i)x(?P<n>y)?\nXY",
            ),
            *(
                "^(a+)+$\n" + "a" * 24 + "!",
                "^([a-z]+)*$\n" + "b" * 24 + "!",
                "\\d+(\\.\\d+)?\n1.5",
            ),
        )
    )
    words = encoded(
        ("(?:", ")*", "+)+", "[[:", ":]]", "{1000}", "{1,999}", "\\pL", "|", "$", "\\b")
    )
    refuses = (patterns.PatternError, patterns.TooMuchWork)
    return Target(run, seeds, words, refuses, longest=256, largest=1 << 12)


_CEL = (
    "self.replicas <= 3 && self.name.startsWith('a')",
    "object.spec.containers.all(c, c.image.matches('^[a-z]+:[0-9]+$'))",
    "[1, 2, 3].map(x, x * 2).exists(x, x > 5) ? 'a' : \"b\" + string(1.5)",
    "{'a': 1, 'b': [true, null]}['b'][0] || has(self.x) && !(1u in [2u])",
    "duration('1h30m') > duration('5s') && timestamp('2026-01-02T15:04:05Z').getFullYear() == 2026",
    "quantity('1Gi').isGreaterThan(quantity('1Mi')) && semver('1.2.3').major() == 1",
    "url('https://a.b/c?d=e').getHost() == 'a.b' && ip('10.0.0.1').family() == 4",
    "self.items.filter(i, i % 2 == 0).sum() + int('3') - -7 / 2",
    "'abc'.find('[a-c]+').upperAscii().split('B').join('-').replace('A', 'x').substring(1)",
    "optional.of(1).orValue(2) == self.?a.?b.orValue(3) && cel.bind(x, 5, x * x) == 25",
    "b'bytes' == bytes('x') ? r'\\d' : '\\u00e9\\x41' + '''t'''",
    "format.dns1123Label().validate('a').hasValue() || sets.contains([1], [1])",
)


@target(
    "word-cel",
    "api/cel: rules of schemas and policies, compiled and evaluated",
    "whoever may write definitions or policies",
)
def word_cel() -> Target:
    given: dict[str, Any] = {
        "self": {"replicas": 3, "name": "a", "items": [1, 2, 3], "x": "y"},
        "object": {"spec": {"containers": [{"image": "a:1"}]}},
        "oldSelf": None,
    }

    def run(data: bytes) -> None:
        program = compile_expression(_text(data), given)
        program(given, limit=100_000)

    functions = re.findall(r"[a-zA-Z.]+\(", " ".join(_CEL))
    signs = ("&&", "||", "?", ":", "==", "in ", "!", "-", "has(", ".map(x, ", ".all(x, ", "[", "{")
    words = encoded((*sorted(set(functions)), *signs, "self", "9223372036854775807", "1u", "x"))
    refuses = (CelError, CelSyntaxError, CostExceeded)
    return Target(run, encoded(_CEL), words, refuses, longest=1024, largest=1 << 14)


@target(
    "word-rules",
    "api/crd/validation_rules.py: rules as definitions have them",
    "whoever may write definitions",
)
def word_rules() -> Target:
    def run(data: bytes) -> None:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            return
        is_rule = isinstance(found, dict) and isinstance(found.get("rule"), str)
        if is_rule and all(isinstance(one, str) for one in found.values()):
            validation_rules.ValidationRule(found)

    seeds = [
        {"rule": "self > 0", "message": "m", "fieldPath": ".a['b'].c[0]", "reason": "R"},
        {"rule": "oldSelf == self", "messageExpression": "'a' + self"},
    ]
    made = tuple(json.dumps(one).encode() for one in seeds)
    refuses = (CelSyntaxError, ApiError, ValueError)
    return Target(run, made, encoded(("rule", "fieldPath", ".a", "['")), refuses, is_json=True)
