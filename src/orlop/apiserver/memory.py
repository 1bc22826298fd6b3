"""Tunes Python so that a server of ten thousand objects stays small and even.

Called once by whoever runs a server in a process of its own, when everything is loaded. It changes
the process and no object: answers are the same without it, only slower and in more memory.
"""

from __future__ import annotations

import asyncio.sslproto
import gc
import resource

# A record of TLS is 16 kB. Python keeps a buffer of 256 kB for each connection, strangers' too.
_TLS_BUFFER = 32 << 10
# What is stored has no cycles, and requests make few: looking for them costs a tenth of all time
# where it happens each 700 objects.
_THRESHOLDS = (20_000, 50, 100)


def settle() -> None:
    """Prepare for many connections.

    Each connection gets small buffers, the process may have as many as the system lets it, and the
    garbage collector leaves alone what is kept.
    """
    asyncio.sslproto.SSLProtocol.max_size = _TLS_BUFFER
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
