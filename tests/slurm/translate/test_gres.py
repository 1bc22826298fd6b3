"""Generic resources and licences, under Slurm's names and under Kubernetes'."""

from __future__ import annotations

import time

import pytest

from orlop.slurm.translate import gres
from orlop.slurm.translate.gres import Gres


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(null)", []),
        ("", []),
        ("N/A", []),
        ("gpu:4", [("gpu", "", 4)]),
        ("gpu", [("gpu", "", 1)]),
        ("gres/gpu:2", [("gpu", "", 2)]),
        ("gpu:a100:4(S:0-1)", [("gpu", "a100", 4)]),
        ("gpu:a100:2(S:0),gpu:v100:2(S:1),nvme:1", [
            ("gpu", "a100", 2), ("gpu", "v100", 2), ("nvme", "", 1)]),
        ("bandwidth:4G", [("bandwidth", "", 4 << 30)]),
        ("craynetwork:4,lustre:no_consume:1", [("craynetwork", "", 4)]),
    ],
)  # fmt: skip
def test_a_nodes_list_is_read(text, expected):
    assert gres.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu:4", {"nvidia.com/gpu": 4, "slurm.orlop.dev/gres-gpu": 4}),
        ("gpu:mi250x:8", {
            "amd.com/gpu": 8, "amd.com/gpu-mi250x": 8,
            "slurm.orlop.dev/gres-gpu": 8, "slurm.orlop.dev/gres-gpu.mi250x": 8}),
        ("gpu:a100:2,gpu:v100:1", {
            "nvidia.com/gpu": 3, "nvidia.com/gpu-a100": 2, "nvidia.com/gpu-v100": 1,
            "slurm.orlop.dev/gres-gpu": 3, "slurm.orlop.dev/gres-gpu.a100": 2,
            "slurm.orlop.dev/gres-gpu.v100": 1}),
        ("gpu:a100_1g.5gb:7", {
            "nvidia.com/mig-1g.5gb": 7,
            "slurm.orlop.dev/gres-gpu": 7, "slurm.orlop.dev/gres-gpu.a100_1g.5gb": 7}),
        ("nvme:900", {"slurm.orlop.dev/gres-nvme": 900}),
        ("fpga:x/y:1", {"slurm.orlop.dev/gres-fpga": 1, "slurm.orlop.dev/gres-fpga.x.y": 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_each_is_a_resource_under_all_its_names(text, expected):
    assert gres.resources_of(gres.parse(text)) == expected


@pytest.mark.parametrize(
    ("kind", "profile"),
    [
        ("1g.5gb", "1g.5gb"),
        ("nvidia_a100-sxm4_3g.20gb", "3g.20gb"),
        ("h100_1g.10gb+me", "1g.10gb+me"),
        ("a100", ""),
        ("", ""),
    ],
)
def test_a_part_of_a_gpu_is_known_by_its_profile(kind, profile):
    assert gres.mig_profile(kind) == profile


KNOWN = gres.parse("gpu:a100:4,gpu:a100_1g.5gb:7,fpga:x/y:1,nvme:2")


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("nvidia.com/gpu", Gres("gpu", "", 0)),
        ("amd.com/gpu", Gres("gpu", "", 0)),
        ("nvidia.com/gpu-a100", Gres("gpu", "a100", 0)),
        ("nvidia.com/gpu-unheard.of", Gres("gpu", "unheard.of", 0)),
        ("amd.com/gpu-mi300", Gres("gpu", "mi300", 0)),
        ("nvidia.com/mig-1g.5gb", Gres("gpu", "a100_1g.5gb", 0)),
        ("nvidia.com/mig-2g.10gb", Gres("gpu", "2g.10gb", 0)),
        ("slurm.orlop.dev/gres-nvme", Gres("nvme", "", 0)),
        ("slurm.orlop.dev/gres-gpu", Gres("gpu", "", 0)),
        ("slurm.orlop.dev/gres-fpga.x.y", Gres("fpga", "x/y", 0)),
        ("slurm.orlop.dev/gres-new.kind", Gres("new", "kind", 0)),
        ("cpu", None),
        ("nvidia.com/gpumem", None),
        ("slurm.orlop.dev/license-x", None),
    ],
)
def test_what_a_pod_asks_for_has_slurms_name_again(resource, expected):
    assert gres.wanted(resource, KNOWN) == expected


def test_licences_have_names_that_fit_and_are_found_again():
    text = "LicenseName=flex@host Total=3 Used=0 Free=3 Reserved=0 Remote=no\nrubbish\n"
    assert gres.parse_licenses(text) == {"flex@host": 3}
    assert gres.license_resources({"flex@host": 3}) == {"slurm.orlop.dev/license-flex.host": 3}
    assert gres.wanted_license("slurm.orlop.dev/license-flex.host", ["flex@host"]) == "flex@host"
    assert gres.wanted_license("slurm.orlop.dev/license-matlab", []) == "matlab"
    assert gres.wanted_license("cpu", []) == ""


def test_brackets_and_numbers_without_end_are_read_at_once():
    began = time.process_time()
    assert gres.parse("(" * 200_000) != []
    assert gres.resources_of(gres.parse("gpu:" + "9" * 5000)) == {
        "nvidia.com/gpu": 1,
        "slurm.orlop.dev/gres-gpu": 1,
    }
    assert gres.parse_licenses("LicenseName=a Total=" + "9" * 5000) == {}
    assert time.process_time() - began < 0.5
