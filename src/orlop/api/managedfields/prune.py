"""Removes what an applier stated last time and not now, unless somebody else claims it.

Called by apply with the merged object. As long as all managers wrote one version this is a matter
of sets; across versions a field is taken out if no claim of another version would notice.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..objects import Obj
from .compare import compare
from .entries import Entry
from .fieldset import FieldSet, has, intersection, of_paths, paths, union
from .remove import given_up, remove
from .write import View, Write


def pruned(write: Write, merged: Obj, last: Entry, claims: Sequence[Entry]) -> Obj:
    """Return `merged` without what `last` applied and none of `claims` holds."""
    by_version: dict[str, FieldSet] = {}
    for entry in claims:
        by_version[entry.api_version] = union(by_version.get(entry.api_version, {}), entry.fields)
    view = write.view(last.api_version)
    if view is None:
        return merged
    if {*by_version, last.api_version} == {write.api_version}:
        dropped = given_up(last.fields, by_version[write.api_version], write.shape)
        left: Obj = remove(merged, dropped, write.shape)
        return left
    return _across_versions(write, merged, last, by_version, view)


def _across_versions(
    write: Write, merged: Obj, last: Entry, by_version: dict[str, FieldSet], view: View
) -> Obj:
    """Remove fields one by one: each is tried without, and seen in every claimant's version."""
    old = view.convert(merged)
    dropped = []
    for path in paths(last.fields):
        if not has(by_version.get(last.api_version, {}), path):
            without = view.back(remove(old, of_paths([path]), view.shape))
            others = (one for one in by_version.items() if one[0] != last.api_version)
            if not any(_notices(write, merged, without, *claim) for claim in others):
                dropped.append(path)
    return view.back(remove(old, of_paths(dropped), view.shape))


def _notices(write: Write, merged: Obj, without: Obj, version: str, claimed: FieldSet) -> bool:
    """Return whether a manager of that version would miss something."""
    view = write.view(version)
    if view is None:
        return False
    changes = compare(view.convert(merged), view.convert(without), view.shape)
    return bool(intersection(claimed, union(changes.changed, changes.removed)))
