"""Streams at their full size: 200 MB by cp both ways, and two hundred commands at once.

Run by `make soak`, on a real Slurm with the real kubectls; the suite has the same with less.
"""

from __future__ import annotations

import pytest

from tests.e2e.conftest import (  # noqa: F401  fixtures
    open_site,
    site,
    sites,
)
from tests.e2e.site import Site, eventually
from tests.e2e.test_streams import KUBECTLS, RUNTIMES, copied_both_ways, run_at_once, start

MEGABYTES = 200
COMMANDS = 200


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("runtime", RUNTIMES[:2])
def test_200_megabytes_go_by_cp_both_ways(site: Site, runtime: str) -> None:  # noqa: F811
    name = start(site, runtime)
    for kubectl in KUBECTLS:
        copied_both_ways(site, kubectl, name, MEGABYTES * 1_000_000)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("runtime", RUNTIMES[:2])
def test_200_commands_run_at_once(site: Site, runtime: str) -> None:  # noqa: F811
    """And leave nothing open in the control plane that was not open before."""
    name = start(site, runtime)
    run_at_once(site, name, 5)
    before = open_files(site)
    run_at_once(site, name, COMMANDS, timeout=900)
    eventually(lambda: open_files(site) <= before + 20, "connections are closed again")


def open_files(site: Site) -> int:  # noqa: F811
    pid = site.control_plane()["pid"]
    return len(site.run("ls", f"/proc/{pid}/fd").stdout.split())
