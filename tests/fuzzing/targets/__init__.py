"""All targets, by the part of Orlop that reads; `ENTRIES` is the list."""

from __future__ import annotations

from ..target import Entry
from . import (
    agents,
    bodies,
    compiled,
    credentials,
    images,
    network,
    requests,
    slurm,
    streams,
    words,
)

MODULES = (
    requests, bodies, words, credentials, streams, agents, network, compiled, slurm, images,
)  # fmt: skip
ENTRIES: tuple[Entry, ...] = tuple(one for module in MODULES for one in module.target.entries)
