"""Every pod runs under a service account: `default` where it names none.

An admission plugin, always on. Only the name is filled in; tokens reach pods by projected volumes.
As plugin/pkg/admission/serviceaccount.
"""

from __future__ import annotations

from .chain import Attributes, Plugin


class ServiceAccount(Plugin):
    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.obj
        if attributes.operation != "CREATE" or attributes.subresource or pod is None:
            return
        if (attributes.kind.group, attributes.kind.plural) != ("", "pods"):
            return
        spec = pod.get("spec")
        if isinstance(spec, dict) and not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = spec["serviceAccount"] = "default"
