"""Probes and hooks in a plan: ports are numbers, and what is not there is left out."""

from __future__ import annotations

import pytest

from orlop.kubelet.planning.handlers import planned_handlers

from ..objects import a_container

PORTS = [{"name": "http", "containerPort": 8080}, {"containerPort": 9}]


def test_a_container_without_probes_and_hooks_has_none_in_its_plan():
    assert planned_handlers(a_container()) == {}


@pytest.mark.parametrize(
    ("port", "expected"), [("http", 8080), (80, 80), ("81", 81), ("nobody", "nobody")]
)
@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket", "grpc"])
def test_named_ports_are_those_of_the_container(kind, port, expected):
    probe = {kind: {"port": port, "path": "/"}, "periodSeconds": 3}
    container = a_container(ports=PORTS, livenessProbe=probe, lifecycle={"preStop": probe})
    planned = planned_handlers(container)
    found = {kind: {"port": expected, "path": "/"}, "periodSeconds": 3}
    assert planned == {"probes": {"liveness": found}, "hooks": {"preStop": found}}
    assert probe[kind]["port"] == port, "the pod itself is left as it is"


def test_commands_of_probes_are_expanded_and_those_of_hooks_are_not():
    env = [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {}}}]
    handler = {"exec": {"command": ["echo", "$(A)", "$(B)", "$$(A)"]}}
    container = a_container(env=env, startupProbe=handler, lifecycle={"postStart": handler})
    planned = planned_handlers(container)
    assert planned["probes"]["startup"]["exec"]["command"] == ["echo", "1", "$(B)", "$(A)"]
    assert planned["hooks"]["postStart"] == handler


def test_what_follows_an_exit_is_in_the_plan():
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    container = a_container(restartPolicy="Never", restartPolicyRules=rules)
    assert planned_handlers(container) == {"restartPolicy": "Never", "restartPolicyRules": rules}
