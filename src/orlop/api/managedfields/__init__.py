"""Tracks who manages which field of an object: server-side apply, and all other writes.

Called by the write verbs through `manager`: `update` after any write, `apply` for an apply patch.
Sets of fields are kept and computed in their FieldsV1 form, nested dicts, so that nothing is
translated on the way in or out. As sigs.k8s.io/structured-merge-diff and
apimachinery/pkg/util/managedfields.
"""
