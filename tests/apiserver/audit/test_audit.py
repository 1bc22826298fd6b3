"""Records of requests: which, how much of them, and that they reach the file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from orlop.api import kinds
from orlop.api.objects import Key
from orlop.apiserver import ApiServer, ServerOptions
from orlop.apiserver.audit import AuditLog, Auditor, load_policy
from orlop.apiserver.audit.policy import Level
from orlop.apiserver.auth.authentication import user
from orlop.apiserver.request.requestinfo import parse
from orlop.errors import ConfigError, NotFound
from orlop.store import Store
from tests.apiserver.conftest import Site

MAPS = "/api/v1/namespaces/default/configmaps"
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: [quiet]
- level: None
  userGroups: [system:quiet]
  verbs: [get]
- level: None
  nonResourceURLs: [/api*, /openapi/v3]
- level: Metadata
  resources:
  - {group: "", resources: [secrets, pods/log, "*/scale"]}
  - {group: "", resources: [configmaps], resourceNames: [named]}
- level: Request
  namespaces: [lab]
  omitStages: [ResponseStarted]
- level: RequestResponse
  verbs: [create, patch]
  omitManagedFields: true
- level: Metadata
"""


@pytest.fixture
def policy(tmp_path):
    (tmp_path / "policy.yaml").write_text(POLICY)
    return load_policy(tmp_path / "policy.yaml")


@pytest.mark.parametrize(
    ("who", "method", "path", "level"),
    [
        (user("quiet"), "POST", MAPS, Level.NONE),
        (user("a", ["system:quiet"]), "GET", f"{MAPS}/x", Level.NONE),
        (user("a", ["system:quiet"]), "GET", MAPS, Level.METADATA),
        (user("a"), "GET", "/api", Level.NONE),
        (user("a"), "GET", "/apis/apps", Level.NONE),
        (user("a"), "GET", "/openapi/v3", Level.NONE),
        (user("a"), "GET", "/openapi/v2", Level.METADATA),
        (user("a"), "POST", "/api/v1/namespaces/lab/secrets", Level.METADATA),
        (user("a"), "GET", "/api/v1/namespaces/lab/pods/p/log", Level.METADATA),
        (user("a"), "PUT", "/api/v1/namespaces/lab/replicationcontrollers/p/scale", Level.METADATA),
        (user("a"), "PATCH", f"{MAPS}/named", Level.METADATA),
        (user("a"), "PATCH", f"{MAPS}/other", Level.REQUEST_RESPONSE),
        (user("a"), "POST", "/apis/apps/v1/namespaces/lab/deployments", Level.REQUEST),
        (user("a"), "POST", "/apis/x.org/v1/namespaces/lab/secrets", Level.REQUEST),
        (user("a"), "POST", MAPS, Level.REQUEST_RESPONSE),
        (user("a"), "DELETE", f"{MAPS}/x", Level.METADATA),
    ],
)
def test_the_first_rule_that_matches_decides(policy, who, method, path, level) -> None:
    assert policy.decide(who, parse(method, path, {})).level is level


def test_a_rule_adds_to_the_stages_that_are_left_out(policy) -> None:
    decision = policy.decide(user("a"), parse("GET", "/api/v1/namespaces/lab/pods", {}))
    assert decision.omitted == {"RequestReceived", "ResponseStarted"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Expected `object`"),
        ("rules: []", "at least one"),
        ("rules: [{level: All}]", "rules[0].level"),
        ("rules: [{level: None, user: [x]}]", "user"),
        ("rules: [{level: None, omitStages: [Never]}]", "Never"),
        ("rules: [{level: None, namespaces: [a], nonResourceURLs: [/a]}]", "not both"),
        ("{kind: Pod, rules: [{level: None}]}", "Pod"),
        ("rules: [", "policy.yaml"),
    ],
)
def test_what_is_wrong_with_a_policy_is_said(tmp_path, text, words) -> None:
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(ConfigError) as found:
        load_policy(tmp_path / "policy.yaml")
    assert words in str(found.value)
    assert "policy.yaml" in str(found.value)


def test_a_policy_must_be_there(tmp_path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_policy(tmp_path / "none.yaml")


def test_the_file_is_private_and_begins_anew_when_full(tmp_path) -> None:
    path = tmp_path / "log" / "audit.log"
    log = AuditLog(path, size=200, files=2)
    for number in range(30):
        log.write({"number": number, "filler": "x" * 40})
    log.close()
    files = sorted(path.parent.iterdir())
    assert len(files) == 3
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    assert all(file.stat().st_size <= 200 for file in files)
    assert json.loads(path.read_text().splitlines()[-1])["number"] == 29


def test_a_second_start_goes_on_where_the_first_ended(tmp_path) -> None:
    for number in range(2):
        log = AuditLog(tmp_path / "audit.log")
        log.write({"number": number})
        log.close()
    lines = (tmp_path / "audit.log").read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [0, 1]


class Records(list):
    def write(self, event) -> None:
        self.append(event)


@pytest.fixture
async def audited(tmp_path: Path, authority, schema, policy):
    store = await Store.open(tmp_path / "audited.db")
    tls, records = authority.server_context(authority.apiserver), Records()
    options = ServerOptions(auditor=Auditor(policy, records))
    server = ApiServer(store, tls=tls, schema=schema, options=options)
    port = await server.start("127.0.0.1", 0)
    site = Site(server, store, port, authority, tmp_path)
    site.records = records  # type: ignore[attr-defined]
    records.clear()  # what the server did to get ready
    yield site
    await server.stop()
    await store.close()


async def test_a_write_is_told_with_what_was_asked_and_answered(audited, config_map) -> None:
    async with audited.http("alice", ("system:masters",)) as alice:
        reply = await alice("POST", f"{MAPS}?fieldManager=me", config_map("a"), User_Agent="test/1")
    [event] = audited.records
    assert event["auditID"] == reply.headers["Audit-Id"]
    assert (event["kind"], event["apiVersion"]) == ("Event", "audit.k8s.io/v1")
    assert (event["level"], event["stage"]) == ("RequestResponse", "ResponseComplete")
    assert (event["verb"], event["requestURI"]) == ("create", f"{MAPS}?fieldManager=me")
    assert event["user"]["username"] == "alice"
    assert (event["sourceIPs"], event["userAgent"]) == (["127.0.0.1"], "test/1")
    assert event["objectRef"] == {
        "resource": "configmaps",
        "namespace": "default",
        "apiVersion": "v1",
    }
    assert event["responseStatus"] == {"metadata": {}, "code": 201}
    assert event["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert event["requestObject"]["data"] == {"k": "v"}
    assert event["responseObject"]["metadata"]["uid"] == reply.json["metadata"]["uid"]
    assert event["requestReceivedTimestamp"] <= event["stageTimestamp"]


async def test_a_secret_is_told_without_its_content(audited) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}}
    async with audited.http() as admin:
        await admin("POST", "/api/v1/namespaces/default/secrets", secret)
    [event] = audited.records
    assert event["level"] == "Metadata"
    assert "hunter2" not in json.dumps(event)
    assert "requestObject" not in event


async def test_refusals_are_told(audited) -> None:
    async with audited.http("eve") as eve, audited.http("") as nobody:
        await eve("DELETE", f"{MAPS}/a")
        await nobody("DELETE", f"{MAPS}/a")
    forbidden, unknown = audited.records
    assert forbidden["responseStatus"]["code"] == 403
    assert forbidden["responseStatus"]["reason"] == "Forbidden"
    assert forbidden["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert (unknown["user"]["username"], unknown["responseStatus"]["code"]) == ("", 401)


async def test_who_acts_as_another_is_told_with_both_names(audited) -> None:
    async with audited.http() as admin:
        await admin("DELETE", f"{MAPS}/a", Impersonate_User="eve")
    [event] = audited.records
    assert event["user"]["username"] == "kubernetes-admin"
    assert event["impersonatedUser"]["username"] == "eve"


async def test_a_watch_has_a_begin_and_an_end(audited) -> None:
    async with audited.http() as admin:
        await admin("GET", f"{MAPS}?watch=1&timeoutSeconds=1")
        await admin("GET", "/api")
    assert [event["stage"] for event in audited.records] == ["ResponseStarted", "ResponseComplete"]
    assert audited.records[1]["responseStatus"]["code"] == 200


async def test_a_body_that_cannot_be_read_does_no_harm(audited) -> None:
    async with audited.http() as admin:
        reply = await admin("POST", MAPS, "{nonsense", Content_Type="application/json")
    assert reply.code == 400
    [event] = audited.records
    assert "requestObject" not in event
    assert event["responseStatus"]["reason"] == "BadRequest"


async def test_our_own_components_are_told_too(audited, config_map) -> None:
    scheduler = audited.server.client("system:kube-scheduler")
    await scheduler.create(kinds.CONFIG_MAP, config_map("inside"))
    await scheduler.patch(kinds.CONFIG_MAP, Key("default", "inside"), {"data": {"k": "w"}})
    with pytest.raises(NotFound):
        await scheduler.delete(kinds.CONFIG_MAP, Key("default", "none"))
    told = [one for one in audited.records if one["user"]["username"] == "system:kube-scheduler"]
    made, changed, refused = told
    assert (made["verb"], made["requestURI"], made["responseStatus"]["code"]) == (
        "create",
        MAPS,
        201,
    )
    assert made["requestObject"]["metadata"]["name"] == "inside"
    assert "managedFields" not in made["responseObject"]["metadata"]
    assert (changed["verb"], changed["objectRef"]["name"]) == ("patch", "inside")
    assert refused["responseStatus"]["reason"] == "NotFound"
    assert {one["userAgent"] for one in told} == {"orlop/in-process"}


async def test_what_the_policy_leaves_out_is_not_told_of_components(audited, config_map) -> None:
    await audited.server.client("quiet").create(kinds.CONFIG_MAP, config_map("inside"))
    assert not [one for one in audited.records if one["user"]["username"] == "quiet"]


async def test_what_admission_notes_is_in_the_record(audited, config_map) -> None:
    group = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [{**rule, "operations": ["*"]}]},
        "validations": [{"expression": "false", "message": "never"}],
        "auditAnnotations": [{"key": "seen", "valueExpression": "'k is ' + object.data.k"}],
    }
    async with audited.http() as http:
        policy = {"metadata": {"name": "p"}, "spec": spec}
        await http("POST", f"{group}/validatingadmissionpolicies", policy)
        binding = {"policyName": "p", "validationActions": ["Audit"]}
        body = {"metadata": {"name": "p"}, "spec": binding}
        await http("POST", f"{group}/validatingadmissionpolicybindings", body)
        assert (await http("POST", MAPS, config_map())).code == 201
    notes = [one["annotations"] for one in audited.records if one["verb"] == "create"][-1]
    assert notes["p/seen"] == "k is v"
    (failure,) = json.loads(notes["validation.policy.admission.k8s.io/validation_failure"])
    assert (failure["message"], failure["validationActions"]) == ("never", ["Audit"])


async def test_paths_that_are_open_to_all_leave_no_record(audited) -> None:
    async with audited.http() as admin, audited.http("") as nobody:
        assert (await admin("GET", "/healthz")).code == 200
        assert (await nobody("GET", "/livez/nothing")).code == 404
    assert audited.records == []
