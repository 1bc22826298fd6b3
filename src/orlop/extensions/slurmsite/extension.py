"""Brings the objects that show what Slurm has, unless the setting `show_queue` is off."""

from __future__ import annotations

from ...api.aggregated_roles import AggregatedRole
from ...controllers.framework.controller import Runnable
from ...wellknown import SLURM_USER
from ..extension import Controllers, Extension, Host
from .kinds import GROUP, SITE_KINDS
from .site_objects import SiteObjects


def controllers(host: Host) -> list[Controllers]:
    slurm, settings = host.slurm, host.settings.slurm
    if slurm is None or not settings.show_queue:
        return []

    def make() -> list[Runnable]:
        api, every = host.client(SLURM_USER), settings.idle_tick
        return [SiteObjects(api, host.informers, slurm.commands, every=every, clock=host.clock)]

    return [Controllers(tuple(kind.resource for kind in SITE_KINDS), make)]


EXTENSION = Extension(
    controllers=controllers,
    needs_slurm=True,
    roles=(
        AggregatedRole(
            "system:aggregated-slurm-reader",
            "view",
            GROUP,
            tuple(kind.plural for kind in SITE_KINDS),
        ),
    ),
)
