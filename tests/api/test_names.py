"""Names, labels and keys: what is allowed, and upstream's words for what is not."""

from __future__ import annotations

import random

import pytest

from orlop.api import names

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
QUALIFIED = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize("name", ["a", "a-b", "a.b", "0", "a" * 253, "web-0.web.default.svc"])
def test_good_subdomains(name: str) -> None:
    assert names.dns1123_subdomain(name) == []


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("", [SUBDOMAIN]),
        ("A", [SUBDOMAIN]),
        ("a_b", [SUBDOMAIN]),
        ("-a", [SUBDOMAIN]),
        ("a-", [SUBDOMAIN]),
        ("a..b", [SUBDOMAIN]),
        ("a.-b", [SUBDOMAIN]),
        ("a\n", [SUBDOMAIN]),
        ("a" * 254, ["must be no more than 253 bytes"]),
        ("A" * 254, ["must be no more than 253 bytes", SUBDOMAIN]),
    ],
)
def test_bad_subdomains(name: str, problems: list[str]) -> None:
    assert names.dns1123_subdomain(name) == problems


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("a", []),
        ("123-abc", []),
        ("a" * 63, []),
        ("a.b", ["must not contain dots"]),
        ("A", [LABEL]),
        ("", [LABEL]),
        ("a" * 64, ["must be no more than 63 bytes"]),
    ],
)
def test_labels_of_dns(name: str, problems: list[str]) -> None:
    assert names.dns1123_label(name) == problems


@pytest.mark.parametrize(
    ("name", "is_good"), [("web", True), ("a-1", True), ("1a", False), ("A", False)]
)
def test_names_of_services_start_with_a_letter(name: str, is_good: bool) -> None:
    problems = names.dns1035_label(name)
    assert (problems == []) is is_good
    if problems:
        assert problems[0].startswith("a DNS-1035 label must consist of")


@pytest.mark.parametrize(
    ("key", "problems"),
    [
        ("app", []),
        ("app.kubernetes.io/name", []),
        ("A_b.C-d", []),
        ("", ["name part must be non-empty", f"name part {QUALIFIED}"]),
        ("a/", ["name part must be non-empty", f"name part {QUALIFIED}"]),
        ("/a", ["prefix part must be non-empty"]),
        ("-a", [f"name part {QUALIFIED}"]),
        ("Bad_Prefix/a", [f"prefix part {SUBDOMAIN}"]),
        ("a" * 64, ["name part must be no more than 63 bytes"]),
    ],
)
def test_keys_of_labels(key: str, problems: list[str]) -> None:
    assert names.qualified_name(key) == problems


def test_a_key_has_one_slash_at_most() -> None:
    assert names.qualified_name("a/b/c") == [
        f"a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' "
        "(e.g. 'example.com/MyName')"
    ]


@pytest.mark.parametrize("value", ["", "a", "A_b.c-1", "a" * 63])
def test_good_values_of_labels(value: str) -> None:
    assert names.label_value(value) == []


@pytest.mark.parametrize("value", ["-a", "a b", "a/b", "ü", "a" * 64])
def test_bad_values_of_labels(value: str) -> None:
    assert len(names.label_value(value)) == 1


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.env_name, ["A", "my.env-name", "1a", "a b", "%"], ["", "A=B", "a\x00", "ä"]),
        (
            names.config_key,
            ["a", "a.b", ".bashrc", "_A-1"],
            ["", ".", "..", "..a", "a/b", "a" * 254],
        ),
        (
            names.port_name,
            ["http", "a1", "my-port", "1a"],
            ["", "123", "Http", "-a", "a-", "a--b", "a_b", "a" * 16],
        ),
        (names.http_header_name, ["X-Header"], ["", "a b", "a:"]),
        (names.path_segment, ["system:node", "a.b", "A"], [".", "..", "a/b", "a%b"]),
        (names.wildcard_subdomain, ["*.example.com"], ["example.com", "*", "a.*.com", "*.A"]),
    ],
)
def test_the_other_rules(check: names.Check, good: list[str], bad: list[str]) -> None:
    assert [name for name in good if check(name)] == []
    assert [name for name in bad if not check(name)] == []


def test_ranges_are_inclusive() -> None:
    assert names.in_range(1, 1, 65535) == []
    assert names.in_range(65535, 1, 65535) == []
    assert names.in_range(0, 1, 65535) == ["must be between 1 and 65535, inclusive"]


def test_generated_names_end_in_five_characters_that_spell_nothing() -> None:
    name = names.generate("web-", random.Random(1))
    assert name.startswith("web-")
    assert len(name) == len("web-") + 5
    assert set(name[4:]) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert names.generate("web-", random.Random(1)) == name
    assert names.generate("web-", random.Random(2)) != name


def test_a_long_base_is_cut_so_that_the_name_is_a_label() -> None:
    name = names.generate("a" * 100, random.Random(1))
    assert len(name) == 63
    assert names.dns1123_label(name) == []


@pytest.mark.parametrize(
    ("prefix", "is_good"), [("web-", True), ("web", True), ("Web-", False), ("-", True)]
)
def test_the_last_dash_of_a_generate_name_is_no_mistake(prefix: str, is_good: bool) -> None:
    assert (names.masked(names.dns1123_subdomain, prefix) == []) is is_good
