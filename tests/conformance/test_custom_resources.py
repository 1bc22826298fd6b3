"""The real kubectl with custom resources: defined, used in every way, and gone."""

from __future__ import annotations

import json

import pytest

from .conftest import Kubectl
from .custom import CLUSTER, CLUSTERS, LIMIT, POLICIES
from .scenarios import Step
from .test_kubectl import minor_version, run

CRD = "crd/dbclusters.data.NAMESPACE.example.com"
ESTABLISHED = "--for=condition=Established --timeout=5s"
READY = '{"status":{"instances":3,"conditions":[{"type":"Ready","status":"True"}]}}'
ADDED = '[{"op":"add","path":"/spec/parameters","value":{"a":"b"}}]'
SCENARIOS: dict[str, list[Step]] = {
    "an operator's kind": [
        Step("apply -f -", r"dbclusters.* created", stdin=CLUSTERS),
        Step(f"wait {CRD} {ESTABLISHED}", "condition met"),
        Step("api-resources --api-group=data.NAMESPACE.example.com", "dbclusters +dbc +"),
        Step("explain dbc", "DbCluster is a database of several instances"),
        Step("explain dbc.spec.instances", "The number of instances"),
        Step("apply -f -", "dbcluster.*/orders created", stdin=CLUSTER),
        Step("apply -f -", "dbclusters.* unchanged", stdin=CLUSTERS),
        Step("get dbc", r"NAME +INSTANCES +READY +AGE\norders +3 +\S+"),
        Step("get dbc -o wide", r"orders +3 +postgres +\S+"),
        Step("get dbc orders -o jsonpath={.spec.users[0].superuser}", "^false$"),
        Step("get dbc orders -o jsonpath={.spec.template.spec.anything}", "^true$"),
        Step("get databases -o name", "dbcluster.*/orders"),
        Step("get dbc --field-selector spec.engine=postgres -o name", "orders"),
        Step("get dbc --field-selector spec.engine=mysql", "", "No resources found"),
        Step("scale dbc orders --replicas=5", "scaled"),
        Step("scale dbc orders --replicas=4", "", "instances must be odd, not 4", 1),
        Step("patch dbc orders --type=merge -p '{\"spec\":{\"instances\":11}}'", "",
             "should be less than or equal to 9", 1),
        Step("patch dbc orders --type=merge -p '{\"spec\":{\"storage\":{\"storageClass\":\"x\"}}}'",
             "", "storageClass is immutable", 1),
        Step("patch dbc orders --type=merge -p '{\"spec\":{\"backup\":{\"retention\":\"900h\"}}}'",
             "", "backups are kept for 30 days at most", 1),
        Step("patch dbc orders -p '{}'", "", "not supported|UnsupportedMediaType", 1),
        Step(f"patch dbc orders --type=json -p '{ADDED}'", "patched"),
        Step(f"patch dbc orders --subresource=status --type=merge -p '{READY}'", "patched",
             since=24),
        Step("get dbc orders", r"orders +5 +True", since=24),
        Step("wait dbc/orders --for=condition=Ready --timeout=2s", "condition met", since=24),
        Step("label dbc orders tier=gold", "labeled"),
        Step("annotate dbc orders a=b", "annotated?"),
        Step("describe dbc orders", "Storage Class: +fast"),
        Step("get dbclusters.v1alpha1.data.NAMESPACE.example.com orders -o yaml",
             "apiVersion: data.NAMESPACE.example.com/v1alpha1"),
        Step("apply -f -", "", r'unknown field "spec.bogus"', 1,
             stdin=CLUSTER.replace("spec:\n  storage", "spec:\n  bogus: 1\n  storage"), since=25),
        Step("apply -f -", "", "Duplicate value", 1,
             stdin=CLUSTER.replace("[{name: app}]", "[{name: app}, {name: app}]")),
        Step("delete dbc orders", "deleted"),
        Step("apply -f -", "created", stdin=CLUSTER),
        Step(f"delete {CRD}", "deleted"),
        Step("get dbc", "", "doesn't have a resource type|could not find the requested", 1),
    ],
    "a policy's kind": [
        Step("create -f -", "created", stdin=POLICIES),
        Step(f"wait crd/limits.policy.NAMESPACE.example.com {ESTABLISHED}", "condition met"),
        Step("create -f -", "", r"must validate one and only one schema \(oneOf\)", 1, stdin=LIMIT),
        Step("create -f -", "", 'must be of type cidr: "x"', 1,
             stdin=LIMIT.replace("{}", "{allow: [x]}")),
        Step("create -f -", "created", stdin=LIMIT.replace("{}", "{allow: [10.0.0.0/8]}")),
        Step("get limits.policy.NAMESPACE.example.com", "NAMESPACE"),
        Step("delete crd limits.policy.NAMESPACE.example.com", "deleted"),
    ],
    "what is no definition": [
        Step("create -f -", "", 'spec.scope: Unsupported value: "Galaxy"', 1,
             stdin=CLUSTERS.replace("scope: Namespaced", "scope: Galaxy")),
        Step("create -f -", "", "compilation failed: ERROR: <input>:1:", 1,
             stdin=CLUSTERS.replace("self.instances % 2 == 1", "self.instances %% 2")),
        Step("create -f -", "", "must not be empty for specified object fields", 1,
             stdin=CLUSTERS.replace("{type: object, additionalProperties: {type: string}}", "{}")),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_commands_say_what_they_say_elsewhere(kubectl: Kubectl, name: str) -> None:
    version = minor_version(kubectl)
    for step in SCENARIOS[name]:
        if version >= step.since:
            run(kubectl, step)


def test_a_list_holds_whole_objects(kubectl: Kubectl) -> None:
    run(kubectl, Step("apply -f -", "created", stdin=CLUSTERS))
    run(kubectl, Step(f"wait {CRD} {ESTABLISHED}", "condition met"))
    run(kubectl, Step("apply -f -", "created", stdin=CLUSTER))
    listed = kubectl("get", "dbc", "-o", "json")
    items = json.loads(listed.out)["items"]
    assert items[0]["spec"]["storage"] == {"size": "10Gi", "storageClass": "fast"}
    run(kubectl, Step(f"delete {CRD}", "deleted"))
