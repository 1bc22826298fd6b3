"""Query parameters, read once into what the verbs take.

Called by the dispatcher. Values that upstream refuses are refused in its words; parameters nobody
knows are ignored, as upstream ignores them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...api.kinds import Kind
from ...api.validation.errors import bad_value, forbidden, invalid, required, too_long
from ...errors import Invalid
from ..objects.field_validation import LEVELS
from ..objects.selection import select
from ..registry import MAX_MANAGER
from ..verbs.delete import DeleteOptions
from ..verbs.get import parse_revision
from ..verbs.list import ListOptions
from ..verbs.watch import WatchOptions
from .failures import bad_request
from .requestinfo import flag

Query = Mapping[str, str]


def dry_run(query: Query) -> bool:
    value = query.get("dryRun", "")
    if value not in ("", "All"):
        raise Invalid(
            f'Invalid value: dryRun: Unsupported value: "{value}": supported values: "All"'
        )
    return value == "All"


def field_validation(query: Query) -> str:
    value = query.get("fieldValidation") or "Warn"
    if value not in LEVELS:
        raise Invalid(
            f'fieldValidation: Unsupported value: "{value}": supported values: '
            '"", "Ignore", "Strict", "Warn"'
        )
    return value


def field_manager(query: Query, verb: str, *, is_apply: bool = False) -> str:
    """Return the name a client gives itself; an apply must have one. As ValidatePatchOptions."""
    name = query.get("fieldManager", "")
    problems = []
    if is_apply and not name:
        problems.append(required("fieldManager", "is required for apply patch"))
    if len(name.encode()) > MAX_MANAGER:
        problems.append(too_long("fieldManager", MAX_MANAGER))
    if not name.isprintable():
        problems.append(bad_value("fieldManager", name, "should only contain printable characters"))
    if verb == "patch" and "force" in query and not is_apply:
        problems.append(forbidden("force", "may not be specified for non-apply patch"))
    if problems:
        options = f"{verb.capitalize()}Options"
        raise invalid(Kind("meta.k8s.io", "v1", options, "", namespaced=False), "", problems)
    return name


def list_options(kind: Kind, query: Query) -> ListOptions:
    if query.get("continue") and query.get("resourceVersion", "0") not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    return ListOptions(
        selection=select(kind, query.get("labelSelector", ""), query.get("fieldSelector", "")),
        limit=_integer(query, "limit") or 0,
        token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
    )


def watch_options(kind: Kind, query: Query, name: str = "") -> WatchOptions:
    fields = query.get("fieldSelector", "")
    if name:
        fields = f"{fields},metadata.name={name}" if fields else f"metadata.name={name}"
    initial = flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    _check_initial_events(initial, query)
    parse_revision(query.get("resourceVersion", ""))  # refused before the stream begins
    timeout = _integer(query, "timeoutSeconds")
    return WatchOptions(
        selection=select(kind, query.get("labelSelector", ""), fields),
        resource_version=query.get("resourceVersion", ""),
        bookmarks=flag(query, "allowWatchBookmarks"),
        initial_events=initial,
        timeout=float(timeout) if timeout else None,
    )


def with_timeout(options: WatchOptions, seconds: float) -> WatchOptions:
    return replace(options, timeout=seconds)


def _check_initial_events(initial: bool | None, query: Query) -> None:
    match = query.get("resourceVersionMatch", "")
    if initial is None and match:
        raise _invalid_list_options(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless "
            "sendInitialEvents is provided"
        )
    if initial is not None and match != "NotOlderThan":
        raise _invalid_list_options(
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting "
            "resourceVersionMatch to NotOlderThan"
        )


def _invalid_list_options(why: str) -> Invalid:
    return Invalid(f'ListOptions.meta.k8s.io "" is invalid: {why}')


def delete_options(options: DeleteOptions, query: Query) -> DeleteOptions:
    """Return what the body says, and what the query says where the body says nothing."""
    if options.grace is None and "gracePeriodSeconds" in query:
        options = replace(options, grace=_integer(query, "gracePeriodSeconds"))
    if options.propagation is None and query.get("propagationPolicy"):
        options = replace(options, propagation=query["propagationPolicy"])
    if options.orphan_dependents is None and "orphanDependents" in query:
        options = replace(options, orphan_dependents=flag(query, "orphanDependents"))
    return options


_LONGEST = 20  # characters of an integer of 64 bits


def _integer(query: Query, name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    try:
        if len(text) <= _LONGEST:
            return int(text)
    except ValueError:
        pass
    shown = text[:100]
    raise bad_request(
        f'{name}: Invalid value: "{shown}": strconv.ParseInt: parsing "{shown}": invalid syntax'
    )
