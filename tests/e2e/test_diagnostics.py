"""The manifests of examples/diagnostics do as their first comments say, in both runtimes.

All are applied at once, as one would on a new cluster; each test then looks at what became of one.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from orlop import pki
from tests.cluster.cluster import SlurmCluster
from tests.e2e.conftest import OpenSite
from tests.e2e.site import Obj, Site, eventually

DIAGNOSTICS = sorted((Path(__file__).parents[2] / "examples" / "diagnostics").glob("*.yaml"))
KEPT = """\
<it's "both">
<  two  spaces  >
<>
<$HOME `id` $(hostname) ${x}>
<back\\slash\\n and * and ?>
<a line
and another>
<; rm -rf / & | > <>
<größe ✓>
"""
KINDS = """\
whole: file
part
part: 0 files
read-only: readable
device: there
file: there
"""
# Pod, container, what it says.
SUCCEED = [
    ("users-added", "main", "root is 0\nalice is 4711\nthe file is of 4711\n"),
    ("users-chosen", "main", "I am 1000:2000\n"),
    ("ipc", "reader", "from the writer\n"),
    ("localhost-a", "client", "localhost-a says hello beside localhost-b\n"),
    ("localhost-b", "client", "localhost-b says hello\n"),
    ("privileged-client", "main", "served by privileged-server\n"),
    ("unprivileged-client", "main", "served by unprivileged-server\n"),
    ("tasks", "main", "nodes: 2\npi: 3.1416 of 4 tasks\n"),
    ("quotes-kept", "main", KEPT),
    ("volume-users", "main", "1000:3000\nmine\n"),
    ("hostpath-kinds", "main", KINDS),
    ("init-volume", "main", "1000\nprepared by root\ndeep\nnew\n"),
]


@dataclass
class Applied:
    """A site with all of the diagnostics of one runtime in a namespace of its own."""

    site: Site
    runtime: str


@pytest.fixture(scope="module", params=["crun", "apptainer"])
def applied(
    slurm: SlurmCluster,
    sites: OpenSite,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Applied]:
    whole = sites(slurm)
    site = whole.in_namespace(f"diagnostics-{request.param}")
    authority = pki.ensure(tmp_path_factory.mktemp("pki"), [f"webhook.{site.namespace}.svc"])
    tls = {
        "tls.crt": authority.apiserver.crt.read_text(),
        "tls.key": authority.apiserver.key.read_text(),
    }
    objects: list[Obj] = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "webhook"}, "stringData": tls}
    ]
    for path in DIAGNOSTICS:
        objects += yaml.safe_load_all(path.read_text())
    for obj in objects:
        _adapt(obj, site, request.param, authority.ca.read_bytes())
    site.apply({"apiVersion": "v1", "kind": "List", "items": objects})
    yield Applied(site, request.param)
    site.kubectl("delete", "mutatingwebhookconfiguration", "webhook-diagnostic")
    site.kubectl("delete", "namespace", site.namespace, "--timeout=60s", timeout=70)
    eventually(lambda: not whole.squeue("%i"), "no job is left behind")


def _adapt(obj: Obj, site: Site, runtime: str, authority: bytes) -> None:
    """The runtime, the namespace and the certificate are this run's; all else is as written."""
    if obj["kind"] == "Pod":
        obj["metadata"].setdefault("annotations", {})["orlop.dev/runtime"] = runtime
    elif obj["kind"] == "MutatingWebhookConfiguration":
        config = obj["webhooks"][0]["clientConfig"]
        config["service"]["namespace"] = site.namespace
        config["caBundle"] = base64.b64encode(authority).decode()


@pytest.mark.parametrize(("name", "container", "says"), SUCCEED, ids=[row[0] for row in SUCCEED])
def test_the_pod_succeeds_and_says(applied: Applied, name: str, container: str, says: str) -> None:
    site = applied.site
    ended = site.wait_phase(name, "Succeeded", "Failed", timeout=90)
    said = site.kubectl("logs", name, "-c", container)
    assert said == says, site.story(name)
    assert ended["status"]["phase"] == "Succeeded"


def test_what_a_shell_cannot_parse_fails_by_the_shell(applied: Applied) -> None:
    failed = applied.site.wait_phase("quotes-wrong", "Failed", timeout=90)
    assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 2
    assert "unterminated quoted string" in applied.site.kubectl("logs", "quotes-wrong")


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("users-refused", "Failed", "container has runAsNonRoot and image will run as root"),
        ("hostpath-wrong", "FailedMount", "hostPath type check failed: /no/such/folder"),
    ],
)
def test_what_cannot_be_is_told(applied: Applied, name: str, reason: str, words: str) -> None:
    def told() -> list[str]:
        events = applied.site.events(name)
        return [message for found, message in events if found == reason and words in message]

    eventually(told, f"{name} is told {words}", timeout=60)


def test_the_webhook_sees_what_is_made(applied: Applied) -> None:
    site = applied.site
    site.kubectl("wait", "--for=condition=Ready", "pod/webhook", "--timeout=90s", timeout=100)
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "any", "labels": {"note": "yes"}},
    }

    def made() -> str:
        site.run(
            "kubectl", "-n", site.namespace, "create", "-f", "-",
            input=yaml.safe_dump(manifest), check=False,
        )  # fmt: skip
        return site.kubectl("get", "configmap", "any", "--ignore-not-found", "-o", "json")

    assert '"seen": "by the webhook"' in eventually(made, "the ConfigMap is made")
