"""Brings Ropes, with one of everything that an extension may bring."""

from __future__ import annotations

from orlop.api.aggregated_roles import AggregatedRole
from orlop.api.dependencies import AwaitedKind
from orlop.api.gangs import GroupKind
from orlop.api.objects import Key, Obj, labels_of
from orlop.controllers.framework.controller import Controller, Result
from orlop.extensions.bundled import bundled_kind
from orlop.extensions.extension import Extension, controllers_of

ROPE = bundled_kind("rig.example", "v1", "Rope", "ropes")


class Ropes(Controller):
    """Says of each rope that it is tied."""

    name = "rope"
    kind = ROPE

    async def reconcile(self, key: Key) -> Result:
        rope = self.objects.get(key)
        if rope is not None:
            await self.write_status(rope, {"tied": True, "jobId": "17"})
        return Result.done()


def rope_of(pod: Obj) -> str:
    return labels_of(pod).get("rig.example/rope", "")


EXTENSION = Extension(
    controllers=controllers_of(Ropes),
    roles=(
        AggregatedRole("system:aggregated-a-ropes-viewer", "view", ROPE.group, ("ropes",)),
        AggregatedRole(
            "system:aggregated-ropes-editor", "edit", ROPE.group, ("ropes",), ("create", "delete")
        ),
    ),
    gangs=(GroupKind("rope", (ROPE,), rope_of, lambda rope: int(rope["spec"]["strands"])),),
    awaited=(
        AwaitedKind(
            ROPE,
            lambda rope: rope["spec"].get("held"),
            lambda rope: str((rope.get("status") or {}).get("jobId", "")),
        ),
    ),
    home_folders=("ropes",),
)
