"""Partitions as machines, from what sinfo prints."""

from __future__ import annotations

import math

import pytest

from orlop.slurm.query import partitions
from orlop.slurm.query.partitions import SEPARATOR, Facts, machines, parse, parse_topology, places


def line(**fields: str) -> str:
    row = {
        "name": "main",
        "marked": "main*",
        "available": "up",
        "limit": "infinite",
        "cpus": "8",
        "memory": "8000",
        "gres": "(null)",
        "features": "intel,ib",
        "state": "idle",
        "groups": "all",
        "cause": "none",
        "hosts": "n[1-2]",
        "scratch": "0",
    } | fields
    return SEPARATOR.join(row.values()) + "\n"


def one(text: str, default: str = "", groups=("users",), **facts):
    (machine,) = machines(parse(text), Facts(groups=groups, **facts), default=default)
    return machine


def test_a_partition_is_the_sum_of_its_hosts():
    unlike = line(cpus="64", memory="256000", hosts="big1", features="amd,ib", state="mixed")
    machine = one(line() + unlike)
    assert (machine.name, machine.cpus, machine.memory_mib) == ("main", 80, 272000)
    assert machine.hosts == ("n1", "n2", "big1")
    assert (machine.is_ready, machine.is_schedulable, machine.message) == (True, True, "")
    assert machine.architecture == "amd64"


def test_labels_name_the_partition_its_largest_host_and_what_any_host_has():
    unlike = line(cpus="64", memory="256000", hosts="big1", features="amd,ib")
    assert one(line() + unlike).labels == {
        "slurm.orlop.dev/partition": "main",
        "slurm.orlop.dev/default": "true",
        "slurm.orlop.dev/max-cpus-per-host": "64",
        "slurm.orlop.dev/max-memory-mib-per-host": "256000",
        "feature.slurm.orlop.dev/amd": "true",
        "feature.slurm.orlop.dev/ib": "true",
        "feature.slurm.orlop.dev/intel": "true",
    }


@pytest.mark.parametrize("features", ["(null)", "", "bad/label,x=y"])
def test_features_that_are_no_labels_are_left_out(features):
    labels = one(line(features=features)).labels
    assert not [label for label in labels if label.startswith("feature.")]


def test_the_default_is_slurms_unless_the_settings_name_one():
    text = line() + line(name="short", marked="short")
    both = machines(parse(text), Facts())
    assert [machine.is_default for machine in both] == [True, False]
    both = machines(parse(text), Facts(), default="short")
    assert [machine.is_default for machine in both] == [False, True]
    assert "slurm.orlop.dev/default" not in both[0].labels


@pytest.mark.parametrize(("limit", "seconds"), [("infinite", None), ("5:00", 300), ("n/a", None)])
def test_the_longest_time_is_none_where_there_is_no_limit(limit, seconds):
    assert one(line(limit=limit)).max_time == seconds
    assert seconds is None or not math.isinf(seconds)


def test_gpus_of_a_partition_add_up_and_their_types_are_labels():
    machine = one(line(gres="gpu:a100:4") + line(hosts="c1", gres="(null)"))
    assert machine.resources == {
        "nvidia.com/gpu": 8,
        "nvidia.com/gpu-a100": 8,
        "slurm.orlop.dev/gres-gpu": 8,
        "slurm.orlop.dev/gres-gpu.a100": 8,
    }
    assert machine.labels["gpu.slurm.orlop.dev/a100"] == "true"


def test_licences_scratch_and_huge_pages_are_resources_of_a_partition():
    text = line(scratch="1000") + line(hosts="h1", features="hugepages-1Gi", memory="64")
    assert one(text, licenses={"matlab": 2, "flex@host": 1}).resources == {
        "ephemeral-storage": 2 * 1000 * 2**20,
        "hugepages-1Gi": 64 * 2**20,
        "slurm.orlop.dev/license-matlab": 2,
        "slurm.orlop.dev/license-flex.host": 1,
    }


TOPOLOGY = """\
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[3-4]
SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[1-2]
"""


def test_leaf_switches_are_labels_of_the_partitions_that_have_hosts_there():
    switches = parse_topology(TOPOLOGY)
    assert switches == {"s1": {"n1", "n2"}, "s2": {"n3", "n4"}}
    labels = one(line(), switches=switches).labels
    assert [name for name in labels if name.startswith("switch.")] == ["switch.slurm.orlop.dev/s1"]
    assert parse_topology("No topology information available\n") == {}


def test_labels_that_not_all_hosts_have_are_known_with_their_hosts():
    text = line(gres="gpu:a100:4") + line(hosts="n3", features="ib", gres="(null)")
    facts = Facts(switches=parse_topology(TOPOLOGY))
    (machine,) = machines(parse(text), facts)
    partial = ["feature.slurm.orlop.dev/intel", "gpu.slurm.orlop.dev/a100"]
    switches = ["switch.slurm.orlop.dev/s1", "switch.slurm.orlop.dev/s2"]
    assert machine.partial == (*partial, *switches)
    assert machine.labels["feature.slurm.orlop.dev/ib"] == "true"
    labelled = places(parse(text), facts)["main"].labelled
    assert labelled["feature.slurm.orlop.dev/ib"] == {"n1", "n2", "n3"}
    assert labelled["gpu.slurm.orlop.dev/a100"] == {"n1", "n2"}
    assert labelled["switch.slurm.orlop.dev/s2"] == {"n3"}


def test_a_submission_knows_what_its_partition_has():
    text = line(gres="gpu:a100:4(S:0)", scratch="500") + line(hosts="n9", scratch="900")
    place = places(parse(text), Facts(licenses={"matlab": 2}))["main"]
    assert place.gres == (("gpu", "a100", 4),)
    assert (place.licenses, place.scratch_mib) == (("matlab",), 900)
    assert (place.features, place.hosts) == ({"intel", "ib"}, ("n1", "n2", "n9"))


@pytest.mark.parametrize(
    ("fields", "is_ready", "is_schedulable", "words"),
    [
        ({"available": "down"}, True, False, "partition main is down"),
        ({"available": "drain"}, True, False, "partition main is drain"),
        ({"available": "inact"}, True, False, "partition main is inact"),
        ({"state": "down", "cause": "Not responding"}, False, False, "down (Not responding)"),
        ({"state": "down*"}, False, False, "takes jobs: down*"),
        ({"state": "idle*"}, False, False, "idle*"),
        ({"state": "drained", "cause": "disk"}, True, False, "drained (disk)"),
        ({"state": "draining"}, True, False, "draining"),
        ({"state": "maint"}, True, False, "maint"),
        ({"state": "inval"}, False, False, "inval"),
        ({"state": "powered_down~"}, True, False, "powered_down~"),
        ({"hosts": "", "state": "n/a"}, False, False, "it has none"),
        ({"groups": "chem,physics"}, True, False, "groups chem,physics only"),
        ({"groups": "chem,users"}, True, True, ""),
        ({"state": "idle~"}, True, True, ""),
        ({"state": "mixed#"}, True, True, ""),
        ({"state": "planned"}, True, True, ""),
        ({"state": "mixed-"}, True, True, ""),
        ({"state": "allocated"}, True, True, ""),
        ({"state": "reserved"}, True, True, ""),
    ],
)
def test_what_slurm_says_of_a_partition(fields, is_ready, is_schedulable, words):
    machine = one(line(**fields))
    assert (machine.is_ready, machine.is_schedulable) == (is_ready, is_schedulable)
    assert words in machine.message
    assert bool(machine.message) is not (is_ready and is_schedulable)


def test_one_good_host_is_enough():
    machine = one(line(state="down*") + line(hosts="n3"))
    assert (machine.is_ready, machine.is_schedulable) == (True, True)


def test_lines_that_cannot_be_read_are_left_out():
    assert parse("sinfo: warning\n\n") == []


def test_each_field_is_asked_for_once():
    assert len(set(partitions.FIELDS)) == len(partitions.FIELDS)
