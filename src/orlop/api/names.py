"""Checks what names, label keys and values look like, in upstream's words.

Used by validation and by whoever makes names. Each check returns the list of what is wrong, empty
where nothing is, with the texts of apimachinery/pkg/util/validation: kubectl users know them. The
random source of generated names is passed in.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

SUBDOMAIN_MAX = 253
LABEL_MAX = 63
GENERATED_MAX = 63
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_RE = re.compile(_LABEL)
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035_RE = re.compile(_LABEL_1035)
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SUBDOMAIN_RE = re.compile(_SUBDOMAIN)
_WILDCARD = rf"\*\.{_SUBDOMAIN}"
_WILDCARD_RE = re.compile(_WILDCARD)
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_QUALIFIED_RE = re.compile(_QUALIFIED)
_LABEL_VALUE = f"({_QUALIFIED})?"
_LABEL_VALUE_RE = re.compile(_LABEL_VALUE)
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_CONFIG_KEY_RE = re.compile(_CONFIG_KEY)
_PORT_NAME_RE = re.compile("[-a-z0-9]+")
_LETTER = re.compile("[a-z]")
_HTTP_HEADER_RE = re.compile("[-A-Za-z0-9]+")

# No vowels, no 0, 1, 3: generated names spell no words. As apimachinery/pkg/util/rand.
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character"
)
_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character"
)
_ENV_TEXT = (
    "a valid environment variable name must consist only of printable ASCII characters other "
    "than '='"
)
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which "
    "must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric "
    "character"
)
_CONFIG_KEY_TEXT = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"


class Rng(Protocol):
    """The random source: what `random.Random` gives; tests give their own."""

    def choices(self, population: str, *, k: int) -> list[str]: ...


Check = Callable[[str], list[str]]


def regex_error(text: str, pattern: str, *examples: str) -> str:
    """Write a syntax message with its examples and its pattern, as validation.RegexError."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _check(
    value: str, regex: re.Pattern[str], limit: int, message: str, pattern: str, *examples: str
) -> list[str]:
    problems = [too_long(limit)] if len(value) > limit else []
    if not regex.fullmatch(value):
        problems.append(regex_error(message, pattern, *examples))
    return problems


def dns1123_subdomain(value: str) -> list[str]:
    """Check the rule for most objects' names."""
    if len(value) <= SUBDOMAIN_MAX and _SUBDOMAIN_RE.fullmatch(value):
        return []
    return _check(value, _SUBDOMAIN_RE, SUBDOMAIN_MAX, _SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com")


def dns1123_label(value: str) -> list[str]:
    """Check the rule for namespaces, containers, volumes and Pods' host names."""
    problems = [too_long(LABEL_MAX)] if len(value) > LABEL_MAX else []
    if not _LABEL_RE.fullmatch(value):
        # A dot is the usual mistake: upstream then explains the stricter rule.
        problems.append(regex_error(_LABEL_TEXT, _LABEL, "my-name", "123-abc"))
        if _SUBDOMAIN_RE.fullmatch(value):
            problems[-1] = "must not contain dots"
    return problems


def dns1035_label(value: str) -> list[str]:
    """Check the rule for names of Services."""
    return _check(
        value, _LABEL_1035_RE, LABEL_MAX, _LABEL_1035_TEXT, _LABEL_1035, "my-name", "abc-123"
    )


def wildcard_subdomain(value: str) -> list[str]:
    return _check(value, _WILDCARD_RE, SUBDOMAIN_MAX, _WILDCARD_TEXT, _WILDCARD, "*.example.com")


def qualified_name(value: str) -> list[str]:
    """Check a label or annotation key: `name` or `prefix/name`."""
    parts = value.split("/")
    if len(parts) > 2:
        text = regex_error(_QUALIFIED_TEXT, _QUALIFIED, "MyName", "my.name", "123-abc")
        hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {text} {hint}"]
    name = parts[-1]
    problems: list[str] = []
    if len(parts) == 2 and not parts[0]:
        problems.append("prefix part must be non-empty")
    elif len(parts) == 2:
        problems += [f"prefix part {problem}" for problem in dns1123_subdomain(parts[0])]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > LABEL_MAX:
        problems.append(f"name part {too_long(LABEL_MAX)}")
    if not _QUALIFIED_RE.fullmatch(name):
        text = regex_error(_QUALIFIED_TEXT, _QUALIFIED, "MyName", "my.name", "123-abc")
        problems.append(f"name part {text}")
    return problems


def label_value(value: str) -> list[str]:
    if len(value) <= LABEL_MAX and _LABEL_VALUE_RE.fullmatch(value):
        return []
    return _check(
        value, _LABEL_VALUE_RE, LABEL_MAX, _LABEL_VALUE_TEXT, _LABEL_VALUE,
        "MyValue", "my_value", "12345",
    )  # fmt: skip


def env_name(value: str) -> list[str]:
    """Check names of environment variables: any printable ASCII but '='."""
    if not value:
        return ["environment variable name must be non-empty"]
    if all(" " <= character <= "~" and character != "=" for character in value):
        return []
    return [_ENV_TEXT]


def config_key(value: str) -> list[str]:
    """Check keys of ConfigMaps and Secrets: they become file names."""
    problems = [too_long(SUBDOMAIN_MAX)] if len(value) > SUBDOMAIN_MAX else []
    if not _CONFIG_KEY_RE.fullmatch(value):
        problems.append(
            regex_error(_CONFIG_KEY_TEXT, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name")
        )
    if value == ".":
        problems.append("must not be '.'")
    elif value == "..":
        problems.append("must not be '..'")
    elif value.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def port_name(value: str) -> list[str]:
    """Check IANA service names, as ports are called."""
    problems: list[str] = []
    if len(value) > 15:
        problems.append(too_long(15))
    if not _PORT_NAME_RE.fullmatch(value):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _LETTER.search(value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value and (value[0] == "-" or value[-1] == "-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def http_header_name(value: str) -> list[str]:
    if _HTTP_HEADER_RE.fullmatch(value):
        return []
    text = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [regex_error(text, _HTTP_HEADER_RE.pattern, "X-Header-Name")]


def path_segment(value: str) -> list[str]:
    """Check the rule for names of RBAC objects: anything that fits into one part of a URL."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in value]


def is_port(text: str) -> bool:
    """Return whether this is the number of a port, as a path or a parameter has it."""
    return text.isascii() and text.isdecimal() and len(text) < 6 and 0 < int(text) < 65536


def in_range(value: int, low: int, high: int) -> list[str]:
    if low <= value <= high:
        return []
    return [f"must be between {low} and {high}, inclusive"]


def generate(base: str, rng: Rng) -> str:
    """Make a name of `base` (cut where too long) and five random characters."""
    suffix = "".join(rng.choices(SUFFIX_ALPHABET, k=SUFFIX_LENGTH))
    return base[: GENERATED_MAX - SUFFIX_LENGTH] + suffix


def masked(check: Check, value: str) -> list[str]:
    """Check a generateName: its last dash will be followed by more."""
    return check(value[:-1] + "a" if value.endswith("-") else value)
