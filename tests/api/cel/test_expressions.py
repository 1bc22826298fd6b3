"""Expressions and their values: the language itself, as its specification has it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.api.cel import CelError, CelSyntaxError, CostExceeded, compile_expression

SELF = {
    "name": "web",
    "replicas": 3,
    "ratio": 0.5,
    "tags": ["a", "b"],
    "ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53}],
    "labels": {"app": "x", "a.b/c": "y"},
    "a-b": 1,
    "a.b": 2,
    "a/b": 3,
    "a__b": 4,
    "namespace": "ns",
    "nothing": None,
    "on": True,
}


def value(text: str, **variables: Any) -> Any:
    return compile_expression(text, ["self", *variables])({"self": SELF, **variables})


TRUE = r"""
true
!false
1 + 2 * 3 == 7
(1 + 2) * 3 == 9
7 / 2 == 3
-7 / 2 == -3
7 % 3 == 1
-7 % 3 == -1
10 - 3 - 2 == 5
2.0 / 4.0 == 0.5
1u + 2u == 3u
0x10 == 16
-9223372036854775808 < 0
1 == 1.0
1u == 1
1 < 1.5
'a' < 'b'
'a' + 'b' == "ab"
b'abc' == bytes('abc')
r'\d' == '\\d'
'\u00e9' == 'é'
'\x41\101' == 'AA'
'''a'b''' == "a'b"
[1, 2] + [3] == [1, 2, 3]
[1, 2][1] == 2
{'a': 1}['a'] == 1
{'a': 1}.a == 1
{1: 'x'}[1] == 'x'
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
{1: 'a'}[1.0] == 'a'
1 in [1, 2]
!(3 in [1, 2])
'a' in {'a': 1}
!(true in {1: 'x'})
null == null
!(1 == true)
'1' != 1
[] == []
true ? true : false
false || true
true && !false
!(false && (1 / 0 > 0))
true || (1 / 0 > 0)
(1 / 0 > 0) || true
!((1 / 0 > 0) && false)
size('héllo') == 5
size([1, 2]) == 2
{'a': 1}.size() == 1
size(b'ab') == 2
type(1) == int
type('') == string
type(type(1)) == type
type(null) == null_type
int('42') == 42
int(3.9) == 3
int(-3.9) == -3
uint(5) == 5u
double('1.5') == 1.5
string(1) == '1'
string(1.5) == '1.5'
string(true) == 'true'
string(b'abc') == 'abc'
bool('true')
dyn(1) == 1
self.name == 'web'
self['name'] == 'web'
self.ports[0].port == 80
has(self.name)
!has(self.missing)
has(self.labels.app)
self.labels['a.b/c'] == 'y'
self.a__dash__b == 1
self.a__dot__b == 2
self.a__slash__b == 3
self.a__underscores__b == 4
self.__namespace__ == 'ns'
self.`a-b` == 1
self.tags.all(t, t.size() == 1)
self.ports.exists(p, p.name == 'dns')
self.ports.exists_one(p, p.port == 80)
self.ports.map(p, p.port) == [80, 53]
self.ports.map(p, p.port > 60, p.name) == ['http']
self.ports.filter(p, p.port < 60).size() == 1
self.labels.all(k, self.labels[k] != '')
[1, 2, 3].exists(x, x / (x - 2) > 0)
![].exists(x, x)
[].all(x, x)
[[1, 2], [3]].all(xs, xs.all(x, x > 0))
[1, 2].map(x, [3].map(y, x + y)) == [[4], [5]]
[1].all(self, self == 1) && self.name == 'web'
{'a': 1, 'b': 2}.all(k, v, v > 0)
[5, 6].exists(i, v, i == 1 && v == 6)
[1, 2].transformList(i, v, i + v) == [1, 3]
{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}
cel.bind(x, 2, x * x) == 4
self.?missing.orValue('d') == 'd'
self.?name.orValue('d') == 'web'
self.?missing.?deeper.hasValue() == false
self.?labels.app.value() == 'x'
self.tags[?5].orValue('z') == 'z'
self.labels[?'app'].hasValue()
[?self.?missing, 1] == [1]
{?'a': self.?missing, 'b': 1} == {'b': 1}
optional.of(1).or(optional.none()).value() == 1
optional.none().or(optional.of(2)).value() == 2
optional.ofNonZeroValue('').hasValue() == false
optional.of(3).optMap(x, x + 1).value() == 4
optional.none().optMap(x, x).hasValue() == false
optional.of(3).optFlatMap(x, optional.of(x)).value() == 3
2 == 2 // a remark
""".strip()


@pytest.mark.parametrize("text", TRUE.splitlines())
def test_is_true(text: str) -> None:
    assert value(text) is True


FAILS = {
    "1 + '1'": "no such overload",
    "1 + 1.0": "no such overload",
    "1 < 'a'": "no such overload",
    "1 / 0": "division by zero",
    "1 % 0": "modulus by zero",
    "9223372036854775807 + 1": "integer overflow",
    "-(-9223372036854775808)": "integer overflow",
    "0u - 1u": "unsigned integer overflow",
    "[1][1]": "index out of bounds: 1",
    "[1][-1]": "index out of bounds: -1",
    "{'a': 1}['b']": "no such key: b",
    "self.missing": "no such key: missing",
    "self.nothing.more": "no such key: more",
    "self.name.more": "no such overload",
    "!1": "no such overload",
    "1 ? 2 : 3": "no such overload",
    "self.on && 1": "no such overload",
    "'a'.all(x, x)": "no such overload",
    "[1].all(x, x)": "no such overload",
    "int('x')": 'strconv.ParseInt: parsing "x": invalid syntax',
    "int(1e300)": "integer overflow",
    "{'a': 1, 'a': 2}": "insert failed: key a already exists",
    "optional.none().value()": "optional.none() dereference",
    "size(1)": "no such overload",
    "'a'.startsWith(1)": "no such overload",
    "'a'.substring(1, 2, 3)": "no such overload",
}


@pytest.mark.parametrize("text", FAILS)
def test_has_no_value(text: str) -> None:
    with pytest.raises(CelError) as failure:
        value(text)
    assert str(failure.value) == FAILS[text]


WRONG = {
    "1 +": "<input>:1:4: Syntax error: mismatched input '<EOF>' expecting an expression",
    "(1": "<input>:1:3: Syntax error: mismatched input '<EOF>' expecting ')'",
    "1 2": "<input>:1:3: Syntax error: mismatched input '2' expecting <EOF>",
    "'a": "<input>:1:1: Syntax error: token recognition error at: ''a'",
    "a": "<input>:1:1: undeclared reference to 'a' (in container '')",
    "f(1)": "<input>:1:1: undeclared reference to 'f' (in container '')",
    "1.f()": "<input>:1:2: undeclared reference to 'f' (in container '')",
    "[1].all(1, true)": "undeclared reference to 'all'",
    "has(self)": "<input>:1:1: invalid argument to has() macro",
    "for": "<input>:1:1: reserved identifier: for",
    "9223372036854775808": "invalid int literal",
    "9" * 5000: "invalid int literal",
    "9" * 5000 + "u": "invalid uint literal",
    "0x" + "f" * 5000: "invalid int literal",
    "self.\n  1": "<input>:2:3: Syntax error",
    "[1].map(x, x) + x": "undeclared reference to 'x'",
    "@": "token recognition error at: '@'",
}


@pytest.mark.parametrize("text", WRONG)
def test_is_no_expression(text: str) -> None:
    with pytest.raises(CelSyntaxError) as failure:
        compile_expression(text, ["self"])
    assert WRONG[text] in str(failure.value)


def test_it_knows_which_variables_it_names() -> None:
    program = compile_expression("self == oldSelf && [1].all(x, x == 1)", ["self", "oldSelf", "y"])
    assert program.uses == {"self", "oldSelf"}


def test_a_bound_name_that_hides_a_variable_is_not_a_use_of_it() -> None:
    assert compile_expression("[1].all(oldSelf, oldSelf == 1)", ["oldSelf"]).uses == set()


def test_names_are_as_before_after_a_macro_that_failed() -> None:
    text = "[1].exists(x, x / 0 == 0) || x == 5"
    assert compile_expression(text, ["x"])({"x": 5}) is True


def test_its_steps_are_bounded() -> None:
    inner = "xs.all(b, xs.all(c, xs.all(d, true)))"
    program = compile_expression(f"xs.all(a, {inner})", ["xs"])
    with pytest.raises(CostExceeded, match="actual cost limit exceeded"):
        program({"xs": list(range(100))})


def test_nothing_absorbs_the_end_of_the_budget() -> None:
    program = compile_expression("xs.all(a, xs.all(b, true)) || true", ["xs"])
    with pytest.raises(CostExceeded):
        program({"xs": list(range(100))}, limit=500)


def test_long_texts_cost_more_than_short_ones() -> None:
    program = compile_expression("x.contains('b')", ["x"])
    assert program({"x": "b"}, limit=10) is True
    with pytest.raises(CostExceeded):
        program({"x": "a" * 1000}, limit=10)


@pytest.mark.parametrize("text", ["(" * 400 + "1" + ")" * 400, "!" * 400 + "true"])
def test_deep_nesting_is_refused_not_a_crash(text: str) -> None:
    with pytest.raises(CelSyntaxError, match=r"recursion limit exceeded|nested too deeply"):
        compile_expression(text)


NUMBERS = st.integers(-(2**63), 2**63 - 1)


@given(NUMBERS, NUMBERS)
def test_arithmetic_is_exact_or_an_overflow(left: int, right: int) -> None:
    program = compile_expression("a + b", ["a", "b"])
    if -(2**63) <= left + right < 2**63:
        assert program({"a": left, "b": right}) == left + right
    else:
        with pytest.raises(CelError, match="overflow"):
            program({"a": left, "b": right})


@given(NUMBERS, NUMBERS.filter(bool))
def test_quotient_and_remainder_belong_together(left: int, right: int) -> None:
    if (left, right) != (-(2**63), -1):
        assert value("a / b * b + a % b == a", a=left, b=right) is True


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(JSON)
def test_every_value_equals_itself_and_is_in_its_list(one: Any) -> None:
    assert value("x == x && x in [x] && !(x != x)", x=one) is True


@given(st.text(max_size=30))
def test_no_text_does_worse_than_be_refused(text: str) -> None:
    try:
        program = compile_expression(text, ["self"])
    except CelSyntaxError:
        return
    try:
        program({"self": SELF})
    except (CelError, CostExceeded):
        pass


WORDS = st.sampled_from(
    [
        "self",
        ".",
        "name",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "?",
        "!",
        "&&",
        "||",
        "+",
        "-",
        "*",
        "/",
        "%",
        "==",
        "<",
        "in",
        "1",
        "2.5",
        "'a'",
        "x",
        "has",
        "all",
        "map",
        "size",
    ]
)


@given(st.lists(WORDS, max_size=14))
def test_no_sequence_of_words_does_worse_either(words: list[str]) -> None:
    test_no_text_does_worse_than_be_refused.hypothesis.inner_test(" ".join(words))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text", ["cel.bind(x)", "cel.bind(x, 1)", "cel.bind(x, 1, x, x)", "cel.bind()"]
)
def test_a_binding_without_all_its_parts_is_no_expression(text: str) -> None:
    with pytest.raises(CelSyntaxError):
        compile_expression(text)
