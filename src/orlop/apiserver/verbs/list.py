"""list: many objects at one revision, in pages where asked.

Called for GET on a collection, and by deletecollection. A continued list is of the same revision as
its first page, as long as the history reaches back so far.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from dataclasses import dataclass

import msgspec

from ...api.objects import Key
from ...errors import Gone
from ...store import Expired, Record, Snapshot
from ..objects.conversion import bucket_of
from ..objects.selection import ALL, Selection
from ..registry import Call, Registry
from ..request.failures import bad_request, continue_expired, expired, too_large
from .get import parse_revision


@dataclass(frozen=True, slots=True)
class ListOptions:
    selection: Selection = ALL
    limit: int = 0
    token: str = ""  # `continue` of the page before
    resource_version: str = ""
    match: str = ""  # resourceVersionMatch


@dataclass(frozen=True, slots=True)
class Page:
    """Objects, and where the next ones are."""

    revision: int
    records: list[Record]
    token: str = ""
    remaining: int | None = None


class _Token(msgspec.Struct):
    """The content of `continue`; clients must not look inside."""

    revision: int  # 0: the newest, at the price of consistency
    namespace: str
    name: str


def list_(registry: Registry, call: Call, options: ListOptions) -> Page:
    """Return one page; Gone when its revision is no longer kept."""
    if options.limit < 0:
        raise bad_request("limit must not be negative")
    start = _read_token(options.token) if options.token else None
    snapshot = _snapshot(registry, call, options, start)
    records = snapshot.records
    if start is not None:
        after = bisect_right(records, Key(start.namespace, start.name), key=lambda r: r.key)
        records = records[after:]
    return _page(snapshot.revision, records, options)


def _page(revision: int, records: list[Record], options: ListOptions) -> Page:
    selection, limit = options.selection, options.limit
    if selection.is_everything:
        chosen, more = records, 0
        if limit and len(records) > limit:
            chosen, more = records[:limit], len(records) - limit
        token = _write_token(revision, chosen[-1].key) if more else ""
        return Page(revision, chosen, token, more or None)
    chosen = []
    for record in records:
        if not selection.matches(record):
            continue
        if limit and len(chosen) == limit:
            return Page(revision, chosen, _write_token(revision, chosen[-1].key))
        chosen.append(record)
    return Page(revision, chosen)


def _snapshot(
    registry: Registry, call: Call, options: ListOptions, start: _Token | None
) -> Snapshot:
    store, bucket, namespace = registry.store, bucket_of(call.kind), call.namespace
    try:
        if start is not None:
            return store.list(bucket, namespace, at=start.revision or None)
        at = _revision_asked_for(registry, options)
        if at is None or at == store.revision:
            return options.selection.find(store, bucket, namespace)
        return store.list(bucket, namespace, at=at)
    except Expired as too_old:
        raise _gone(start, str(too_old)) from too_old


def _gone(start: _Token | None, message: str) -> Gone:
    if start is None:
        return expired(message)
    return continue_expired(_write_token(0, Key(start.namespace, start.name)))


def _revision_asked_for(registry: Registry, options: ListOptions) -> int | None:
    """Return the revision a list must be exactly at, or None: the newest serves."""
    if options.match and not options.resource_version:
        raise bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if options.match not in ("", "Exact", "NotOlderThan"):
        raise bad_request(
            f'resourceVersionMatch: Unsupported value: "{options.match}": supported values: '
            '"Exact", "NotOlderThan"'
        )
    revision = parse_revision(options.resource_version)
    if revision > registry.store.revision:
        raise too_large(revision, registry.store.revision)
    # With a limit and no match rule, upstream reads a revision as an exact one.
    is_exact = options.match == "Exact" or (not options.match and options.limit and revision)
    if options.match == "Exact" and not revision:
        raise bad_request('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"')
    return revision if is_exact else None


def _write_token(revision: int, key: Key) -> str:
    data = msgspec.json.encode(_Token(revision, key.namespace, key.name))
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(data, type=_Token)
    except (binascii.Error, ValueError, RecursionError) as error:
        raise bad_request(f"continue key is not valid: {error}") from error
