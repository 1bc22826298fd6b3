"""create, by both transports."""

from __future__ import annotations

import asyncio
import io
import json

import pytest

from orlop import errors
from orlop.api import kinds
from orlop.api.kinds import BUILT_IN
from orlop.api.objects import Key

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


async def test_the_server_gives_identity_defaults_and_a_fresh_status(api, pod) -> None:
    sent = pod("a", uid="mine", generation=7, creationTimestamp="1999-01-01T00:00:00Z")
    made = await api.create(kinds.POD, {**sent, "status": {"phase": "Running"}})
    metadata = made["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"] > "2020"
    assert metadata["resourceVersion"].isdigit()
    assert made["status"]["phase"] == "Pending"
    assert made["spec"]["restartPolicy"] == "Always"
    assert await api.get(kinds.POD, Key("default", "a")) == made


async def test_the_callers_object_is_not_touched(local, pod) -> None:
    sent = pod("a")
    await local.create(kinds.POD, sent)
    assert sent == pod("a")


async def test_a_second_of_the_same_name_is_refused(api, config_map) -> None:
    await api.create(kinds.CONFIG_MAP, config_map("a"))
    with pytest.raises(errors.AlreadyExists, match='configmaps "a" already exists') as refused:
        await api.create(kinds.CONFIG_MAP, config_map("a"))
    assert refused.value.details == {"name": "a", "kind": "configmaps"}


async def test_a_generated_name_has_five_characters_more(api, config_map) -> None:
    nameless = config_map("", generateName="job-")
    made = [await api.create(kinds.CONFIG_MAP, nameless) for _ in range(3)]
    names = {one["metadata"]["name"] for one in made}
    assert len(names) == 3
    assert all(len(name) == len("job-") + 5 for name in names)


async def test_a_generated_name_that_is_taken_is_generated_again(site, local, config_map) -> None:
    class Stutter:
        """Says the same name twice before it thinks of another."""

        def __init__(self) -> None:
            self.said = 0

        def choices(self, letters: str, *, k: int) -> list[str]:
            self.said += 1
            return [letters[0 if self.said <= 2 else 1]] * k

    site.server.registry.rng = Stutter()
    nameless = config_map("", generateName="x-")
    first = await local.create(kinds.CONFIG_MAP, nameless)
    second = await local.create(kinds.CONFIG_MAP, nameless)
    assert first["metadata"]["name"] != second["metadata"]["name"]


async def test_a_dry_run_shows_the_object_and_keeps_nothing(site, http, config_map) -> None:
    before = site.store.revision
    reply = await http("POST", f"{MAPS}?dryRun=All", config_map("a"))
    assert reply.code == 201
    assert reply.json["metadata"]["uid"]
    assert "resourceVersion" not in reply.json["metadata"]
    assert site.store.revision == before
    assert (await http("GET", f"{MAPS}/a")).code == 404
    assert (await http("POST", f"{MAPS}?dryRun=Some", config_map("a"))).code == 422


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"apiVersion": "v2"}, "the API version in the data (v2) does not match"),
        ({"kind": "Secret"}, "Secret"),
        ({"metadata": {"name": "a", "namespace": "other"}}, "does not match the namespace"),
        ({"metadata": {"name": "a", "resourceVersion": "5"}}, "resourceVersion should not be set"),
        ({"metadata": []}, "metadata"),
    ],
)
async def test_what_does_not_fit_its_path_is_refused(http, config_map, change, message) -> None:
    reply = await http("POST", MAPS, {**config_map("a"), **change})
    assert (reply.code, reply.json["reason"]) == (400, "BadRequest")
    assert message in reply.json["message"]


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"null", b"\xff\xfe", b"{" * 5000])
async def test_a_body_that_is_no_object_is_refused(http, body) -> None:
    reply = await http("POST", MAPS, body, Content_Type="application/json")
    assert (reply.code, reply.json["reason"]) == (400, "BadRequest")


async def test_yaml_is_taken_and_given(http) -> None:
    text = "kind: ConfigMap\nmetadata:\n  name: y\ndata:\n  when: '2020-01-01'\n"
    reply = await http("POST", MAPS, text, Content_Type="application/yaml")
    assert reply.code == 201
    assert reply.json["data"] == {"when": "2020-01-01"}
    shown = await http("GET", f"{MAPS}/y", Accept="application/yaml")
    assert shown.headers["Content-Type"] == "application/yaml"
    assert "when: '2020-01-01'" in shown.text


async def test_other_formats_are_unsupported(http) -> None:
    reply = await http("POST", MAPS, b"a", Content_Type="application/cbor")
    assert (reply.code, reply.json["reason"]) == (415, "UnsupportedMediaType")


async def test_a_body_that_is_too_large_is_refused(http, config_map) -> None:
    body = json.dumps(config_map("big", {"x": "y" * (4 << 20)})).encode()
    reply = await http("POST", MAPS, io.BytesIO(body), Content_Type="application/json")
    assert (reply.code, reply.json["reason"]) == (413, "RequestEntityTooLarge")


async def test_unknown_fields_are_warned_of_by_default_and_dropped(http, pod) -> None:
    sent = pod("a")
    sent["spec"]["colour"] = "red"
    reply = await http("POST", PODS, sent)
    assert reply.code == 201
    assert reply.headers.getall("Warning") == ['299 - "unknown field \\"spec.colour\\""']
    assert "colour" not in reply.json["spec"]


@pytest.mark.parametrize("name", ["a\x01b", "x\r\ny: z", "\x00", "\x7f", "\u0085", "é🙂", '"\\'])
async def test_a_warning_of_a_field_of_any_name_is_still_a_header(http, pod, name) -> None:
    reply = await http("POST", PODS, {**pod("a"), name: 1})
    assert (reply.code, "Warning" in reply.headers) == (201, True)
    assert reply.headers["Warning"].startswith("299 - ")


async def test_strict_names_every_unknown_and_duplicate_field_at_once(http, pod) -> None:
    text = (
        '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","name":"a"},'
        '"spec":{"colour":"red","containers":[{"name":"c","image":"i","shape":1}]}}'
    )
    reply = await http(
        "POST", f"{PODS}?fieldValidation=Strict", text, Content_Type="application/json"
    )
    assert reply.code == 400
    for finding in (
        'unknown field "spec.colour"',
        'unknown field "spec.containers[0].shape"',
        'duplicate field "metadata.name"',
    ):
        assert finding in reply.json["message"]
    assert "strict decoding error: " in reply.json["message"]


async def test_ignore_is_silent(http, pod) -> None:
    sent = {**pod("a"), "colour": "red"}
    reply = await http("POST", f"{PODS}?fieldValidation=Ignore", sent)
    assert reply.code == 201
    assert "Warning" not in reply.headers
    assert (await http("POST", f"{PODS}?fieldValidation=No", sent)).code == 422


async def test_of_many_creators_of_one_name_one_wins(api, config_map) -> None:
    tries = [api.create(kinds.CONFIG_MAP, config_map("a")) for _ in range(20)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(result, dict) for result in results) == 1
    assert sum(isinstance(result, errors.AlreadyExists) for result in results) == 19


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "/api/v1/pods", 404),
        ("POST", "/api/v1/things", 404),
        ("POST", "/apis/apps/v9/namespaces/default/deployments", 404),
        ("POST", "/api/v1/namespaces/default/pods/a/exec", 404),
        ("DELETE", "/api/v1/namespaces", 405),
        ("GET", "/api/v1/namespaces/default/bindings", 405),
        ("PUT", "/api/v1/namespaces/default/pods/a/log", 405),
    ],
)
async def test_what_is_not_served_says_so(http, method, path, code) -> None:
    reply = await http(method, path, {} if method == "POST" else None)
    assert (reply.code, reply.json["kind"]) == (code, "Status")


async def test_nothing_at_all_is_refused_in_words_whatever_it_should_be(http) -> None:
    """Of every kind that can be created: no empty body is an error of ours."""
    for kind in BUILT_IN:
        if "create" not in kind.verbs:
            continue
        place = "namespaces/default/" if kind.namespaced else ""
        base = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
        for body in ({}, {"spec": {}}, {"metadata": {"generateName": "x-"}}):
            reply = await http("POST", f"/{base}/{place}{kind.plural}", body)
            assert reply.code < 500, f"{kind.plural}: {reply.text}"
