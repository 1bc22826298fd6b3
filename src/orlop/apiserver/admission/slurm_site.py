"""Keeps users from changing what shows a site's partitions, accounts, QOS and reservations.

An admission plugin, always on. These objects say what Slurm has: whoever deleted or edited one
would see it come back a while later, so they are told at once where such a thing is changed. What
a definition's end removes is no request, and is not asked about here.
"""

from __future__ import annotations

from ... import wellknown
from ..request.failures import forbidden
from .chain import Attributes, Plugin

GROUP = "slurm.orlop.dev"
_REMEDIES = {
    "slurmpartitions": "`scontrol update partition` of your site's administrators",
    "slurmreservations": "`scontrol update reservation` of your site's administrators",
    "slurmaccounts": "`sacctmgr` of your site's administrators",
    "slurmqos": "`sacctmgr` of your site's administrators",
}


class SlurmSite(Plugin):
    async def validate(self, attributes: Attributes) -> None:
        kind = attributes.kind
        if kind.group != GROUP or kind.plural not in _REMEDIES:
            return
        if attributes.user.name != wellknown.SLURM_USER:
            why = f"it shows what Slurm has, and is read-only; {_REMEDIES[kind.plural]} changes it"
            raise forbidden(kind, attributes.name, why)
