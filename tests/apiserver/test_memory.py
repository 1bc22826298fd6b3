"""A process is told once how to keep much in little; tried in one of its own, as it is for good."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio.sslproto, gc, resource
from orlop.apiserver.memory import settle
settle()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
print(asyncio.sslproto.SSLProtocol.max_size < 64 << 10, gc.get_freeze_count() > 0, soft == hard)
"""


def test_buffers_are_small_files_are_many_and_what_is_kept_is_not_looked_at_again():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["True", "True", "True"], "")
