"""The functions of expressions: strings, lists, times, quantities, addresses, URLs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.api.cel import CelError, compile_expression
from orlop.api.quantity import parse


def value(text: str, **variables: object) -> object:
    return compile_expression(text, variables)(variables)


TRUE = """
'abc'.contains('b')
'abc'.startsWith('a') && 'abc'.endsWith('c')
'abc'.matches('^a.c$')
!'abc\\n'.matches('^abc$')
'a1'.matches('^[[:alpha:]][[:digit:]]$')
'Ä-AbC'.lowerAscii() == 'Ä-abc'
'abc'.upperAscii() == 'ABC'
'a,b,c'.split(',') == ['a', 'b', 'c']
'a,b,c'.split(',', 2) == ['a', 'b,c']
'a,b'.split(',', 0) == []
'ab'.split('') == ['a', 'b']
['a', 'b'].join() == 'ab'
['a', 'b'].join('-') == 'a-b'
'hello'.substring(1) == 'ello'
'hello'.substring(1, 3) == 'el'
'hello'.indexOf('l') == 2
'hello'.indexOf('l', 3) == 3
'hello'.indexOf('z') == -1
'hello'.lastIndexOf('l') == 3
'hello'.lastIndexOf('l', 2) == 2
'hello'.charAt(1) == 'e'
'hello'.charAt(5) == ''
'aaa'.replace('a', 'b') == 'bbb'
'aaa'.replace('a', 'b', 2) == 'bba'
'  a '.trim() == 'a'
'abc'.reverse() == 'cba'
'abc 123'.find('[0-9]+') == '123'
'abc'.find('[0-9]+') == ''
'1 22 333'.findAll('[0-9]+') == ['1', '22', '333']
'1 22 333'.findAll('[0-9]+', 2) == ['1', '22']
'%s is %d of %.2f%%'.format(['a', 3, 1.5]) == 'a is 3 of 1.50%'
'%x %X %b'.format([255, 255, 5]) == 'ff FF 101'
'%s'.format([[1, 'a', null, {'k': true}]]) == '[1, a, null, {k: true}]'
[1, 2, 2].isSorted() && !['b', 'a'].isSorted() && [].isSorted()
[1, 2, 3].sum() == 6 && [].sum() == 0
[1.5, 2.5].sum() == 4.0
[duration('1m'), duration('1s')].sum() == duration('61s')
[3, 1, 2].min() == 1 && [3, 1, 2].max() == 3
['a', 'b'].indexOf('b') == 1 && ['a'].indexOf('z') == -1
[1, 2, 1].lastIndexOf(1) == 2
[1, 1, 2].distinct() == [1, 2]
[[1], [2, [3]]].flatten() == [1, 2, [3]]
[1, 2, 3].slice(1, 3) == [2, 3]
sets.contains([1, 2, 3], [2, 3])
sets.equivalent([1, 1, 2], [2, 1])
sets.intersects([1, 2], [2, 5]) && !sets.intersects([1], [2])
duration('1h30m') == duration('90m')
duration('1.5s').getMilliseconds() == 1500
duration('2h').getMinutes() == 120
string(duration('90s')) == '90s'
duration('-1s') < duration('0')
timestamp('2026-01-02T03:04:05Z').getFullYear() == 2026
timestamp('2026-01-02T03:04:05Z').getMonth() == 0
timestamp('2026-01-02T03:04:05Z').getDate() == 2
timestamp('2026-01-02T03:04:05Z').getDayOfMonth() == 1
timestamp('2026-01-02T03:04:05Z').getDayOfWeek() == 5
timestamp('2026-01-02T03:04:05Z').getDayOfYear() == 1
timestamp('2026-01-02T03:04:05Z').getHours() == 3
timestamp('2026-01-02T03:04:05Z').getHours('+02:00') == 5
timestamp('2026-01-02T03:04:05.123Z').getMilliseconds() == 123
timestamp('2026-01-02T03:04:05Z') - timestamp('2026-01-02T03:04:00Z') == duration('5s')
timestamp('2026-01-02T03:04:05Z') + duration('1h') > timestamp('2026-01-02T04:04:04Z')
timestamp('2026-01-02T05:04:05+02:00') == timestamp('2026-01-02T03:04:05Z')
string(timestamp('2026-01-02T03:04:05.5Z')) == '2026-01-02T03:04:05.5Z'
int(timestamp('1970-01-01T00:01:00Z')) == 60
timestamp(60) == timestamp('1970-01-01T00:01:00Z')
quantity('1Gi').isGreaterThan(quantity('1G'))
quantity('500m').isLessThan(quantity('1'))
quantity('1000m') == quantity('1')
quantity('1').compareTo(quantity('2')) == -1
quantity('50k').add(quantity('20k')) == quantity('70k')
quantity('50k').sub(20000) == quantity('30k')
quantity('50k').isInteger() && !quantity('50m').isInteger()
quantity('50k').asInteger() == 50000
quantity('500m').asApproximateFloat() == 0.5
quantity('-1').sign() == -1 && quantity('0').sign() == 0
isQuantity('1.5Gi') && !isQuantity('1.5Gb')
ip('10.0.0.1').family() == 4 && ip('::1').family() == 6
ip('127.0.0.1').isLoopback() && ip('0.0.0.0').isUnspecified()
ip('169.254.1.1').isLinkLocalUnicast() && ip('224.0.0.1').isLinkLocalMulticast()
ip('10.0.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()
ip('2001:db8::abcd') == ip('2001:DB8::ABCD')
ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD')
string(ip('10.0.0.1')) == '10.0.0.1'
isIP('10.0.0.1') && !isIP('10.0.0.01') && !isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0')
isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0')
cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP('11.1.2.3')
cidr('10.0.0.0/8').containsIP(ip('10.1.2.3'))
cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR('10.0.0.0/8')
cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')
cidr('10.1.2.3/8').ip() == ip('10.1.2.3')
cidr('10.0.0.0/8').prefixLength() == 8
string(cidr('10.0.0.0/8')) == '10.0.0.0/8'
url('https://user@example.com:80/p a?k=v&k=w'.replace(' ', '%20')).getPort() == '80'
url('https://example.com:80/').getHost() == 'example.com:80'
url('https://[::1]:80/').getHostname() == '::1'
url('https://example.com/').getScheme() == 'https'
url('https://example.com/a%20b').getEscapedPath() == '/a%20b'
url('https://example.com/?k=v&k=w').getQuery() == {'k': ['v', 'w']}
url('/path').getHost() == ''
isURL('https://example.com') && !isURL('example.com') && !isURL('https://a b')
""".strip()


@pytest.mark.parametrize("text", TRUE.splitlines())
def test_is_true(text: str) -> None:
    assert value(text) is True


FAILS = {
    "'a'.matches('(')": "error parsing regexp",
    "'abc'.substring(2, 1)": "invalid substring range. start: 2, end: 1",
    "'abc'.substring(9)": "index out of range: 9",
    "'abc'.charAt(-1)": "index out of range: -1",
    "[].min()": "min called on empty list",
    "[].max()": "max called on empty list",
    "[1, 'a'].isSorted()": "no such overload",
    "['a', 1].join()": "no such overload",
    "duration('1 hour')": 'time: invalid duration "1 hour"',
    "duration('')": 'time: invalid duration ""',
    "timestamp('yesterday')": 'invalid timestamp "yesterday"',
    "timestamp('2026-01-02T03:04:05Z').getHours('Nowhere/City')": "unknown time zone Nowhere/City",
    "timestamp(253402300800)": "timestamp overflow",
    "quantity('ten')": "quantities must match the regular expression",
    "quantity('50m').asInteger()": "cannot convert value to integer",
    "ip('10.0.0.256')": 'IP Address "10.0.0.256" parse error during conversion from string',
    "cidr('10.0.0.0/08')": "network address parse error during conversion from string",
    "url('nowhere')": "URL parse error during conversion from string",
    "'%d'.format(['a'])": "could not format a value with %d",
    "'%s'.format([])": "out of range",
    "[1, 2].slice(1, 5)": "cannot slice(1, 5), list is length 2",
    "isIP(1)": "no such overload",
    "'a'.replace('', 'b'.replace('b', 'cccccccccc')).size() > 0 && 1": "no such overload",
}


@pytest.mark.parametrize("text", FAILS)
def test_has_no_value(text: str) -> None:
    with pytest.raises(CelError) as failure:
        value(text)
    assert FAILS[text] in str(failure.value)


@given(st.lists(st.text("ab,", max_size=5), min_size=1))
def test_split_undoes_join(parts: list[str]) -> None:
    plain = [part.replace(",", "") for part in parts]
    assert value("xs.join(',').split(',')", xs=plain) == plain


@given(st.lists(st.integers(-100, 100), min_size=1))
def test_least_and_greatest_are_pythons(items: list[int]) -> None:
    found = value("[xs.min(), xs.max(), xs.sum(), xs.isSorted()]", xs=items)
    assert found == [min(items), max(items), sum(items), items == sorted(items)]


@given(st.integers(0, 10**12), st.sampled_from(["", "k", "Ki", "m", "Gi"]), st.integers(0, 10**12))
def test_quantities_compare_as_they_count(number: int, unit: str, other: int) -> None:
    left, right = f"{number}{unit}", str(other)
    expected = (parse(left).nanos > parse(right).nanos) - (parse(left).nanos < parse(right).nanos)
    assert value("quantity(a).compareTo(quantity(b))", a=left, b=right) == expected


@given(st.integers(0, 2**32 - 1), st.integers(0, 32))
def test_a_network_contains_the_address_it_was_made_of(number: int, length: int) -> None:
    address = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
    assert value("cidr(n).containsIP(a)", n=f"{address}/{length}", a=address) is True
