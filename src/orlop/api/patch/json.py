"""JSON patch (RFC 6902): a list of operations on paths.

Called by the patch verb with a decoded body. What is no list of operations is a BadRequest; an
operation that does not fit the object, a failing `test` among them, is Invalid, as upstream has it.
"""

from __future__ import annotations

from typing import Any

import jsonpatch
import jsonpointer

from ...errors import BadRequest, Invalid
from ..objects import Obj

MAX_OPERATIONS = 10_000  # as upstream's apiserver: more is a denial of service


def apply(target: Obj, patch: Any) -> Obj:
    """`target` after all operations, in order."""
    if not isinstance(patch, list):
        raise BadRequest("a JSON patch must be a list of operations such as "
                         '[{"op": "replace", "path": "/spec/replicas", "value": 2}]')  # fmt: skip
    if len(patch) > MAX_OPERATIONS:
        raise BadRequest(
            f"the allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        )
    try:
        result = jsonpatch.JsonPatch(patch).apply(target, in_place=True)
    except jsonpatch.InvalidJsonPatch as error:
        raise BadRequest(f"the JSON patch is malformed: {error}") from error
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
        raise Invalid(
            f"the server rejected our request due to an error in our request: {error}"
        ) from error
    if not isinstance(result, dict):
        raise Invalid("the JSON patch leaves something that is not an object")
    return result
