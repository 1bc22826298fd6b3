"""What pods ask of hosts beside CPUs and memory: every rule of slurm/translate/placement.py."""

from __future__ import annotations

import pytest

from orlop.errors import ConfigError
from orlop.slurm.translate import gres
from orlop.slurm.translate.placement import Place, huge_pages_of

from ..pods import SLURM, container, options_of, pod, site, spec_of

PLACE = Place(
    gres=tuple(gres.parse("gpu:a100:4,gpu:a100_1g.5gb:7,nvme:2")),
    licenses=("matlab", "flex@host"),
    features=frozenset({"ib", "hugepages-2Mi"}),
    scratch_mib=9000,
    hosts=("n1", "n2", "n3", "n4"),
    labelled={
        "switch.slurm.orlop.dev/s1": frozenset({"n1", "n2"}),
        "switch.slurm.orlop.dev/s2": frozenset({"n2", "n3", "n4"}),
        "gpu.slurm.orlop.dev/a100": frozenset({"n1", "n2"}),
        "gpu.slurm.orlop.dev/a100_1g.5gb": frozenset({"n3"}),
        "feature.slurm.orlop.dev/ib": frozenset({"n1", "n3"}),
    },
)


def found(requests, annotations=None, **spec):
    given = {SLURM + name: value for name, value in (annotations or {}).items()}
    asked = pod(container(requests), annotations=given, **spec)
    return options_of(asked, site(place=PLACE))


@pytest.mark.parametrize(
    ("requests", "annotations", "expected"),
    [
        # Without its type Slurm would give a part of one, too.
        ({"nvidia.com/gpu": "2"}, {}, {"gres": "gpu:a100:2"}),
        ({"nvidia.com/gpu-a100": "2"}, {}, {"gres": "gpu:a100:2"}),
        ({"amd.com/gpu-mi300": "1"}, {}, {"gres": "gpu:mi300:1"}),
        ({"nvidia.com/mig-1g.5gb": "1"}, {}, {"gres": "gpu:a100_1g.5gb:1"}),
        ({"slurm.orlop.dev/gres-nvme": "2"}, {}, {"gres": "nvme:2"}),
        ({"slurm.orlop.dev/gres-gpu.a100": "1"}, {}, {"gres": "gpu:a100:1"}),
        (
            {"slurm.orlop.dev/gres-nvme": "1", "nvidia.com/gpu": "1"},
            {},
            {"gres": "gpu:a100:1,nvme:1"},
        ),
        (
            {"slurm.orlop.dev/gres-nvme": "1", "nvidia.com/gpu": "1"},
            {"gres": "nvme:2"},
            {"gres": "gpu:a100:1,nvme:2"},
        ),
        ({"nvidia.com/gpu": "1"}, {"gpus-per-task": "4"}, {"gpus-per-task": "4"}),
        ({"slurm.orlop.dev/gres-nvme": "1"}, {"gpus": "4"}, {"gpus": "4", "gres": "nvme:1"}),
    ],
)
def test_generic_resources(requests, annotations, expected):
    assert found(requests, annotations) == expected


def test_the_type_of_a_gpu_may_be_selected():
    selector = {"gpu.slurm.orlop.dev/a100": "true"}
    assert found({"nvidia.com/gpu": "2"}, nodeSelector=selector) == {"gres": "gpu:a100:2"}
    assert found({}, nodeSelector=selector) == {"exclude": "n3,n4"}
    two = selector | {"gpu.slurm.orlop.dev/v100": "true"}
    with pytest.raises(ConfigError, match="a GPU has one type"):
        found({"nvidia.com/gpu": "2"}, nodeSelector=two)


MIXED = "gpu:a100:4,gpu:h100:4", "gpu:mi210:2", "gpu:1g.5gb:7"
_ON = dict(zip(("n1", "n2", "n3"), MIXED, strict=True))


def mixed(requests, gpus=_ON):
    known = {host: gres.parse(text) for host, text in gpus.items()}
    kinds = {one.kind for some in known.values() for one in some}
    labelled = {
        f"gpu.slurm.orlop.dev/{kind}": frozenset(
            host for host, some in known.items() if kind in {one.kind for one in some}
        )
        for kind in kinds
    }
    there = tuple(one for some in known.values() for one in some)
    place = Place(gres=there, hosts=tuple(known), labelled=labelled)
    return options_of(pod(container(requests)), site(place=place))


@pytest.mark.parametrize(
    ("requests", "gpus", "expected"),
    [
        ({"amd.com/gpu": "1"}, _ON, {"gres": "gpu:mi210:1"}),
        ({"nvidia.com/gpu": "1"}, _ON, {"exclude": "n2,n3", "gres": "gpu:1"}),
        ({"nvidia.com/gpu-h100": "1"}, _ON, {"gres": "gpu:h100:1"}),
        ({"nvidia.com/gpu": "1"}, {"n1": "gpu:a100:4,gpu:h100:4"}, {"gres": "gpu:1"}),
        ({"nvidia.com/gpu": "1"}, {"n1": "gpu:4"}, {"gres": "gpu:1"}),
        ({"slurm.orlop.dev/gres-gpu": "1"}, _ON, {"gres": "gpu:1"}),
    ],
    ids=["one-type", "several", "named", "no-others", "no-types", "slurms-word"],
)
def test_one_makers_gpus_are_not_anothers_nor_parts(requests, gpus, expected):
    assert mixed(requests, gpus) == expected


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("switch.slurm.orlop.dev/s2", "n1"),
        ("!switch.slurm.orlop.dev/s2", "n2,n3,n4"),
        ("!feature.slurm.orlop.dev/ib", "n1,n3"),
        ("gpu.slurm.orlop.dev/a100,!feature.slurm.orlop.dev/ib", "n1,n3,n4"),
        ("!feature.slurm.orlop.dev/nosuch", None),
    ],
)
def test_node_affinity_that_was_passed_on_leaves_some_hosts(hosts, expected):
    assert found({}, {"hosts": hosts}) == ({"exclude": expected} if expected else {})


def test_affinity_that_no_host_meets_is_told():
    hosts = "switch.slurm.orlop.dev/s2,!switch.slurm.orlop.dev/s2"
    with pytest.raises(ConfigError, match=r"no host .* has all of this at once: .*s2, not .*s2"):
        found({}, {"hosts": hosts})


def test_a_host_by_name_is_no_label():
    with pytest.raises(ConfigError, match=r"expected labels of feature\S*, .* found 'n1'"):
        found({}, {"hosts": "n1"})


def test_affinity_may_name_the_type_of_a_gpu():
    named = {"hosts": "gpu.slurm.orlop.dev/a100_1g.5gb"}
    assert found({"nvidia.com/gpu": "1"}, named) == {"gres": "gpu:a100_1g.5gb:1"}


@pytest.mark.parametrize(
    ("requests", "annotations", "expected"),
    [
        ({"slurm.orlop.dev/license-matlab": "2"}, {}, "matlab:2"),
        ({"slurm.orlop.dev/license-flex.host": "1"}, {}, "flex@host:1"),
        ({"slurm.orlop.dev/license-matlab": "2"}, {"licenses": "matlab:1"}, "matlab:1"),
        ({"slurm.orlop.dev/license-matlab": "2"}, {"licenses": "ansys"}, "ansys,matlab:2"),
    ],
)
def test_licences(requests, annotations, expected):
    assert found(requests, annotations) == {"licenses": expected}


def test_local_scratch_is_asked_for_where_slurm_knows_of_it():
    asked = {"ephemeral-storage": "1500Mi"}
    assert found(asked) == {"tmp": "1500M"}
    assert found(asked, {"tmp": "9G"}) == {"tmp": "9G"}
    elsewhere = spec_of(pod(container(asked)))
    assert elsewhere.value("tmp") is None
    assert "TmpDisk" in elsewhere.warnings[0]


def test_huge_pages_are_a_feature_or_cannot_be_asked_for():
    assert found({"hugepages-2Mi": "4Mi"}) == {"constraint": "hugepages-2Mi"}
    joined = found({"hugepages-2Mi": "4Mi"}, {"constraint": "ib"})
    assert joined == {"constraint": "ib&hugepages-2Mi"}
    lacking = spec_of(pod(container({"hugepages-1Gi": "1Gi"})), site(place=PLACE))
    assert lacking.value("constraint") is None
    assert "no node of the partition has a feature" in lacking.warnings[0]


@pytest.mark.parametrize(
    ("features", "sizes"),
    [
        (["ib"], []),
        (["hugepages-1Gi"], ["hugepages-1Gi"]),
        (["hugepages"], ["hugepages-2Mi", "hugepages-1Gi"]),
    ],
)
def test_features_promise_huge_pages_up_to_the_memory(features, sizes):
    assert huge_pages_of(features, 64) == dict.fromkeys(sizes, 64)


@pytest.mark.parametrize(
    ("switches", "annotations", "excluded"),
    [
        (["s1"], {}, "n3,n4"),
        (["s2"], {"exclude": "n9"}, "n9,n1"),
        (["s1", "s2"], {}, "n1,n3,n4"),
    ],
)
def test_who_selects_a_switch_has_the_hosts_of_others_excluded(switches, annotations, excluded):
    selector = {f"switch.slurm.orlop.dev/{name}": "true" for name in switches}
    assert found({}, annotations, nodeSelector=selector) == {"exclude": excluded}


def test_a_switch_that_is_not_there_is_told():
    with pytest.raises(ConfigError, match=r"has switch\S*/s9; there are: \S*/s1, \S*/s2"):
        found({}, nodeSelector={"switch.slurm.orlop.dev/s9": "true"})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("switches", "1@10:00"),
        ("exclusive", None),
        ("hint", "nomultithread"),
        ("mem-bind", "local"),
        ("threads-per-core", "1"),
        ("sockets-per-node", "2"),
        ("cores-per-socket", "4"),
        ("core-spec", "1"),
        ("distribution", "block:cyclic"),
        ("gpu-bind", "closest"),
    ],
)
def test_hints_of_placement_are_passed_on(option, value):
    assert found({}, {option: value or "true"}) == {option: value}


def test_cpu_binding_is_sruns():
    spec = spec_of(pod(container(), annotations={SLURM + "cpu-bind": "cores"}))
    assert dict(spec.environment)["SLURM_CPU_BIND"] == "cores"
