"""deletecollection: every object of a selection, deleted one by one.

Called for DELETE on a collection. The answer lists what was selected, as it was; objects that went
by themselves meanwhile do not matter.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ...errors import ApiError, NotFound
from ..registry import Call, Registry
from .delete import DeleteOptions, delete
from .list import ListOptions, Page, list_

_AT_ONCE = 64  # deletions that share a commit


async def deletecollection(
    registry: Registry, call: Call, options: DeleteOptions, which: ListOptions
) -> Page:
    page = list_(registry, call, which)
    refusals: list[ApiError] = []
    for start in range(0, len(page.records), _AT_ONCE):
        some = page.records[start : start + _AT_ONCE]
        calls = [
            replace(call, namespace=record.key.namespace, name=record.key.name) for record in some
        ]
        async with asyncio.TaskGroup() as tasks:
            for one in calls:
                tasks.create_task(_delete_one(registry, one, options, refusals))
        if refusals:
            raise refusals[0]
    return page


async def _delete_one(
    registry: Registry, call: Call, options: DeleteOptions, refusals: list[ApiError]
) -> None:
    try:
        await delete(registry, call, options)
    except NotFound:
        pass
    except ApiError as error:
        refusals.append(error)
