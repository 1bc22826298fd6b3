"""Inputs are changed in every way that the fuzzer knows, and stay within their size."""

from __future__ import annotations

import json
import random

from tests.fuzzing.mutation import NESTS, Mutator

SEED = b'{"kind": "Pod", "count": 12, "items": [{"name": "a"}]}'
OTHER = b'{"other": [1, 2, 3]}'


def made(count: int, **options) -> list[bytes]:
    mutator = Mutator(random.Random(1), (b"WORD",), **options)
    return [mutator.change(SEED, OTHER) for _ in range(count)]


def test_the_same_seed_makes_the_same_inputs() -> None:
    assert made(200) == made(200)


def test_most_inputs_are_small_and_some_are_as_large_as_may_be() -> None:
    inputs = made(5000, longest=100, largest=1 << 12)
    small = [one for one in inputs if len(one) <= 100]
    assert 0.97 * len(inputs) < len(small) < len(inputs)
    assert 1000 < max(map(len, inputs)) <= 2 * (1 << 12) + len(SEED) + 100


def test_words_lengths_numbers_and_nests_are_tried() -> None:
    inputs = made(20_000)
    assert any(b"WORD" in one for one in inputs)
    assert any(b"\xff\xff\xff\xff" in one for one in inputs)
    assert any(b"4294967296" in one for one in inputs)
    assert any(b"[[[[[[[[[[[[[[[[" in one for one in inputs)
    assert len({begin for begin, _ in NESTS if any(begin * 8 in one for one in inputs)}) > 5


def test_json_stays_json_often_and_changes_as_a_tree() -> None:
    trees = []
    for one in made(2000, is_json=True):
        try:
            trees.append(json.loads(one))
        except ValueError:
            continue
    assert len(trees) > 600
    assert any(isinstance(one, dict) and one.get("kind") is None for one in trees)
    assert any(isinstance(one, dict) and one.get("count") == [12] for one in trees)
