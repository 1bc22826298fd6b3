"""Webhooks that want to harm who asks them: answers that are endless, swollen, deep or nonsense."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from orlop.apiserver.proxy.foreign_answers import MAX_ANSWER
from tests.apiserver.conftest import Http

from .conftest import Hook, Obj, add, configure, patch

PATH = "/api/v1/namespaces/default/pods"
MIB = 1 << 20


def _status(**status: Any) -> Callable[[Obj], Obj]:
    return lambda request: {"allowed": False, "status": status}


REFUSALS: list[tuple[Callable[[Obj], Obj], int]] = [
    (_status(code=99_999, message="a"), 400),
    (_status(code=True), 400),
    (_status(code="403"), 400),
    (_status(details=["a"]), 400),
    (_status(details={"retryAfterSeconds": "1\r\nSet-Cookie: a=b"}), 400),
    (_status(reason="a\r\nb", message="x" * MIB), 400),
    (_status(reason={"a": 1}, message=[["a"]]), 400),
    (lambda request: {"allowed": "yes"}, 400),
]


@pytest.mark.parametrize(("answer", "code"), REFUSALS, ids=range(len(REFUSALS)))
async def test_a_refusal_of_any_shape_is_one(http: Http, hook: Hook, pod, answer, code) -> None:
    hook.answer = answer
    await configure(http, "mutating", hook.config())
    reply = await http("POST", PATH, pod())
    assert reply.code == code, reply.text[:300]
    assert "Set-Cookie" not in reply.headers
    assert len(reply.text) < 50_000


def _deep(levels: int) -> bytes:
    return b'{"response":' + b"[" * levels + b"]" * levels + b"}"


async def _endless(request: web.BaseRequest) -> AsyncIterator[bytes]:
    while True:
        yield b" " * 65536
        await asyncio.sleep(0)


BODIES: list[tuple[dict[str, Any], str]] = [
    ({"body": _deep(100_000)}, "nested more than"),
    ({"body": _deep(500)}, "nested more than"),
    ({"body": b'{"response":' + b"[{}," * 10 + b"{}," * 3_000_000 + b"1]}"}, "values"),
    ({"body": b"\xff" * 1_000}, "json parse error"),
    ({"body": gzip.compress(b" " * (100 * MIB)), "headers": {"Content-Encoding": "gzip"}},
     "more than"),
    ({"body": b" " * (66 * MIB)}, "more than"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "why"), BODIES, ids=[why + str(n) for n, (_, why)
                                                       in enumerate(BODIES)])  # fmt: skip
async def test_an_answer_that_is_too_much_is_not_read_to_its_end(
    http: Http, hook: Hook, pod, made, why
) -> None:
    hook.reply = lambda review: web.Response(**made)
    await configure(http, "mutating", hook.config(timeoutSeconds=30))
    begun = time.monotonic()
    reply = await http("POST", PATH, pod())
    assert reply.code == 500
    assert why in reply.json["message"], reply.json["message"][:500]
    assert time.monotonic() - begun < 20


async def test_an_answer_that_never_ends_ends_at_the_bound(http: Http, hook: Hook, pod) -> None:
    hook.reply = lambda review: web.Response(body=_endless(None))  # type: ignore[arg-type]
    await configure(http, "mutating", hook.config(timeoutSeconds=20))
    reply = await http("POST", PATH, pod())
    assert f"more than {MAX_ANSWER} bytes" in reply.json["message"]


def _encoded(operations: bytes) -> Callable[[Obj], Obj]:
    data = base64.b64encode(operations).decode()
    return lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": data}


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


PATCHES: list[tuple[Callable[[Obj], Obj], str]] = [
    (_encoded(b"[" * 500 + b"]" * 500), "nested more than"),
    (lambda request: patch(*[{"op": "copy", "from": "/spec", "path": f"/spec/a{n}"}
                             for n in range(40)]), "accumulated size"),
    (lambda request: patch(add("/spec/a", _nested(150)), {
        "op": "move", "from": "/spec/a", "path": "/metadata/annotations"}), ""),
    (lambda request: patch(*[add("/spec" + "/a" * n, {}) for n in range(1, 150)],
                           {"op": "copy", "from": "/spec", "path": "/spec" + "/a" * 149}),
     "nested more than"),
    (lambda request: patch(add("/spec/containers", [{}] * 90_000)), ""),
    (lambda request: patch(*[{"op": "add", "path": "/spec/containers/-", "value": {}}] * 10_001),
     "the allowed maximum operations"),
    (_encoded(json.dumps([{"op": "add", "path": "/a" * 10_000, "value": 1}]).encode()),
     "more than 200 levels"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "why"), PATCHES, ids=range(len(PATCHES)))
async def test_a_patch_of_a_webhook_has_the_bounds_of_anybodys(
    http: Http, hook: Hook, pod, answer, why
) -> None:
    hook.answer = answer
    await configure(http, "mutating", hook.config())
    reply = await http("POST", PATH, pod())
    assert reply.code >= 400
    assert why in reply.json["message"], reply.json["message"][:500]
    assert "see the control plane's log" not in reply.json["message"]
    assert len(reply.text) < 200_000
