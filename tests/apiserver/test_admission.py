"""Namespaces must be there, some never go, and pods run as someone."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api import kinds
from orlop.api.objects import Key
from orlop.apiserver.admission import Admission, Attributes, Plugin
from orlop.apiserver.auth.authentication import user


async def test_nothing_is_created_in_a_namespace_that_is_not_there(api, pod) -> None:
    with pytest.raises(errors.NotFound, match='namespaces "nowhere" not found'):
        await api.create(kinds.POD, pod("a", namespace="nowhere"))


async def test_nothing_is_created_in_a_namespace_that_is_going(api, pod) -> None:
    await api.create(kinds.NAMESPACE, {"metadata": {"name": "going"}})
    await api.delete(kinds.NAMESPACE, Key("", "going"))
    with pytest.raises(errors.Forbidden, match="because it is being terminated") as refused:
        await api.create(kinds.POD, pod("a", namespace="going"))
    assert refused.value.message.startswith('pods "a" is forbidden: unable to create new content')
    assert refused.value.details is not None
    assert refused.value.details["causes"][0]["reason"] == "NamespaceTerminating"


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_may_not_be_deleted(api, name) -> None:
    with pytest.raises(errors.Forbidden, match="this namespace may not be deleted"):
        await api.delete(kinds.NAMESPACE, Key("", name))


async def test_a_pod_without_a_service_account_gets_the_default_one(api, pod) -> None:
    made = await api.create(kinds.POD, pod("a"))
    assert made["spec"]["serviceAccountName"] == "default"
    named = pod("b")
    named["spec"]["serviceAccountName"] = "robot"
    made = await api.create(kinds.POD, named)
    assert made["spec"]["serviceAccountName"] == "robot"


async def test_what_has_no_effect_yet_says_so(http, config_map) -> None:
    policy = {"metadata": {"name": "p"}, "spec": {"podSelector": {}}}
    path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    reply = await http("POST", path, policy)
    assert reply.headers.getall("Warning") == ['299 - "network policies are not enforced"']
    reply = await http("POST", "/api/v1/namespaces/default/configmaps", config_map("a"))
    assert "Warning" not in reply.headers


async def test_plugins_mutate_in_order_and_the_first_refusal_wins() -> None:
    said: list[str] = []

    class Sayer(Plugin):
        def __init__(self, name: str, refuses: bool = False) -> None:
            self.name, self.refuses = name, refuses

        async def admit(self, attributes: Attributes) -> None:
            said.append(f"admit {self.name}")

        async def validate(self, attributes: Attributes) -> None:
            said.append(f"validate {self.name}")
            if self.refuses:
                raise errors.Forbidden(self.name)

    chain = Admission([Sayer("a"), Sayer("b", refuses=True), Sayer("c"), Plugin()])
    attributes = Attributes("CREATE", user("eve"), kinds.POD, "default", "x", obj={})
    await chain.admit(attributes)
    with pytest.raises(errors.Forbidden, match="b"):
        await chain.validate(attributes)
    assert said == ["admit a", "admit b", "admit c", "validate a", "validate b"]
