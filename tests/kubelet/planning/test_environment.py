"""Variables come from the image, from whole ConfigMaps and Secrets, and one by one."""

from __future__ import annotations

import base64

import pytest

from orlop.kubelet.planning.environment import (
    api_variables,
    container_variables,
    planned_env_files,
    service_variables,
    with_image,
)
from orlop.kubelet.planning.refusal import Refusal
from orlop.kubelet.planning.sources import Sources, references

from ..objects import NODE, a_container, a_pod


def b64(text):
    return base64.b64encode(text.encode()).decode()


SOURCES = Sources(
    "default",
    {"settings": {"data": {"colour": "blue", "my.key": "dot"}, "binaryData": {"bin": b64("x")}}},
    {"vault": {"data": {"password": b64("s3cret")}}},
)


def variables(*env, **container):
    spec = a_container(env=list(env), **container)
    return container_variables(a_pod(spec), spec, SOURCES, NODE)


def key_ref(kind, name, key, **more):
    return {"name": "A", "valueFrom": {kind: {"name": name, "key": key, **more}}}


def test_the_api_server_is_told_as_a_service_is():
    found = api_variables("https://10.1.2.3:6443")
    assert found["KUBERNETES_SERVICE_HOST"] == "10.1.2.3"
    assert found["KUBERNETES_SERVICE_PORT"] == found["KUBERNETES_SERVICE_PORT_HTTPS"] == "6443"
    assert found["KUBERNETES_PORT"] == found["KUBERNETES_PORT_6443_TCP"] == "tcp://10.1.2.3:6443"
    assert found["KUBERNETES_PORT_6443_TCP_ADDR"] == "10.1.2.3"
    assert api_variables("") == {}


def test_a_pods_own_variables_win_over_services_and_may_refer_to_them():
    spec = a_container(env=[{"name": "A", "value": "x"}, {"name": "B", "value": "$(H):$(A)"}])
    found = container_variables(a_pod(spec), spec, SOURCES, NODE, {"A": "service", "H": "host"})
    assert found == {"A": "x", "H": "host", "B": "host:x"}


def test_values_are_taken_as_they_are_and_in_order():
    found = variables({"name": "B", "value": "1"}, {"name": "A", "value": ""}, {"name": "C"})
    assert list(found.items()) == [("B", "1"), ("A", ""), ("C", "")]


def test_a_value_may_refer_to_those_before_it_only():
    found = variables(
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A) $(C) $$(A)"},
        {"name": "C", "value": "3"},
    )
    assert found["B"] == "1 $(C) $(A)"


def test_the_later_of_two_equal_names_wins():
    assert variables({"name": "A", "value": "1"}, {"name": "A", "value": "2"}) == {"A": "2"}


def test_what_a_reference_brings_is_not_expanded_again():
    found = container_variables(
        a_pod(),
        a_container(
            env=[key_ref("configMapKeyRef", "money", "a"), {"name": "B", "value": "$(A)"}],
        ),
        Sources("default", {"money": {"data": {"a": "$$ $(B)"}}}),
        NODE,
    )
    assert found == {"A": "$$ $(B)", "B": "$$ $(B)"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "web"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "64"),
        ({"configMapKeyRef": {"name": "settings", "key": "colour"}}, "blue"),
        ({"secretKeyRef": {"name": "vault", "key": "password"}}, "s3cret"),
    ],
    ids=["field", "resource", "configMap", "secret"],
)
def test_a_value_may_come_from_elsewhere(source, expected):
    assert variables({"name": "A", "valueFrom": source}) == {"A": expected}


@pytest.mark.parametrize(
    "variable",
    [
        key_ref("configMapKeyRef", "none", "a", optional=True),
        key_ref("configMapKeyRef", "settings", "none", optional=True),
        key_ref("secretKeyRef", "none", "a", optional=True),
        key_ref("secretKeyRef", "vault", "none", optional=True),
    ],
)
def test_what_is_optional_and_absent_is_not_set(variable):
    assert variables(variable) == {}


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        (key_ref("configMapKeyRef", "none", "a"), 'configmap "none" not found'),
        (key_ref("secretKeyRef", "none", "a"), 'secret "none" not found'),
        (
            key_ref("configMapKeyRef", "settings", "b"),
            "couldn't find key b in ConfigMap default/settings",
        ),
        (key_ref("secretKeyRef", "vault", "b"), "couldn't find key b in Secret default/vault"),
    ],
)
def test_what_is_required_and_absent_is_refused_in_upstreams_words(variable, words):
    with pytest.raises(Refusal) as refused:
        variables(variable)
    assert refused.value.message == words
    assert refused.value.reason == "CreateContainerConfigError"


def test_whole_sources_come_first_with_their_prefix_and_env_wins():
    found = variables(
        {"name": "P_colour", "value": "red"},
        {"name": "B", "value": "$(password)"},
        envFrom=[
            {"prefix": "P_", "configMapRef": {"name": "settings"}},
            {"secretRef": {"name": "vault"}},
        ],
    )
    assert found == {
        "P_colour": "red",
        "P_my.key": "dot",
        "password": "s3cret",
        "B": "s3cret",
    }


@pytest.mark.parametrize("kind", ["configMapRef", "secretRef"])
def test_an_absent_whole_source_is_refused_unless_optional(kind):
    assert variables(envFrom=[{kind: {"name": "none", "optional": True}}]) == {}
    with pytest.raises(Refusal, match='"none" not found'):
        variables(envFrom=[{kind: {"name": "none"}}])


def test_the_images_variables_are_there_where_the_pod_sets_none():
    final = with_image({"PATH": "/bin", "LANG": "C"}, {"LANG": "de", "A": "1"})
    assert final == [["PATH", "/bin"], ["LANG", "de"], ["A", "1"]]


def test_bytes_of_a_secret_that_are_no_text_survive():
    raw = base64.b64encode(b"\xff\x00ok").decode()
    sources = Sources("default", {}, {"vault": {"data": {"raw": raw}}})
    assert sources.secret_text("vault") == {"raw": "\udcff\x00ok"}


def test_everything_that_a_pod_names_is_fetched():
    pod = a_pod(
        a_container(
            env=[key_ref("configMapKeyRef", "c1", "a"), key_ref("secretKeyRef", "s1", "a")],
            envFrom=[{"configMapRef": {"name": "c2"}}, {"secretRef": {"name": "s2"}}],
        ),
        initContainers=[a_container("init", envFrom=[{"secretRef": {"name": "s3"}}])],
        volumes=[
            {"name": "a", "configMap": {"name": "c3"}},
            {"name": "b", "secret": {"secretName": "s4"}},
            {
                "name": "c",
                "projected": {
                    "sources": [{"configMap": {"name": "c4"}}, {"secret": {"name": "s5"}}]
                },
            },
            {"name": "d", "emptyDir": {}},
        ],
    )
    named = references(pod)
    assert named.config_maps == {"c1", "c2", "c3", "c4"}
    assert named.secrets == {"s1", "s2", "s3", "s4", "s5"}


def test_a_service_is_told_as_upstream_does():
    ports = [{"name": "http", "port": 80}, {"name": "dns-udp", "port": 53, "protocol": "UDP"}]
    service = {
        "metadata": {"name": "my-web"},
        "spec": {"clusterIP": "10.96.0.3", "ports": ports},
    }
    assert service_variables([service]) == {
        "MY_WEB_SERVICE_HOST": "10.96.0.3",
        "MY_WEB_SERVICE_PORT": "80",
        "MY_WEB_SERVICE_PORT_HTTP": "80",
        "MY_WEB_SERVICE_PORT_DNS_UDP": "53",
        "MY_WEB_PORT": "tcp://10.96.0.3:80",
        "MY_WEB_PORT_80_TCP": "tcp://10.96.0.3:80",
        "MY_WEB_PORT_80_TCP_PROTO": "tcp",
        "MY_WEB_PORT_80_TCP_PORT": "80",
        "MY_WEB_PORT_80_TCP_ADDR": "10.96.0.3",
        "MY_WEB_PORT_53_UDP": "udp://10.96.0.3:53",
        "MY_WEB_PORT_53_UDP_PROTO": "udp",
        "MY_WEB_PORT_53_UDP_PORT": "53",
        "MY_WEB_PORT_53_UDP_ADDR": "10.96.0.3",
    }


@pytest.mark.parametrize("spec", [{"clusterIP": "None"}, {"type": "ExternalName"}])
def test_a_service_without_an_address_is_not_told(spec):
    assert service_variables([{"metadata": {"name": "a"}, "spec": spec}]) == {}


def test_variables_from_files_are_left_to_the_node():
    source = {"volumeName": "v", "path": "env", "key": "A"}
    container = a_container(env=[{"name": "X", "valueFrom": {"fileKeyRef": source}}])
    pod = a_pod(container, volumes=[{"name": "v", "emptyDir": {}}])
    assert planned_env_files(pod, container) == [
        {"name": "X", "volume": "v", "path": "env", "key": "A", "optional": False}
    ]
    pod["spec"]["volumes"] = [{"name": "v", "hostPath": {"path": "/etc"}}]
    with pytest.raises(Refusal, match="not an emptyDir"):
        planned_env_files(pod, container)


def test_variables_that_double_with_each_line_are_refused_before_they_are_made():
    env = [{"name": "A0", "value": "x" * 10}]
    env += [{"name": f"A{n}", "value": f"$(A{n - 1})" * 10} for n in range(1, 40)]
    with pytest.raises(Refusal, match="more than 128 KiB"):
        variables(*env)
    long = {"name": "B", "value": "x" * (100 << 10)}
    env = [long, *({"name": f"C{n}", "value": "$(B)"} for n in range(100_000))]
    with pytest.raises(Refusal, match="more than 6 MiB"):
        variables(*env)
