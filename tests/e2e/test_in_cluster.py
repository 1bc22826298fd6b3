"""A program in a pod finds the API server and its own token where every Kubernetes has them."""

from __future__ import annotations

import base64
import json
import shlex

import pytest

from tests.e2e.site import Site, eventually, pod, terminated

# What client libraries call their in-cluster configuration, with nothing but the standard library.
PROGRAM = """
import json, os, ssl, urllib.error, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
token, namespace = (open(f"{folder}/{name}").read() for name in ("token", "namespace"))
where = os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
url = f"https://{where}/api/v1/namespaces/{namespace}/pods"
request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
try:
    with urllib.request.urlopen(request, context=context, timeout=10) as answer:
        print(json.dumps([one["metadata"]["name"] for one in json.load(answer)["items"]]))
except urllib.error.HTTPError as error:
    print(json.dumps(json.load(error)["message"]))
"""


def asks_for_pods(name: str, image: str, **spec: object) -> dict:
    python = "python3" if image == "host" else "python"
    return pod(name, image, f"exec {python} -c {shlex.quote(PROGRAM)}", **spec)


def answer_of(site: Site, name: str) -> object:
    ended = site.wait_phase(name, "Succeeded", "Failed")
    assert terminated(ended)["exitCode"] == 0, site.kubectl("logs", name)
    return json.loads(site.kubectl("logs", name))


@pytest.mark.parametrize(
    ("image", "runtime"), [("python", "crun"), ("python", "apptainer"), ("host", "")]
)
def test_a_pod_lists_pods_as_rbac_lets_it(site: Site, image: str, runtime: str) -> None:
    metadata = {"annotations": {"orlop.dev/runtime": runtime}} if runtime else {}
    site.apply(asks_for_pods("early", image, metadata=metadata))
    refusal = answer_of(site, "early")
    assert f'User "system:serviceaccount:{site.namespace}:default" cannot list' in str(refusal)
    site.kubectl("create", "role", "lister", "--verb=list", "--resource=pods")
    account = f"--serviceaccount={site.namespace}:default"
    site.kubectl("create", "rolebinding", "lister", "--role=lister", account)
    site.apply(asks_for_pods("later", image, metadata=metadata))
    assert answer_of(site, "later") == ["early", "later"]


def test_a_pod_that_wants_no_token_has_none(site: Site) -> None:
    script = "ls /var/run/secrets/kubernetes.io/serviceaccount && exit 1; exit 0"
    site.apply(pod("without", "busybox", script, automountServiceAccountToken=False))
    assert terminated(site.wait_phase("without", "Succeeded", "Failed"))["exitCode"] == 0


def test_an_ordinary_user_inside_reads_a_token_that_is_theirs_alone(site: Site) -> None:
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    script = f"stat -L -c %a:%u {folder}/token; test -s {folder}/token && cat {folder}/namespace"
    site.apply(pod("user", "busybox", script, securityContext={"runAsUser": 1234}))
    assert terminated(site.wait_phase("user", "Succeeded", "Failed"))["exitCode"] == 0
    assert site.kubectl("logs", "user") == f"600:1234\n{site.namespace}\n"


def test_a_token_for_another_service_is_checked_by_a_review(site: Site) -> None:
    token = site.kubectl("create", "token", "default", "--audience=vault").strip()
    spec = {"token": token, "audiences": ["vault"]}
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    review = json.dumps({**kind, "spec": spec})
    answer = json.loads(
        site.kubectl("create", "-f", "-", "-o", "json", "--validate=false", input=review)
    )
    assert answer["status"]["authenticated"] is True
    user = f"system:serviceaccount:{site.namespace}:default"
    assert answer["status"]["user"]["username"] == user


@pytest.mark.parametrize("runtime", ["crun", "apptainer"])
def test_a_token_that_has_aged_is_replaced_in_the_running_pod(site: Site, runtime: str) -> None:
    """Ten minutes is the least that a token lives: the one that the kubelet kept is made old."""
    notes = {"fieldPath": "metadata.annotations"}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
        {"downwardAPI": {"items": [{"path": "n", "fieldRef": notes}]}},
    ]
    volumes = [{"name": "t", "projected": {"sources": sources}}]
    mounts = {"volumeMounts": [{"name": "t", "mountPath": "/t"}]}
    manifest = pod("turns", "busybox", "trap 'exit 0' TERM; while :; do sleep 0.1; done")
    manifest["metadata"]["annotations"] = {"orlop.dev/runtime": runtime}
    manifest["spec"] |= {"volumes": volumes, "terminationGracePeriodSeconds": 0}
    manifest["spec"]["containers"][0] |= mounts
    site.apply(manifest)
    site.wait_phase("turns", "Running")

    def token() -> str:
        return site.kubectl("exec", "turns", "--", "cat", "/t/token")

    first = token()
    [folder] = (site.home / "pods").glob(f"{site.namespace}_turns_*")
    plan = folder / "plan.json"
    kept, old = (base64.b64encode(text.encode()).decode() for text in (first, "an old one"))
    assert kept in plan.read_text()
    plan.write_text(plan.read_text().replace(kept, old))
    site.kubectl("annotate", "pod", "turns", "example.com/look=again")  # which the kubelet does
    eventually(lambda: token() != first, "there is a new one")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    asked = json.dumps({**review, "spec": {"token": token()}})
    answer = json.loads(
        site.kubectl("create", "-f", "-", "-o", "json", "--validate=false", input=asked)
    )
    assert answer["status"]["authenticated"] is True
    named = answer["status"]["user"]["extra"]["authentication.kubernetes.io/pod-name"]
    assert named == ["turns"]
