"""Regular expressions of clients: Go's dialect, in linear time."""

from __future__ import annotations

import time

import pytest

from orlop.api.patterns import MAX_WORK, PatternError, TooMuchWork, compiled


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^[a-z]+$", "abc", True), ("^[a-z]+$", "abc\n", False), (r"^a\z", "a", True),
        ("[[:alpha:]]", "1a", True), (r"\pL", "é", True), (r"^\d$", "\u0661", False),
        ("(?i)É", "é", True), ("^.$", "é", True), ("(?P<n>a)(?<m>b)", "ab", True),
        (r"\Qa.b\E", "a.b", True), (r"\x{e9}", "é", True), ("a\0b", "a\0b", True),
        (r"\bb\b", "a b c", True), ("", "", True), ("a{,2}", "a{,2}", True), ("\ud800", "?", None),
    ],
)  # fmt: skip
def test_the_dialect_is_gos(pattern: str, text: str, matches: bool | None) -> None:
    if matches is None:
        with pytest.raises(PatternError):
            compiled(pattern)
    else:
        assert compiled(pattern).matches(text) is matches


@pytest.mark.parametrize(
    "pattern",
    ["(?=a)", "(?!a)", "(?<=a)", r"(a)\1", r"\Z", r"\C", r"\\\C", "a++", "(?#a)", "[", "(",
     "a{2,1}", "a{1001}", "(a{100}){100}", r"\pL{1000}", "*", r"\u0041"],
)  # fmt: skip
def test_what_go_would_not_take_or_is_too_large_is_none(pattern: str) -> None:
    with pytest.raises(PatternError, match="error parsing regexp: "):
        compiled(pattern)


def test_a_message_does_not_repeat_a_long_expression() -> None:
    with pytest.raises(PatternError) as refused:
        compiled("(" * 100_000)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a+", "caat a", ["aa", "a"]), ("a*", "baaac", ["", "aaa", ""]), ("", "aé", ["", "", ""]),
        ("é", "aéé", ["é", "é"]), ("x", "a", []), ("^", "ab", [""]), ("$", "ab", [""]),
    ],
)  # fmt: skip
def test_all_matches_are_counted_as_go_does(pattern: str, text: str, found: list[str]) -> None:
    assert compiled(pattern).find_all(text) == found
    assert compiled(pattern).find_all(text, 1) == found[:1]
    assert compiled(pattern).find(text) == (found[0] if found else None)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*a){12}$", "(a*)*b"])
def test_what_makes_others_backtrack_takes_no_time(pattern: str) -> None:
    begun = time.thread_time()
    assert not compiled(pattern).matches("a" * 100_000 + "!")
    assert time.thread_time() - begun < 2


def test_a_large_expression_takes_a_short_text_only() -> None:
    regex = compiled("^[ab]*a.{900}$")
    most = MAX_WORK // regex.work("a")
    assert not regex.matches("ab" * (most // 2))
    with pytest.raises(TooMuchWork, match="make either of them smaller"):
        regex.matches("ab" * most)


def test_matches_that_each_look_at_all_the_rest_have_an_end() -> None:
    begun = time.thread_time()
    with pytest.raises(TooMuchWork):
        compiled("[ab]*z|a").find_all("a" * 400_000)
    assert time.thread_time() - begun < 5


def test_a_lone_surrogate_is_a_question_mark() -> None:
    assert compiled(".").find("\ud800") == "?"
