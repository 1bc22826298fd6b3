"""Programs that keep docker's logins: asked as docker asks them, and never trusted to answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orlop.runtime.images.credential_programs import of_programs
from orlop.runtime.images.credentials import Credential, configs_of

LOGIN = json.dumps({"ServerURL": "x", "Username": "ann", "Secret": "pw"})


@pytest.fixture
def program(tmp_path: Path):
    """Writes docker-credential-<name>, which notes what it was asked."""

    def write(name: str, body: str) -> dict[str, str]:
        path = tmp_path / f"docker-credential-{name}"
        path.write_text(f'#!/bin/sh\nread server\necho "$1 $server" >> {tmp_path}/asked\n{body}\n')
        path.chmod(0o755)
        return {"PATH": f"{tmp_path}:/usr/bin:/bin"}

    return write


def asked(tmp_path: Path) -> list[str]:
    return (tmp_path / "asked").read_text().splitlines()


def test_the_store_of_all_logins_is_asked_for_the_registry(program, tmp_path):
    environ = program("pass", f"echo '{LOGIN}'")
    found = of_programs([{"credsStore": "pass"}], "quay.io", environ)
    assert found == [("quay.io", Credential("ann", "pw"))]
    assert asked(tmp_path) == ["get quay.io"]


def test_a_registry_has_a_program_of_its_own(program, tmp_path):
    program("all", "exit 1")
    environ = program("ecr", f"echo '{LOGIN}'")
    config = {"credsStore": "all", "credHelpers": {"https://ecr.example/v2/": "ecr"}}
    assert of_programs([config], "ecr.example", environ) == [
        ("ecr.example", Credential("ann", "pw"))
    ]


def test_docker_hub_is_asked_for_by_the_name_docker_gives_it(program, tmp_path):
    of_programs([{"credsStore": "pass"}], "docker.io", program("pass", f"echo '{LOGIN}'"))
    assert asked(tmp_path) == ["get https://index.docker.io/v1/"]


def test_an_identity_token_is_no_password(program):
    answer = json.dumps({"Username": "<token>", "Secret": "t"})
    [(_, found)] = of_programs([{"credsStore": "p"}], "quay.io", program("p", f"echo '{answer}'"))
    assert (found.username, found.identity_token) == ("", "t")


@pytest.mark.parametrize(
    "body",
    [
        *("echo credentials not found in native keychain; exit 1", "exit 3", "echo nonsense"),
        *("echo {}", "printf '[%.0s' $(seq 5000)"),
    ],
)
def test_one_that_has_no_login_or_fails_gives_none(program, body):
    assert of_programs([{"credsStore": "p"}], "quay.io", program("p", body)) == []


@pytest.mark.parametrize("config", [{"credsStore": "nosuch"}, {"credsStore": "../p"}, {}, {"x": 1}])
def test_one_that_is_not_there_is_passed_over(program, config):
    assert of_programs([config], "quay.io", program("p", f"echo '{LOGIN}'")) == []


def test_one_that_takes_too_long_is_given_up(program, monkeypatch):
    monkeypatch.setattr("orlop.runtime.images.credential_programs.TIMEOUT", 0.1)
    assert of_programs([{"credsStore": "p"}], "quay.io", program("p", "exec sleep 60")) == []


def test_apptainers_own_file_may_name_one_too(tmp_path):
    folder = tmp_path / ".apptainer"
    folder.mkdir()
    (folder / "docker-config.json").write_text('{"credsStore": "pass"}')
    assert configs_of({}, tmp_path) == [{"credsStore": "pass"}]
