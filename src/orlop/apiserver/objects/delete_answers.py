"""Lists the kinds that answer a DELETE with the object that is gone, not with a Status.

Asked by delete. As rest.Store.ReturnDeletedObject in upstream's registries.
"""

from __future__ import annotations

from ...api.kinds import Kind

_RETURNS_DELETED = {
    "pods",
    "podtemplates",
    "persistentvolumes",
    "persistentvolumeclaims",
    "resourcequotas",
    "serviceaccounts",
    "services",
    "storageclasses.storage.k8s.io",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "podsecuritypolicies.policy",
}


def returns_deleted_object(kind: Kind) -> bool:
    return kind.resource in _RETURNS_DELETED
