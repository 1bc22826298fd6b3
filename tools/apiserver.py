"""An API server alone in a process of its own, for clients that others wrote and for benchmarks.

Started with a folder: prints its port when it serves, ends at TERM. There are no controllers beside
it, so nothing happens but what its clients ask for.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from orlop import log, pki
from orlop.apiserver import ApiServer
from orlop.apiserver.memory import settle
from orlop.jwt import SigningKey
from orlop.store import Store


async def serve(home: Path) -> None:
    log.configure("warning")
    authority = pki.ensure(home / "pki", ["localhost", "127.0.0.1"])
    store = await Store.open(home / "state.db")
    server = ApiServer(
        store,
        tls=authority.server_context(authority.apiserver),
        kubelet_tls=authority.client_context(authority.apiserver_kubelet_client),
        signing_key=SigningKey.from_pem(authority.service_account_key),
    )
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    settle()
    print(await server.start("127.0.0.1", 0), flush=True)
    await stopped.wait()
    await server.stop()
    await store.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
