"""`orlop doctor`: tells everything this site has or lacks, each finding with its remedy.

Called by people before the first `up` and whenever something is strange. Its exit code is 1 when
something stands in the way of Orlop, 0 otherwise.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable

import click

from ...settings import Paths, Settings, home_from_env, load
from ..doctor_checks import host, network, site
from ..doctor_checks.findings import Finding
from ..home.home_lock import resident

MARKS = {"ok": "✓", "note": "!", "problem": "✗"}


@click.command("doctor")
def command() -> None:
    """Say what this site lacks, each finding with its remedy."""
    paths = home_from_env()
    findings = examine(paths, load(paths))
    show(findings)
    problems = sum(finding.level == "problem" for finding in findings)
    notes = sum(finding.level == "note" for finding in findings)
    click.echo(f"\n{_counted(problems, 'problem')}, {_counted(notes, 'note')}")
    sys.exit(1 if problems else 0)


def examine(paths: Paths, settings: Settings) -> list[Finding]:
    running = resident(paths)
    return [
        *host.python(),
        *host.home(paths),
        *asyncio.run(site.engine(paths, settings)),
        *site.runtimes(settings),
        *host.namespaces(),
        *host.pod_network(),
        *network.ranges(settings),
        host.kubectl(),
        host.ports(paths, settings),
        *host.proxy(os.environ, running.url if running else ""),
        *host.logout(),
    ]


def show(findings: Iterable[Finding]) -> None:
    for finding in findings:
        click.echo(f"{MARKS[finding.level]} {finding.subject:<16} {finding.found}")
        if finding.remedy:
            click.echo(f"  {'':<16} → {finding.remedy}")


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
