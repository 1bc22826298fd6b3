"""The real kubectl, applying on the server's side."""

from __future__ import annotations

import json

import pytest

from . import manifests
from .conftest import Kubectl
from .scenarios import Step
from .test_kubectl import minor_version, run

SCALED = manifests.DEPLOYMENT.replace("replicas: 2", "replicas: 4")
OTHER_IMAGE = SCALED.replace("nginx:1", "nginx:2")
NO_SIDE = manifests.DEPLOYMENT.replace('      - {name: side, image: "side:1"}\n', "")
TWICE = manifests.DEPLOYMENT.replace("name: side", "name: main")
OWNERS = "get deploy web --show-managed-fields -o jsonpath={.metadata.managedFields[*].manager}"
REPLICAS = "get deploy web -o jsonpath={.spec.replicas}"
APPLY = "apply --server-side -f -"

SCENARIOS = {
    "create, again, change": [
        Step(APPLY, "^deployment.apps/web serverside-applied", stdin=manifests.DEPLOYMENT),
        Step("get deploy web -o jsonpath={.metadata.generation}", "^1$"),
        Step(APPLY, "serverside-applied", stdin=manifests.DEPLOYMENT),
        Step("get deploy web -o jsonpath={.metadata.generation}", "^1$"),
        Step(OWNERS, "^kubectl$"),
        Step(APPLY, "serverside-applied", stdin=NO_SIDE),
        Step("get deploy web -o jsonpath={.spec.template.spec.containers[*].name}", "^main$"),
        Step("get deploy web -o yaml", r"(?s)^((?!managedFields).)*$"),
        Step("get deploy web -o yaml --show-managed-fields", r'k:{"name":"main"}:'),
    ],
    "conflicts": [
        Step(APPLY, "serverside-applied", stdin=manifests.DEPLOYMENT),
        Step("scale deploy web --replicas=3", "scaled"),
        Step(
            APPLY,
            "",
            r'Apply failed with 1 conflict: conflict with "kubectl[.\d]*" with subresource "scale" '
            r"using apps/v1: \.spec\.replicas",
            1,
            stdin=SCALED,
        ),
        Step(
            "apply --server-side --field-manager=other -f -",
            "",
            r'(?s)2 conflicts.*conflicts with "kubectl":\n'
            r'- \.spec\.template\.spec\.containers\[name="main"\]\.image.*- \.spec\.replicas',
            1,
            stdin=OTHER_IMAGE,
        ),
        Step(REPLICAS, "^3$"),
        Step(f"{APPLY} --force-conflicts", "serverside-applied", stdin=SCALED),
        Step(REPLICAS, "^4$"),
        Step("apply --server-side --field-manager=other -f -", "applied", stdin=SCALED),
        Step(OWNERS, "kubectl other|other kubectl"),
    ],
    "looking first": [
        Step("diff --server-side -f -", r"(?m)^\+ +replicas: 2$", "", 1, manifests.DEPLOYMENT),
        Step(f"{APPLY} --dry-run=server", "serverside-applied .server dry run", stdin=SCALED),
        Step("get deploy web", "", "not found", 1),
        Step(APPLY, "serverside-applied", stdin=manifests.DEPLOYMENT),
        Step("diff --server-side -f -", "^$", stdin=manifests.DEPLOYMENT),
        Step("diff --server-side -f -", r"(?s)-  replicas: 2.*\+  replicas: 4", "", 1, SCALED),
        Step(REPLICAS, "^2$"),
    ],
    "mistakes": [
        Step(
            APPLY,
            "",
            r"failed to create typed patch object \(\S+/web; apps/v1, Kind=Deployment\): "
            r'.*duplicate entries for key \[name="main"\]',
            1,
            stdin=TWICE,
        ),
        Step(
            f"{APPLY} --validate=ignore",
            "",
            r"\.colours: field not declared in schema",
            1,
            stdin=manifests.UNKNOWN_FIELD,
        ),
    ],
    "from the client's side and back": [
        Step("apply -f -", "created", stdin=manifests.DEPLOYMENT),
        Step(OWNERS, "^kubectl-client-side-apply$"),
        Step(APPLY, "serverside-applied", stdin=SCALED),
        Step(REPLICAS, "^4$"),
        Step("apply view-last-applied deploy/web", "replicas: 4"),
        Step(APPLY, "serverside-applied", stdin=NO_SIDE, since=26),
        Step("get deploy web -o jsonpath={.spec.template.spec.containers[*].name}", "^main$",
             since=26),
        Step("apply -f -", "configured", stdin=SCALED),
        Step(REPLICAS, "^4$"),
    ],
    "status and scale": [
        Step(APPLY, "serverside-applied", stdin=manifests.POD),
        Step(
            "apply --server-side --subresource=status --field-manager=probe -f -",
            "serverside-applied",
            stdin=manifests.POD.partition("spec:")[0] + "status: {message: hello}\n",
            since=32,
        ),
        Step("get pod web -o jsonpath={.status.message}", "^hello$", since=32),
    ],
}  # fmt: skip


@pytest.fixture
def kubectl(recent_kubectl: Kubectl) -> Kubectl:
    return recent_kubectl


@pytest.mark.parametrize("name", SCENARIOS)
def test_kubectl_applies_on_the_server(kubectl: Kubectl, name: str) -> None:
    version = minor_version(kubectl)
    for step in SCENARIOS[name]:
        if version >= step.since:
            run(kubectl, step)


def entries(kubectl: Kubectl, what: str) -> dict[str, dict]:
    shown = kubectl("get", what, "-o", "json", "--show-managed-fields").out
    found = json.loads(shown)["metadata"]["managedFields"]
    return {one["manager"]: one for one in found}


def test_every_command_is_known_by_its_own_name(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=manifests.CONFIG)
    kubectl("label", "cm", "conf", "a=b")
    kubectl("annotate", "cm", "conf", "c=d")
    kubectl("patch", "cm", "conf", "-p", '{"data":{"x":"1"}}')
    found = entries(kubectl, "cm/conf")
    assert set(found) == {"kubectl-create", "kubectl-label", "kubectl-annotate", "kubectl-patch"}
    assert found["kubectl-patch"]["fieldsV1"] == {"f:data": {"f:x": {}}}
    assert found["kubectl-label"]["fieldsV1"] == {"f:metadata": {"f:labels": {"f:a": {}}}}


def test_managers_can_be_reset(kubectl: Kubectl) -> None:
    kubectl("apply", "--server-side", "-f", "-", stdin=manifests.CONFIG)
    patch = '[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]'
    assert kubectl("patch", "cm", "conf", "--type=json", "-p", patch).code == 0
    shown = kubectl("get", "cm", "conf", "-o", "json", "--show-managed-fields").out
    assert "managedFields" not in json.loads(shown)["metadata"]
