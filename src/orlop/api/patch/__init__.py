"""The ways a client changes part of an object: JSON patch, merge patch, strategic merge patch.

Each module has one `apply(target, patch, ...)`, which changes `target`, owned by the caller, and
returns what it became; parts of the patch become parts of it. A patch that cannot be applied raises
BadRequest or Invalid, after which `target` is to be thrown away.
"""
