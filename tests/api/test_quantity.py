"""Quantities: upstream's notation, exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.api import quantity
from orlop.api.quantity import NANO, Quantity, QuantityError, canonical, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1", 1),
        ("-1", -1),
        ("+5", 5),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("1.", 1),
        ("0.1", Fraction(1, 10)),
        ("1k", 1000),
        ("1M", 10**6),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1Ki", 1024),
        ("1Mi", 1024**2),
        ("1.5Gi", 3 * 1024**3 // 2),
        ("1Ti", 1024**4),
        ("1Pi", 1024**5),
        ("1Ei", 1024**6),
        ("100u", Fraction(1, 10**4)),
        ("1n", Fraction(1, 10**9)),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", Fraction(6, 5)),
        ("1e+2", 100),
        ("0.9n", Fraction(1, 10**9)),
        ("0.1n", Fraction(1, 10**9)),
        ("18446744073709551616", 18446744073709551616),
        ("8Ei", 2**63 - 1),
    ],
)
def test_what_texts_mean(text: str, value: Fraction | int) -> None:
    assert parse(text).nanos == Fraction(value) * NANO


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1024Ki", "1Mi"),
        ("1025Ki", "1025Ki"),
        ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.001", "1m"),
        ("0.0001", "100u"),
        ("1000", "1k"),
        ("1000000", "1M"),
        ("123456", "123456"),
        ("1000k", "1M"),
        ("1e3", "1e3"),
        ("1500e0", "1500"),
        ("12e6", "12e6"),
        ("0", "0"),
        ("0Gi", "0"),
        ("00", "0"),
        ("-1.5Gi", "-1536Mi"),
        ("1.1Ki", "1126400m"),
        ("512", "512"),
        ("1000E", "1e21"),
        ("8Ei", "9223372036854775807"),
        (2, "2"),
        (2000, "2k"),
        (0.5, "500m"),
        (1e-3, "1m"),
    ],
)
def test_there_is_one_way_to_write_an_amount(written: object, text: str) -> None:
    assert canonical(written) == text
    assert canonical(text) == text


@pytest.mark.parametrize("text", ["", "abc", "1Q", "1.2.3", "--1", "1 Gi", "Gi", "1Gi ", "1,5"])
def test_what_is_no_number_is_refused_with_upstreams_pattern(text: str) -> None:
    with pytest.raises(QuantityError, match=r"quantities must match the regular expression"):
        parse(text)


@pytest.mark.parametrize("text", ["1KK", "1ki", "1mm", "1e", "1Kim", "5i"])
def test_what_has_an_unknown_suffix_is_told_so(text: str) -> None:
    with pytest.raises(QuantityError, match="unable to parse quantity's suffix"):
        parse(text)


@pytest.mark.parametrize("value", [True, None, [], {}])
def test_only_strings_and_numbers_are_quantities(value: object) -> None:
    with pytest.raises(QuantityError):
        parse(value)


@pytest.mark.parametrize(
    ("text", "millis", "units"),
    [
        ("100m", 100, 1),
        ("1", 1000, 1),
        ("1.0001", 1001, 2),
        ("2500m", 2500, 3),
        ("1Ki", 1024000, 1024),
        ("-1500m", -1500, -1),
        ("0", 0, 0),
    ],
)
def test_counting_rounds_up(text: str, millis: int, units: int) -> None:
    assert quantity.to_millis(text) == millis
    assert quantity.to_bytes(text) == units
    assert (parse(text).millis, parse(text).value) == (millis, units)


def test_sums_keep_the_form_of_what_they_began_with() -> None:
    assert str(parse("1Gi") + parse("512Mi")) == "1536Mi"
    assert str(parse("1Gi") - parse("512Mi")) == "512Mi"
    assert str(quantity.ZERO + parse("1Gi")) == "1Gi"
    assert str(parse("500m") + parse("1")) == "1500m"


def test_amounts_compare_by_value_whatever_their_form() -> None:
    assert parse("1Gi") > parse("1G")
    assert parse("1000m") <= parse("1")
    assert parse("1000m") >= parse("1")
    assert parse("999m") < parse("1")


def test_absurd_exponents_cost_nothing() -> None:
    assert parse("1e-5000000").nanos == 1
    assert parse("0e-5000000").nanos == 0
    assert parse("1e5000000").nanos > 10**100


@given(st.integers(-(10**24), 10**24), st.sampled_from(["", "i", "e"]))
def test_the_canonical_text_means_the_same_amount(nanos: int, form: str) -> None:
    original = Quantity(nanos, form)
    assert parse(str(original)).nanos == nanos


@given(
    st.from_regex(
        r"[0-9]{1,6}(\.[0-9]{1,4})?(n|u|m|k|M|G|Ki|Mi|Gi|e[0-9]|e-[0-9])?", fullmatch=True
    )
)
def test_canonicalising_twice_changes_nothing_more(text: str) -> None:
    once = canonical(text)
    assert canonical(once) == once
    assert parse(once).nanos == parse(text).nanos


@pytest.mark.parametrize("text", ["9" * 5000, "1e" + "1" * 5000, "0." + "0" * 5000 + "1"])
def test_an_amount_of_thousands_of_digits_is_none(text):
    with pytest.raises(quantity.QuantityError, match="must match the regular expression"):
        quantity.parse(text)
