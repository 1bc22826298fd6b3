"""No module outside of extensions/ names one of their kinds in code without a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import orlop

SOURCES = Path(orlop.__file__).parent
KIND = re.compile(
    r"jobset|mpijob|pytorchjob|leaderworkerset|podgroup|slurmjob|wlmjob|bridgejob"
    r"|kubeflow\.org|scheduling\.x-k8s\.io|sylabs\.io|ibm\.com",
    re.IGNORECASE,
)
# Which words, and why.
REASONS = {
    "api/wire/table.py": (r"podGroupName", "a field of Kubernetes' own PodSpec"),
    "wellknown.py": (
        r"scheduling\.x-k8s\.io/pod-group|slurmjob\.slinky\.slurm\.net/",
        "labels and annotations of pods, which are a contract whoever reads them",
    ),
    # `kubectl slurm` is a client of that kind, as kubectl is of Jobs.
    "cli/kubectl_plugin/kubectl_slurm.py": (r".*", "`script` shows that of a SlurmJob's pod"),
    "cli/kubectl_plugin/sbatch.py": (r".*", "makes a SlurmJob"),
    "cli/kubectl_plugin/sbatch_line.py": (r".*", "makes a SlurmJob"),
}
MODULES = sorted(
    path for path in SOURCES.rglob("*.py") if not path.is_relative_to(SOURCES / "extensions")
)


def words(tree: ast.Module) -> Iterator[str]:
    """Yield identifiers and texts, but for docstrings; comments are not in the tree."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and id(node) not in docstrings:
                yield node.value
            continue
        for name in ("id", "attr", "name", "arg", "module", "asname"):
            value = getattr(node, name, None)
            if isinstance(value, str):
                yield value


def without_reason(path: Path) -> list[str]:
    allowed, _ = REASONS.get(str(path.relative_to(SOURCES)), ("(?!)", ""))
    found = [word for word in words(ast.parse(path.read_text())) if KIND.search(word)]
    return [word for word in found if KIND.search(re.sub(allowed, "", word))]


def test_no_kind_is_named_without_a_reason() -> None:
    assert len(MODULES) > 500
    assert {path: found for path in MODULES if (found := without_reason(path))} == {}


def test_every_reason_is_still_one() -> None:
    for name in REASONS:
        tree = ast.parse((SOURCES / name).read_text())
        assert any(KIND.search(word) for word in words(tree)), name
