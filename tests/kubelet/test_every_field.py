"""Every field of a pod that is called met makes a difference, somewhere, when it is set.

The table of `support` says which fields are met; here each is set in some pod of `every_field`, and
taking it out changes what becomes of the pod. What is seen elsewhere is named with its test, and
what makes no difference with the reason.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from orlop.api.schema import build
from orlop.kubelet.planning.field_support import MET, Nested

from .every_field import PODS, outcome
from .objects import treatment

Obj = dict[str, Any]
Place = tuple[str | int, ...]
SCHEMA = build()


def struct_of(spec: str) -> str:
    """The struct that a field holds, once or in a list; empty: a plain value, or a map."""
    return spec.partition("@")[2] if spec.startswith(("@", "[@")) else ""


def fields_set(value: Obj, struct: str, place: Place) -> Iterator[tuple[str, str, Place]]:
    """Every field that is set: its struct, its name, where it stands."""
    for name, one in value.items():
        kind = SCHEMA.struct(struct).fields[name]
        yield struct, name, (*place, name)
        inner = struct_of(kind.spec)
        each = list(enumerate(one)) if isinstance(one, list) else [(None, one)]
        for index, part in each if inner else ():
            at = (*place, name) if index is None else (*place, name, index)
            yield from fields_set(part, inner, at)


def without(pod: Obj, place: Place) -> Obj:
    made = copy.deepcopy(pod)
    holder: Any = made["spec"]
    for step in place[:-1]:
        holder = holder[step]
    del holder[place[-1]]
    return made


@cache
def effective() -> tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]:
    """Fields that are set in some pod; those of them that make a difference."""
    seen, differ = set(), set()
    for make in PODS:
        pod = make()
        whole = outcome(pod)
        for struct, name, place in fields_set(pod["spec"], "core_v1.PodSpec", ()):
            seen.add((struct, name))
            if (struct, name) not in differ and outcome(without(pod, place)) != whole:
                differ.add((struct, name))
    return frozenset(seen), frozenset(differ)


# What is shown by a test elsewhere.
SHOWN = {
    "Container.imagePullPolicy": (
        "kubelet/start/test_preparation.py test_each_image_is_asked_for_once"
    ),
    "ImageVolumeSource.pullPolicy": (
        "kubelet/start/test_preparation.py test_an_image_that_is_mounted"
    ),
    "LocalObjectReference.name": (
        "kubelet/start/test_preparation.py test_pull_secrets_are_passed_on"
    ),
    "PersistentVolumeClaimTemplate.metadata": (
        "controllers/storage/test_ephemeral_volume.py test_the_claim"
    ),
    "PersistentVolumeClaimTemplate.spec": (
        "controllers/storage/test_ephemeral_volume.py test_the_claim"
    ),
    "PodSpec.automountServiceAccountToken": (
        "apiserver/admission/test_service_account.py test_the_pod_then_the_account_say_whether"
    ),
    "PodSpec.imagePullSecrets": "kubelet/start/test_preparation.py test_pull_secrets_are_passed_on",
    "PodSpec.schedulerName": "scheduler/test_scheduler.py test_pods_that_are_not_ours",
    "PodSpec.serviceAccount": (
        "apiserver/admission/test_service_account.py test_the_old_name_of_the_field"
    ),
    "PodSpec.serviceAccountName": (
        "apiserver/admission/test_service_account.py test_an_account_that_is_not_there"
    ),
    "TopologySpreadConstraint.matchLabelKeys": "scheduler/test_spread.py test_match_label_keys",
    "TopologySpreadConstraint.minDomains": "scheduler/test_spread.py test_fewer_domains",
    "TopologySpreadConstraint.nodeTaintsPolicy": "scheduler/test_spread.py test_tainted_nodes",
}
HARMLESS = {
    "Container.resizePolicy": "only of interest where resources change, and a job's never do",
    "ContainerRestartRule.action": "Restart is all there is; validation lets nothing else pass",
    "ObjectFieldSelector.apiVersion": "v1 is all there is; validation lets nothing else pass",
    "PodSchedulingGate.name": "for whoever lifts it; that there is one is what counts",
}
# Of other objects than the pod, or the same as another.
BEYOND = ("PersistentVolumeClaimTemplate.", "Container.resizePolicy")
SAME = {"core_v1.EphemeralContainer": "core_v1.Container"}


def short(struct: str, name: str) -> str:
    return f"{SAME.get(struct, struct).partition('.')[2]}.{name}"


def reachable() -> set[str]:
    """Every field of all that a pod may hold, but for those that the table refuses or tells of."""
    found: set[str] = set()

    def walk(struct: str, path: str) -> None:
        for name, kind in SCHEMA.struct(struct).fields.items():
            rule, known = treatment(f"{path}{name}"), short(struct, name)
            is_met = rule is None or rule is MET or isinstance(rule, Nested)
            if not is_met or known in found:
                continue
            found.add(known)
            if struct_of(kind.spec) and not known.startswith(BEYOND):
                walk(struct_of(kind.spec), f"{path}{name}.")

    walk("core_v1.PodSpec", "")
    return found


def test_every_field_that_is_met_is_looked_at_here():
    seen = {short(*field) for field in effective()[0]}
    assert reachable() - seen - SHOWN.keys() - HARMLESS.keys() == set()


def test_every_field_makes_a_difference():
    seen, differ = ({short(*field) for field in fields} for fields in effective())
    assert seen - differ - SHOWN.keys() == seen & HARMLESS.keys()


@pytest.mark.parametrize("shown", sorted(set(SHOWN.values())))
def test_what_is_shown_elsewhere_is_there(shown):
    file, _, name = shown.partition(" ")
    assert f"def {name}" in (Path(__file__).parents[1] / file).read_text()
