"""Sends the whole state as one SQLite file: what `orlop backup` asks a running control plane for.

Called by the handler, for those who may read everything. The copy is of one moment, made beside the
state while reading and writing go on, sent, and removed; others do not see it.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from aiohttp import web

from ..store import Store

MEDIA_TYPE = "application/vnd.sqlite3"
_PIECE = 256 << 10
_COPY = ".copy-"


async def send_state(request: web.BaseRequest, store: Store) -> web.StreamResponse:
    copy = store.path.with_name(f"{store.path.name}{_COPY}{os.getpid()}-{secrets.token_hex(4)}")
    _sweep(store.path)
    try:
        await store.backup(copy)
        response = web.StreamResponse(headers={"Content-Type": MEDIA_TYPE})
        response.content_length = copy.stat().st_size
        await response.prepare(request)
        with copy.open("rb") as file:
            while piece := file.read(_PIECE):
                await response.write(piece)
        await response.write_eof()
        return response
    finally:
        copy.unlink(missing_ok=True)


def _sweep(state: Path) -> None:
    """Remove copies left by a control plane that was killed.

    One control plane at a time has this state, so these copies are of no use to anyone.
    """
    for copy in state.parent.glob(f"{state.name}{_COPY}*"):
        if not copy.name.startswith(f"{state.name}{_COPY}{os.getpid()}-"):
            copy.unlink(missing_ok=True)
