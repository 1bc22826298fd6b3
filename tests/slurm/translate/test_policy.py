"""What namespaces and priority classes mean in Slurm, and who is stronger."""

from __future__ import annotations

import pytest

from orlop.engine import Surroundings
from orlop.errors import ConfigError
from orlop.settings import NamespaceSettings, SlurmSettings
from orlop.slurm.translate.policy import Policy

from ..pods import SLURM, container, options_of, pod, site, spec_of


def notes(**options: str) -> dict[str, str]:
    return {SLURM + name.replace("_", "-"): value for name, value in options.items()}


def settings(**namespace) -> SlurmSettings:
    return SlurmSettings(
        account="everyone",
        namespaces={"default": NamespaceSettings(**namespace)},
        priority_classes={"urgent": ["--qos=high"]},
    )


def found(own=None, *, namespace=None, of_class=None, given=None, priority="", **facts):
    around = Surroundings(namespace or {}, of_class or {})
    where = site(given or SlurmSettings(), around=around, **facts)
    return options_of(
        pod(container(), annotations=own or {}, priorityClassName=priority or None), where
    )


ALL = {"account": "a", "qos": "q", "reservation": "r", "wckey": "w", "nice": "5"}


def test_a_namespace_gives_its_pods_account_qos_reservation_wckey_and_nice():
    assert found(namespace=notes(**ALL)) == ALL


def test_so_does_the_configuration_and_the_namespace_itself_is_stronger():
    given = settings(flags=["--account=chem", "--nice=9"])
    assert found(given=given) == {"account": "chem", "nice": "9"}
    assert found(given=given, namespace=notes(account="bio")) == {"account": "bio", "nice": "9"}


@pytest.mark.parametrize("own", [notes(account="mine"), notes(flags="-A mine")])
def test_the_pods_own_word_is_stronger_than_its_namespaces(own):
    assert found(own, namespace=notes(account="bio"))["account"] == "mine"


def test_requests_are_stronger_than_a_namespaces_flags():
    where = site(around=Surroundings(notes(flags="--mem=9G -c 8")))
    asked = pod(container({"memory": "1Gi"}))
    assert options_of(asked, where) == {"cpus-per-task": "8", "mem": "1024M"}


def test_a_priority_class_says_its_qos_itself_or_by_the_configuration():
    assert found(of_class=notes(qos="top", nice="0"), priority="urgent") == {
        "qos": "top",
        "nice": "0",
    }
    given = settings()
    assert found(given=given, priority="urgent")["qos"] == "high"
    assert found(given=given, priority="urgent", of_class=notes(qos="top"))["qos"] == "top"
    own = notes(qos="mine")
    assert found(own, given=given, priority="urgent", of_class=notes(qos="top"))["qos"] == "mine"


def test_what_is_locked_holds_and_a_pod_that_asks_otherwise_is_refused():
    given = settings(locked=["--account=chem"])
    assert found(given=given, namespace=notes(account="bio")) == {"account": "chem"}
    assert found(notes(account="chem"), given=given) == {"account": "chem"}
    with pytest.raises(ConfigError, match="--account=chem is fixed for the namespace default"):
        found(notes(account="bio"), given=given)


@pytest.mark.parametrize(
    ("own", "namespace", "facts", "time"),
    [
        ({}, notes(max_time="60"), {}, "01:00:00"),
        ({}, notes(max_time="60"), {"default_time": 600.0}, None),
        ({}, notes(max_time="60"), {"default_time": 7200.0}, "01:00:00"),
        (notes(time="30"), notes(max_time="60"), {}, "30"),
        ({}, notes(max_time="60", time="2:00:00"), {}, "01:00:00"),
        ({}, notes(max_time="UNLIMITED"), {}, None),
    ],
)
def test_no_pod_of_a_namespace_has_more_time_than_it_allows(own, namespace, facts, time):
    assert found(own, namespace=namespace, **facts).get("time") == time


def test_a_pod_that_asks_for_more_time_or_nodes_is_told():
    with pytest.raises(ConfigError, match="--time=2-0: the namespace default allows 1 h"):
        found(notes(time="2-0"), namespace=notes(max_time="60"))
    with pytest.raises(ConfigError, match="--nodes=4-8: the namespace default allows 2"):
        found(notes(nodes="4-8"), given=settings(max_nodes=2))
    with pytest.raises(ConfigError, match="allows 2; ask for fewer"):
        found(notes(nodes="9" * 5000), given=settings(max_nodes=2))
    for nodes in ("1-3", "2-100", "1k", "1M", "1,4"):
        with pytest.raises(ConfigError, match="the namespace default allows 2"):
            found(notes(nodes=nodes), given=settings(max_nodes=2))
    assert found(notes(nodes="2"), namespace=notes(max_nodes="2")) == {"nodes": "2"}
    assert found(notes(nodes="1-2"), namespace=notes(max_nodes="2")) == {"nodes": "1-2"}


@pytest.mark.parametrize(
    "namespace", [notes(max_time="soon"), notes(max_nodes="9" * 5000), notes(array="1-3")]
)
def test_what_is_wrong_in_a_namespace_names_it(namespace):
    with pytest.raises(ConfigError, match="namespace default"):
        found(namespace=namespace)


@pytest.mark.parametrize(
    ("given", "annotations", "partition"),
    [
        ({}, {}, ""),
        ({"flags": ["-p", "long"]}, {}, "long"),
        ({"flags": ["-p", "long"]}, notes(partition="gpu"), "gpu"),
        ({"locked": ["-p", "short"]}, notes(partition="gpu"), "short"),
    ],
)
def test_the_partition_of_a_namespace(given, annotations, partition):
    assert Policy(settings(**given), "default", annotations).partition() == partition


def test_the_node_decides_on_the_partition_of_the_job():
    where = site(around=Surroundings(notes(partition="gpu")))
    assert spec_of(pod(container()), where).value("partition") == "main"
