"""`kubectl slurm sbatch` as far as it goes without Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from orlop.api.objects import Obj
from orlop.cli.kubectl_plugin.sbatch import heard, made, sbatch
from orlop.cli.kubectl_plugin.sbatch_line import manifest, split
from orlop.errors import ConfigError, Forbidden, NotFound, Unavailable

SCRIPT = "#!/bin/bash\n#SBATCH --time=5\necho hi\n"
JOB, SECRET = "slurmjobs/j", "secrets/j-shell-1"


class Api:
    """As kubeapi.KubeApi, for a server that fails at one call."""

    def __init__(self, fails: dict[str, BaseException], *statuses: Obj) -> None:
        self.fails = fails
        self.statuses = list(statuses)
        self.there: dict[str, Obj] = {}

    def _call(self, verb: str, path: str) -> str:
        kind = path.partition("/namespaces/default/")[2]
        error = self.fails.get(f"{verb} {kind.partition('/')[0]}")
        if error is not None:
            raise error
        return kind

    def create(self, path: str, obj: Obj) -> Obj:
        kind = self._call("create", path)
        name = obj["metadata"].get("name") or f"{obj['metadata']['generateName']}1"
        metadata = {"name": name, "namespace": "default", "uid": "u"}
        self.there[f"{kind}/{name}"] = {**obj, "metadata": metadata}
        return self.there[f"{kind}/{name}"]

    def patch(self, path: str, change: Obj) -> None:
        self.there[self._call("patch", path)]["metadata"] |= change["metadata"]

    def delete(self, path: str) -> None:
        self.there.pop(self._call("delete", path), None)

    def get(self, path: str) -> Obj:
        if not self.statuses:
            raise NotFound(path)
        return {"status": self.statuses.pop(0)}


def wanted(*words: str) -> Obj:
    asked = split(["--name", "j", *words, "--wrap", "true"])
    return manifest(asked, Path("/"), bytes, dict, {})


def test_the_shells_variables_go_when_the_object_goes() -> None:
    api = Api({})
    assert made(api, "default", wanted(), {"A": "1"}) == "j"
    (owner,) = api.there[SECRET]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("SlurmJob", "j")


@pytest.mark.parametrize("call", ["create slurmjobs", "patch secrets"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), Unavailable("lost")])
def test_who_is_interrupted_leaves_nothing_behind(call: str, error: BaseException) -> None:
    api = Api({call: error})
    with pytest.raises(type(error)):
        made(api, "default", wanted(), {"A": "1"})
    assert api.there == {}


def test_who_may_not_change_secrets_is_told_of_what_stays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    api = Api({"patch secrets": Forbidden("you may not")})
    assert made(api, "default", wanted(), {"A": "1"}) == "j"
    assert {JOB, SECRET} == set(api.there)
    assert "you may not; `kubectl delete secret j-shell-1`" in capsys.readouterr().err


def test_a_shell_without_what_is_wanted_is_still_the_users_own() -> None:
    """Else sbatch would take that of the control plane."""
    api = Api({})
    made(api, "default", wanted("--export=OTHER"), {"A": "1"})
    assert api.there[SECRET]["data"] == {"environment": ""}
    api = Api({})
    made(api, "default", wanted("--export=NONE"), {"A": "1"})
    assert set(api.there) == {JOB}


def test_who_waits_for_a_number_is_told_for_what(capsys: pytest.CaptureFixture[str]) -> None:
    waits = {"reason": "NotReady", "message": "volume data has no set yet"}
    api = Api({}, waits, waits, {"jobId": "7"})
    assert heard(api, "", needs_number=True, patience=0.0) == {"jobId": "7"}
    assert capsys.readouterr().err == "it has no number yet: volume data has no set yet\n"


def test_a_dependency_on_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api({})
    monkeypatch.setattr("orlop.cli.kubectl_plugin.sbatch._place", lambda asked: (api, "default"))
    monkeypatch.setattr(api, "items", lambda path: [], raising=False)
    words = ["--dependency=afterok:typo", "--wrap", "true"]
    result = CliRunner().invoke(sbatch, words)
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception) == "--dependency: there is no SlurmJob typo"
    assert api.there == {}


def test_a_dry_run_prints_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(sbatch, ["--dry-run", "-n", "4", "job.sh"])
    assert result.exit_code == 0
    assert "kind: SlurmJob" in result.output


def test_help_says_what_is_sbatchs_and_what_is_ours() -> None:
    result = CliRunner().invoke(sbatch, ["--help"])
    assert "--follow" in result.output
    assert "-n is sbatch's --ntasks here" in result.output
