"""JSON patch (RFC 6902): a list of operations on paths.

Called by the patch verb with a decoded body. What is no list of operations is a BadRequest; an
operation that does not fit the object, a failing `test` among them, is Invalid, as upstream has it.
Copies are counted before they are made: two dozen that double the object are gigabytes.
"""

from __future__ import annotations

from typing import Any

import jsonpatch
import jsonpointer
import msgspec

from ...errors import BadRequest, Invalid
from ..objects import Obj
from ..reading import MAX_BYTES, MAX_DEPTH

MAX_OPERATIONS = 10_000  # as upstream's apiserver: more is a denial of service
MAX_COPIED = MAX_BYTES  # bytes that all copy operations together may copy, as upstream's
_LONGEST = 1024  # of a message: the library puts whole objects into them


def apply(target: Obj, patch: Any) -> Obj:
    """Return `target` after all operations, in order."""
    if not isinstance(patch, list):
        raise BadRequest("a JSON patch must be a list of operations such as "
                         '[{"op": "replace", "path": "/spec/replicas", "value": 2}]')  # fmt: skip
    if len(patch) > MAX_OPERATIONS:
        raise BadRequest(
            f"the allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        )
    try:
        result = _apply(target, patch)
    except jsonpatch.InvalidJsonPatch as error:
        raise BadRequest(f"the JSON patch is malformed: {_short(error)}") from error
    except RecursionError as error:
        raise Invalid(f"the JSON patch works on more than {MAX_DEPTH} levels") from error
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
        raise Invalid(
            f"the server rejected our request due to an error in our request: {_short(error)}"
        ) from error
    if not isinstance(result, dict):
        raise Invalid("the JSON patch leaves something that is not an object")
    return result


def _apply(target: Any, patch: list[Any]) -> Any:
    jsonpatch.JsonPatch(patch)  # malformed ones are found before any is applied
    copied = 0
    for operation in patch:
        for name in ("path", "from"):
            _check_depth(operation.get(name))
        if operation["op"] == "copy" and isinstance(operation.get("from"), str):
            source = jsonpointer.resolve_pointer(target, operation["from"])
            encoded = msgspec.json.encode(source)
            copied += len(encoded)
            if copied > MAX_COPIED:
                raise _copies_too_much(copied)
            value = msgspec.json.decode(encoded)
            operation = {"op": "add", "path": operation["path"], "value": value}
        target = jsonpatch.JsonPatch([operation]).apply(target, in_place=True)
    return target


def _check_depth(pointer: Any) -> None:
    if isinstance(pointer, str) and pointer.count("/") > MAX_DEPTH:
        raise Invalid(f"a path of the JSON patch is more than {MAX_DEPTH} levels deep")


def _copies_too_much(copied: int) -> BadRequest:
    """Make the error for too large copies. As upstream: jsonpatch.AccumulatedCopySizeError."""
    return BadRequest(
        "Unable to complete the copy, the accumulated size increase of copy is "
        f"{copied}, exceeding the limit {MAX_COPIED}",
        reason="RequestEntityTooLarge",
        code=413,
    )


def _short(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
