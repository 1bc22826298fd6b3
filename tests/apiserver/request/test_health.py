"""Probes: short where all is well, telling where not."""

from __future__ import annotations

import pytest

from orlop.apiserver.request.health import HealthChecks

GOOD = HealthChecks({"ping": lambda: True}, {"shutdown": lambda: True})
STOPPING = HealthChecks({"ping": lambda: True}, {"shutdown": lambda: False})


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/livez/ping"])
def test_all_is_well(path) -> None:
    health = GOOD.report(path, verbose=False)
    assert health is not None
    assert (health.code, health.text) == (200, "ok")


def test_verbose_lists_every_check() -> None:
    health = GOOD.report("/readyz", verbose=True)
    assert health is not None
    assert health.text == "[+]ping ok\n[+]shutdown ok\nreadyz check passed\n"


def test_only_readiness_cares_about_shutdown() -> None:
    ready, live = (STOPPING.report(path, verbose=False) for path in ("/readyz", "/livez"))
    assert ready is not None
    assert ready.code == 500
    assert "[-]shutdown failed: reason withheld" in ready.text
    assert live is not None
    assert live.code == 200


def test_a_check_can_be_left_out() -> None:
    health = STOPPING.report("/readyz", verbose=False, excluded=("shutdown",))
    assert health is not None
    assert health.code == 200


@pytest.mark.parametrize("path", ["/livez/none", "/metrics"])
def test_what_is_no_check_is_not_found(path) -> None:
    assert GOOD.report(path, verbose=False) is None


async def test_the_server_reports_its_store(http) -> None:
    reply = await http("GET", "/readyz?verbose")
    assert "[+]store ok" in reply.text
    assert (await http("GET", "/readyz?exclude=store&verbose")).text.count("store") == 0
    assert (await http("GET", "/healthz/none")).code == 404
