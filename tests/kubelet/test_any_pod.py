"""Whatever a pod asks for, a plan comes of it that an agent can read, or words that say why not.

Pods are made up from the schema, and of each only what the API server lets in is kept.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from orlop.agent import plan as agent_plan
from orlop.api import defaults, kinds, validation
from orlop.api.schema import Schema
from orlop.errors import ApiError, ConfigError
from orlop.kubelet.planning.plan import Inputs, check, make_plan
from orlop.kubelet.planning.refusal import Refusal
from orlop.settings import SlurmSettings
from orlop.slurm.translate import job
from orlop.slurm.translate.script import script
from tests.api.generated import Maker

from .objects import NODE, FakeImage, a_container, a_pod
from .planning.test_plan import SITE

Obj = dict[str, Any]
PODS = 120
POD_SPEC, CONTAINER = "core_v1.PodSpec", "core_v1.Container"


class AnyImages(dict[str, FakeImage]):
    """Every image is there."""

    def __missing__(self, name: str) -> FakeImage:
        return FakeImage("host", "", None, cmd=[]) if name == "host" else FakeImage()


def any_pods(schema: Schema, seed: int, count: int = PODS) -> Iterator[Obj]:
    """Pods that the API server lets in, each with as many made-up fields as that allows."""
    maker, chance = Maker(schema, seed), random.Random(seed)
    for _ in range(count):
        pod = a_pod(a_container("a", "busybox"), a_container("b", "busybox"))
        for _ in range(chance.randint(1, 12)):
            wishes = maker.struct(POD_SPEC, depth=5)
            wishes.pop("containers", None)
            pod = _with_those_let_in(pod, wishes, ("spec",))
            wishes = maker.struct(CONTAINER, depth=5)
            wishes.pop("name", None)
            pod = _with_those_let_in(pod, wishes, ("spec", "containers", chance.randint(0, 1)))
        yield pod


def _with_those_let_in(pod: Obj, wishes: Obj, where: tuple[str | int, ...]) -> Obj:
    for name, value in wishes.items():
        tried = copy.deepcopy(pod)
        place: Any = tried
        for step in where:
            place = place[step]
        place[name] = copy.deepcopy(value)
        defaulted = copy.deepcopy(tried)
        defaults.apply_defaults(kinds.POD, defaulted)
        if not validation.validate_create(kinds.POD, defaulted):
            pod = defaulted
    return pod


@pytest.mark.parametrize("seed", range(5))
def test_a_pod_that_is_let_in_gets_a_plan_or_words(schema, tmp_path, seed):
    planned, refusals = 0, []
    for pod in any_pods(schema, seed):
        try:
            assert all(isinstance(words, str) for words in check(pod))
            plan = make_plan(pod, SITE, Inputs(AnyImages(), NODE))
        except Refusal as refusal:
            refusals.append((refusal.reason, refusal.message))
            continue
        planned += 1
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(plan))
        read = agent_plan.read(str(path))
        assert [c.name for c in read.containers if not c.init] == ["a", "b"]
        assert all(c.spec() for c in read.containers)
    assert all(all(words) for words in refusals)
    assert planned > PODS // 10, "most are refused: nothing much was tried"


@pytest.mark.parametrize("seed", range(3))
def test_a_pod_that_is_let_in_gets_a_job_or_words(schema, seed):
    site = job.Site(SlurmSettings(), "cluster")
    refusals = []
    for pod in any_pods(schema, seed):
        try:
            spec = job.job_spec(pod, "main", "/h/pods/x", ("python3", "agent"), site)
        except ConfigError as error:
            refusals.append(str(error))
            continue
        lines = script(spec).splitlines()
        assert lines[0] == "#!/bin/bash"
        assert all(line.isprintable() for line in lines)
    assert all(refusals)


async def test_any_pods_are_served_and_so_is_the_next(site, schema, caplog):
    made = list(any_pods(schema, 7, 25))
    for number, pod in enumerate(made):
        pod["metadata"] = {"name": f"any{number}", "namespace": "default"}
        with suppress(ApiError):  # of admission
            await site.api.create(kinds.POD, pod, namespace="default")
    await site.create("web")
    await site.submitted("web")
    assert "Traceback" not in caplog.text
