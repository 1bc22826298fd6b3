"""Logins from pull secrets and from the user's own files."""

from __future__ import annotations

import base64
import json
import time

import pytest

from orlop.runtime.images.credentials import Credential, matching, of_secrets, of_user


def encoded(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.b64encode(text.encode()).decode()


ANN = Credential("ann", "s3cret:with:colons")
AUTH = {"auth": encoded("ann:s3cret:with:colons")}


def secret(auths: object, key: str = ".dockerconfigjson"):
    value = {"auths": auths} if key == ".dockerconfigjson" else auths
    return {"kind": "Secret", "data": {key: encoded(value)}}


@pytest.mark.parametrize("entry", [AUTH, {"username": "ann", "password": "s3cret:with:colons"}])
@pytest.mark.parametrize("key", [".dockerconfigjson", ".dockercfg"])
def test_both_types_and_both_forms_of_secrets_are_read(entry, key):
    keyring = of_secrets([secret({"quay.io": entry}, key)])
    assert keyring == [("quay.io", ANN)]


@pytest.mark.parametrize(
    "broken",
    [
        {"data": {}},
        {},
        {"data": {".dockerconfigjson": encoded("no json")}},
        {"data": {".dockerconfigjson": encoded("[]")}},
        {"data": {".dockerconfigjson": encoded('{"auths":' + "[" * 100_000)}},
        secret({"quay.io": {}}),
        secret({"quay.io": {"auth": "%%%"}}),
        secret({"quay.io": "text"}),
        secret(None),
    ],
)
def test_secrets_that_hold_no_login_are_skipped(broken):
    assert of_secrets([broken]) == []


@pytest.mark.parametrize(
    ("pattern", "registry", "repository", "fits"),
    [
        ("quay.io", "quay.io", "org/app", True),
        ("https://quay.io", "quay.io", "org/app", True),
        ("https://quay.io/v2/", "quay.io", "org/app", True),
        ("quay.io/org", "quay.io", "org/app", True),
        ("quay.io/org/app", "quay.io", "org/app", True),
        ("quay.io/or", "quay.io", "org/app", False),
        ("quay.io/other", "quay.io", "org/app", False),
        ("quay.io", "ghcr.io", "org/app", False),
        ("*.example.org", "registry.example.org", "app", True),
        ("*.example.org", "example.org", "app", False),
        ("registry[1-3].org", "registry2.org", "app", True),
        ("registry[1-3.org", "registry2.org", "app", False),
        ("localhost:5000", "localhost:5000", "app", True),
        ("localhost", "localhost:5000", "app", False),
        ("https://index.docker.io/v1/", "docker.io", "library/app", True),
        ("docker.io", "docker.io", "library/app", True),
    ],
)
def test_which_login_fits_which_repository(pattern, registry, repository, fits):
    assert (matching([(pattern, ANN)], registry, repository) == [ANN]) is fits


@pytest.mark.parametrize("pattern", ["[" * 200_000, "*[a" * 70_000, "*a" * 100_000 + "]"])
def test_wildcards_without_end_are_looked_at_once(pattern):
    """Whoever may create a Secret may write such a one, and name it in a pod."""
    began = time.process_time()
    assert matching([(pattern, ANN)], "a" * 60_000 + ".org", "app") == []
    assert time.process_time() - began < 0.5


def test_the_most_exact_login_comes_first_and_none_twice():
    bob = Credential("bob", "x")
    keyring = [("quay.io", ANN), ("quay.io/org/app", bob), ("https://quay.io", ANN)]
    assert matching(keyring, "quay.io", "org/app") == [bob, ANN]


@pytest.mark.parametrize(
    ("path", "environ"),
    [
        (".docker/config.json", {}),
        (".apptainer/docker-config.json", {}),
        (".singularity/docker-config.json", {}),
        ("elsewhere/config.json", {"DOCKER_CONFIG": "{home}/elsewhere"}),
        ("auth.json", {"REGISTRY_AUTH_FILE": "{home}/auth.json"}),
        ("run/containers/auth.json", {"XDG_RUNTIME_DIR": "{home}/run"}),
    ],
)
def test_the_users_own_logins_are_found_where_tools_keep_them(tmp_path, path, environ):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"auths": {"quay.io": AUTH}}))
    environ = {name: value.format(home=tmp_path) for name, value in environ.items()}
    assert of_user(environ, tmp_path) == [("quay.io", ANN)]


@pytest.mark.parametrize("prefix", ["APPTAINER", "SINGULARITY"])
def test_apptainers_variables_are_a_login_for_every_registry(tmp_path, prefix):
    environ = {f"{prefix}_DOCKER_USERNAME": "ann", f"{prefix}_DOCKER_PASSWORD": ANN.password}
    assert matching(of_user(environ, tmp_path), "any.where", "app") == [ANN]


def test_a_home_without_logins_has_none(tmp_path):
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text("{broken")
    assert of_user({}, tmp_path) == []


def test_a_login_does_not_show_its_password():
    assert "s3cret" not in repr(ANN)
    assert ANN.basic() == f"Basic {encoded('ann:s3cret:with:colons')}"
