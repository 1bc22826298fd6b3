"""Encodes how a remote command ended, in the form clients expect: a metav1.Status, or plain words.

Written to the error stream or channel at the end. As apimachinery's and cri-streaming's: kubectl
takes its own exit code from it.
"""

from __future__ import annotations

import msgspec

from ....api.objects import Obj


def of_exit(code: int) -> Obj:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def of_error(words: str) -> Obj:
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {words}",
        "reason": "InternalError",
        "details": {"causes": [{"message": words}]},
        "code": 500,
    }


def encode(status: Obj, *, is_json: bool) -> bytes:
    """Encode a status: for protocols from v4 on JSON, whatever it says; before that words, and none
    for success.
    """
    if is_json:
        return msgspec.json.encode(status)
    return b"" if status["status"] == "Success" else str(status["message"]).encode()
