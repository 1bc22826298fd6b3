"""Writes docs/reference/pod-fields.md: every field of a pod, and what becomes of it.

Run by hand, `python -m tools.pod_fields`, when kubelet/planning/field_support.py has changed; a
test holds the page against the table, so that it cannot say anything else than what is done.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from orlop.kubelet.planning.field_support import MET, Rule, fields

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "pod-fields.md"
HEAD = """\
# Every field of a pod

What becomes of each field of a pod's spec when Orlop runs it. *Refused* pods stay Pending and say
so, with the words given here, in a condition and an event; *told* means that the pod runs without,
and one Warning event `Unsupported` names it. Words hold for the values that cannot be met; for all
others the field is met. A field that is not in this list is told as unknown.

Written from the table the kubelet itself asks, by `python -m tools.pod_fields`.
"""


def becomes(rule: Rule) -> str:
    if rule is MET:
        return "met"
    return f"{'refused' if rule.refuses else 'told'}: {rule.words}"


def page() -> str:
    # Init and ephemeral containers have the same table as containers.
    wanted = [
        (path, rule)
        for path, rule in fields()
        if not path.startswith(("initContainers.", "ephemeralContainers."))
    ]
    parts = [HEAD]
    wanted.sort(key=lambda row: _section(row[0]))
    for group, rows in groupby(wanted, key=lambda row: _section(row[0])):
        lines = [f"| `{path.removeprefix(group + '.')}` | {becomes(rule)} |" for path, rule in rows]
        note = " (also of init and ephemeral ones)" if group == "containers" else ""
        title = f"## spec.{group}{note}" if group else "## spec"
        parts.append("\n".join([title, "", "| field | |", "|---|---|", *sorted(lines), ""]))
    return "\n".join(parts)


def _section(path: str) -> str:
    """What is nested one deep has a table of its own; fields of the spec itself share one."""
    top, dot, _ = path.partition(".")
    return top if dot else ""


if __name__ == "__main__":
    PAGE.write_text(page())
