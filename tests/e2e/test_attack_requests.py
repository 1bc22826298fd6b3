"""A small account asks for what grows beyond all bounds on a real cluster; nobody else notices.

Its rights are those of `edit` in one namespace. The control plane must be the same process
afterwards, and answer others all the while.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.cluster.spec import HEAD
from tests.e2e.site import Obj, Site

_MOST = 10.0  # seconds for somebody else's question, on a busy machine
_CONTAINERS = {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never"}
_HUGE = 2**31 - 1


class SmallAccount:
    """A service account with the role `edit` in its namespace, by curl."""

    def __init__(self, site: Site) -> None:
        config = json.loads(site.kubectl("config", "view", "--minify", "-o", "json"))
        self._site, self._server = site, config["clusters"][0]["cluster"]["server"]
        site.kubectl("create", "serviceaccount", "small")
        who = f"--serviceaccount={site.namespace}:small"
        site.kubectl("create", "rolebinding", "small", "--clusterrole=edit", who)
        self._token = site.kubectl("create", "token", "small").strip()

    def ask(self, method: str, path: str, body: str = "", media: str = "application/json") -> str:
        """The status of the answer."""
        return self._site.run(
            "curl", "-sk", "--path-as-is", "-m", "50", "-o", "/dev/null", "-w", "%{http_code}",
            "-X", method, "-H", f"Authorization: Bearer {self._token}",
            "-H", f"Content-Type: {media}", "--data-binary", "@-",
            f"{self._server}{path}", node=HEAD, input=body,
        ).stdout  # fmt: skip


@pytest.fixture
def account(site: Site) -> SmallAccount:
    return SmallAccount(site)


@pytest.fixture(autouse=True)
def _others_are_served(site: Site) -> Iterator[None]:
    before = site.control_plane()["pid"]
    yield
    asked = time.monotonic()
    site.kubectl("get", "namespaces")
    assert time.monotonic() - asked < _MOST
    assert site.control_plane()["pid"] == before


def _path(site: Site, group: str, plural: str) -> str:
    root = f"/apis/{group}" if "/" in group else "/api/v1"
    return f"{root}/namespaces/{site.namespace}/{plural}"


def _doubling(times: int) -> str:
    start = [{"op": "add", "path": "/data/a", "value": "x" * 999}]
    copies = [{"op": "copy", "from": "/data", "path": f"/data/{n}"} for n in range(times)]
    return json.dumps(start + copies)


@pytest.mark.parametrize(
    ("body", "media"),
    [
        ("[" * 30_000, "application/yaml"),
        ("[" * 30_000, "application/json"),
        ("a: " + ":".join(["9"] * 20_000), "application/yaml"),  # to the base of 60
        ("a: &a [x,x]\n" + "\n".join(f"b{n}: &b{n} [*a,*a]" for n in range(5_000)),
         "application/yaml"),
        ("k8s\0" + "\n" * 30_000, "application/vnd.kubernetes.protobuf"),
    ],
    ids=["yaml", "json", "base 60", "aliases", "protobuf"],
)  # fmt: skip
def test_a_body_is_refused(site: Site, account: SmallAccount, body: str, media: str) -> None:
    assert account.ask("POST", _path(site, "", "configmaps"), body, media) in ("400", "415", "422")


def test_a_patch_that_doubles_is_refused(site: Site, account: SmallAccount) -> None:
    site.kubectl("create", "configmap", "small", "--from-literal=a=b")
    path = f"{_path(site, '', 'configmaps')}/small"
    code = account.ask("PATCH", path, _doubling(24), "application/json-patch+json")
    assert code in ("413", "422")


def test_a_role_of_millions_of_combinations_is_soon_judged(
    site: Site, account: SmallAccount
) -> None:
    owner = {
        "kind": "Role",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "r"},
    }
    may = {"verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}
    site.apply({**owner, "rules": [may]})
    site.kubectl("create", "rolebinding", "r", "--role=r",
                 f"--serviceaccount={site.namespace}:small")  # fmt: skip
    rule = {"verbs": ["get"] * 800, "apiGroups": [""] * 800, "resources": ["pods"] * 10}
    body = json.dumps({**owner, "metadata": {"name": "long"}, "rules": [rule]})
    asked = time.monotonic()
    path = _path(site, "rbac.authorization.k8s.io/v1", "roles")
    assert account.ask("POST", path, body) == "201"
    assert time.monotonic() - asked < _MOST


def _job(**spec: object) -> Obj:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "huge"},
            "spec": {"suspend": True, "template": {"spec": _CONTAINERS}, **spec}}  # fmt: skip


def test_jobs_of_all_the_indexes_there_are_cost_nothing(site: Site, account: SmallAccount) -> None:
    huge = _job(completionMode="Indexed", completions=_HUGE, parallelism=1,
                successPolicy={"rules": [{"succeededIndexes": "0-2000000000"}]})  # fmt: skip
    assert account.ask("POST", _path(site, "batch/v1", "jobs"), json.dumps(huge)) == "201"
    status = json.dumps({"status": {"completedIndexes": "5-1999999999"}})
    site.kubectl("patch", "job", "huge", "--subresource=status", "--type=merge", "-p", status)
    site.apply(_job(completions=2) | {"metadata": {"name": "other"}})
    site.kubectl("wait", "--for=condition=Suspended", "job/other", "job/huge", "--timeout=30s")


def test_a_pattern_that_would_never_end_is_soon_matched(site: Site, account: SmallAccount) -> None:
    """Whoever may define a kind has others' texts matched by patterns of theirs."""
    text = {"type": "object", "properties": {"word": {"type": "string", "pattern": "^(a+)+$"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": text}}
    names = {"kind": "Slow", "listKind": "SlowList", "plural": "slows", "singular": "slow"}
    site.apply({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "slows.attack.example"},
        "spec": {"group": "attack.example", "scope": "Namespaced", "names": names,
                 "versions": [version]},
    })  # fmt: skip
    try:
        site.kubectl("wait", "--for=condition=Established", "crd/slows.attack.example")
        site.kubectl("create", "role", "slow", "--verb=create", "--resource=slows.attack.example")
        who = f"--serviceaccount={site.namespace}:small"
        site.kubectl("create", "rolebinding", "slow", "--role=slow", who)
        slow = {"apiVersion": "attack.example/v1", "kind": "Slow", "metadata": {"name": "s"},
                "word": "a" * 5000 + "!"}  # fmt: skip
        asked = time.monotonic()
        path = _path(site, "attack.example/v1", "slows")
        assert account.ask("POST", path, json.dumps(slow)) == "422"
        assert time.monotonic() - asked < _MOST
    finally:
        site.kubectl("delete", "crd", "slows.attack.example")


_POD = {"template": {"spec": _CONTAINERS}}
_LAUNCHER = {"replicas": 1, **_POD}


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        ("kubeflow.org/v2beta1 MPIJob",
         {"mpiReplicaSpecs": {"Launcher": _LAUNCHER, "Worker": {"replicas": _HUGE, **_POD}}},
         "10000"),
        ("kubeflow.org/v1 PyTorchJob",
         {"pytorchReplicaSpecs": {"Master": _LAUNCHER, "Worker": {"replicas": _HUGE, **_POD}}},
         "10000"),
        ("leaderworkerset.x-k8s.io/v1 LeaderWorkerSet",
         {"replicas": 30_000, "leaderWorkerTemplate": {"size": 30_000, "workerTemplate": {
             "spec": {"containers": _CONTAINERS["containers"]}}}},
         "at most 10000 pods"),
        ("jobset.x-k8s.io/v1alpha2 JobSet",
         {"replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": {
             "parallelism": _HUGE, **_POD}}}]},
         "at most 10000 pods"),
    ],
    ids=lambda value: value.split()[1] if isinstance(value, str) and "/" in value else "",
)  # fmt: skip
def test_kinds_of_others_have_as_many_pods_as_can_be(
    site: Site, kind: str, spec: Obj, said: str
) -> None:
    version, name = kind.split()
    made = {"apiVersion": version, "kind": name, "metadata": {"name": "huge"}, "spec": spec}
    refused = site.run("kubectl", "apply", "-n", site.namespace, "-f", "-",
                       input=json.dumps(made), check=False)  # fmt: skip
    assert refused.returncode != 0
    assert said in refused.stderr


@pytest.mark.parametrize("path", [
    "nodes", "nodes/main", "namespaces/kube-system", "clusterrolebindings/cluster-admin",
    "persistentvolumes", "nodes/main/proxy/pods",
])  # fmt: skip
def test_nothing_of_the_cluster_is_below_a_namespace(
    site: Site, account: SmallAccount, path: str
) -> None:
    """Also for whoever may do all within it."""
    who = f"--serviceaccount={site.namespace}:small"
    site.kubectl("create", "role", "all", "--verb=*", "--resource=*.*")
    site.kubectl("create", "rolebinding", "all", "--role=all", who)
    group = "rbac.authorization.k8s.io/v1" if "role" in path else ""
    for method in ("GET", "DELETE", "PATCH", "PUT", "POST"):
        code = account.ask(method, _path(site, group, path), "{}", "application/merge-patch+json")
        assert code in ("403", "404", "405"), (method, path, code)
    site.kubectl("get", "clusterrolebinding", "cluster-admin")
