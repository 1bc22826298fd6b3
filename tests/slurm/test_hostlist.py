"""Hostlists, held against Slurm's own `scontrol show hostnames` where it is installed."""

from __future__ import annotations

import shutil
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.slurm import hostlist

KNOWN = [
    ("n1", ["n1"]),
    ("n[1-3]", ["n1", "n2", "n3"]),
    ("n[1-3,7]", ["n1", "n2", "n3", "n7"]),
    ("n[08-11]", ["n08", "n09", "n10", "n11"]),
    ("rack[0-1]n[1-2]", ["rack0n1", "rack0n2", "rack1n1", "rack1n2"]),
    ("login,n[1-2],gpu3", ["login", "n1", "n2", "gpu3"]),
]


@pytest.mark.parametrize(("text", "names"), KNOWN, ids=[text for text, _ in KNOWN])
def test_hostlists_expand_in_their_order(text, names):
    assert list(hostlist.expand(text)) == names


def test_a_range_in_the_middle_of_names_is_read_though_slurm_writes_none():
    assert hostlist.expand("n[1-2]-ib") == ("n1-ib", "n2-ib")


@pytest.mark.parametrize("text", ["", "(null)", "None assigned", "n/a", "None"])
def test_words_for_no_hosts_are_no_hosts(text):
    assert hostlist.expand(text) == ()


@pytest.mark.parametrize("text", ["n[1-3", "n1-3]", "n[a-b]", "n[1-]", "n[]", "n[1[2]]"])
def test_a_broken_hostlist_is_refused(text):
    with pytest.raises(ValueError, match=r"\["):
        hostlist.expand(text if "[" in text else f"{text} [")


@pytest.mark.parametrize("text", ["n[0-99999999]", "n[0-9999],m[0-99999]"])
def test_a_hostlist_beyond_reason_is_refused(text):
    with pytest.raises(ValueError, match="more than"):
        hostlist.expand(text)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n3", "n1", "n2"], "n[1-3]"),
        (["n1", "n3"], "n[1,3]"),
        (["n9", "n10"], "n[9-10]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n8", "n08"], "n8,n08"),
        (["login", "n2", "n1", "n1"], "n[1-2],login"),
        (["a1-ib", "a2-ib"], "a1-ib,a2-ib"),
    ],
)
def test_names_compress(names, text):
    assert hostlist.compress(names) == text


host_names = st.from_regex(r"[a-z]{1,3}[0-9]{0,4}(-ib)?", fullmatch=True)


@given(st.sets(host_names, max_size=40))
def test_expanding_what_was_compressed_gives_the_names_back(names):
    assert set(hostlist.expand(hostlist.compress(names))) == names


@pytest.mark.skipif(shutil.which("scontrol") is None, reason="Slurm's commands are not installed")
@pytest.mark.parametrize(("text", "names"), KNOWN, ids=[text for text, _ in KNOWN])
def test_slurm_expands_the_same(text, names, rootless_slurm):
    answer = rootless_slurm.run("head", ["scontrol", "show", "hostnames", text])
    assert answer.stdout.split() == names


def test_thousands_of_nodes_are_one_range():
    names = hostlist.expand("node[0001-2000]")
    assert len(names) == 2000
    assert hostlist.compress(names) == "node[0001-2000]"


@pytest.mark.parametrize(
    "text",
    [
        "n" + "[0-99]" * 20,
        "n[" + ",".join(["0-9999"] * 5000) + "]",
        f"n[{'0' * 4000}1-65535]",
        f"{'n' * 60000}[0-65535]",
        "n[" + "9" * 5000 + "]",
        "n[²-³]",
        "n[0-65535]" * 1000 + "[",
    ],
    ids=["ranges of ranges", "many ranges", "wide", "long", "digits", "no digits", "open"],
)
def test_what_would_fill_the_memory_is_refused_at_once(text):
    """Whoever may change a pod may write such a list into its annotations."""
    began = time.process_time()
    with pytest.raises(ValueError, match=r"hosts|digits|longer|number|brackets"):
        hostlist.expand(text)
    assert time.process_time() - began < 0.5


def test_a_long_range_beside_one_that_goes_backwards_is_not_made():
    began = time.process_time()
    assert hostlist.expand("n[0-999999999]k[9-1],login") == ("login",)
    assert time.process_time() - began < 0.5


def test_no_more_hosts_are_read_than_asked_for():
    assert len(hostlist.expand("n[1-3],login", 4)) == 4
    for text in ("n[1-4],login", "a,b,c,d,e"):
        with pytest.raises(ValueError, match="more than 4"):
            hostlist.expand(text, 4)
