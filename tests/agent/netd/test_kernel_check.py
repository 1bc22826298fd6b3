"""Whether a node can give pods a network, and what is said where it cannot."""

from __future__ import annotations

import os
import types

import pytest

from orlop.agent.netd import kernel_check, netd_supervisor


@pytest.mark.parametrize(
    ("scope", "is_isolated", "words"),
    [
        (None, True, ""),
        (0, False, ""),
        (1, True, ""),
        (2, True, ""),
        (1, False, "ptrace_scope=1"),
        (3, True, "ptrace_scope=3"),
    ],
)
def test_processes_must_be_open_to_netd(tmp_path, scope, is_isolated, words):
    file = tmp_path / "scope"
    if scope is not None:
        file.write_text(f"{scope}\n")
    found = kernel_check.problem(is_isolated, str(file))
    assert found == "" if not words else words in found


@pytest.mark.parametrize(
    ("release", "machine", "words"),
    [
        ("4.18.0-553.el8.x86_64", "x86_64", "Linux 4.18.0-553.el8.x86_64 is older than 5.14"),
        ("6.1.0", "ppc64le", "this is ppc64le"),
        ("5.14.0-427.el9", "x86_64", ""),
    ],
)
def test_kernels_and_machines_are_named(monkeypatch, release, machine, words):
    found = types.SimpleNamespace(release=release, machine=machine)
    monkeypatch.setattr(os, "uname", lambda: found)
    said = kernel_check.problem(True)
    assert words in said if words else said == ""


def test_a_kernel_that_does_not_say_whose_sockets_are_is_told(monkeypatch):
    """No pod could prove who it is, so none should try."""
    monkeypatch.setattr(netd_supervisor, "open_diagnostics", lambda: -1)
    assert "sock_diag" in kernel_check.problem(True)
