"""A registry that misbehaves on demand, for what a real one cannot be made to do.

It serves one image; tests give it logins to ask for, failures to answer with and bytes to change.
"""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any, Self

from aiohttp import web

from tests.cluster.oci import Image, Index, LayerBuilder, digest

TOKEN = "a-token"


class StandIn:
    def __init__(self, image: Image | Index | None = None) -> None:
        self.image = image or Image((LayerBuilder().file("a", "A").build(),), {"Cmd": ["a"]})
        self.login = ""  # "", basic, bearer, or bearer-always (also for the anonymous)
        self.failures: list[int] = []  # statuses to answer with before anything else
        self.headers: dict[str, str] = {}
        self.spoiled = False  # send other bytes than the digest says
        self.spoiled_once = False
        self.redirect = ""
        self.requests: list[str] = []
        self.seen: Counter[str] = Counter()
        self.address = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/token", self._token)
        app.router.add_post("/token", self._token)
        app.router.add_get("/v2/{name:.+}/manifests/{wanted}", self._manifest)
        app.router.add_get("/v2/{name:.+}/blobs/{digest}", self._blob)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def _images(self) -> list[Image]:
        return list(self.image.images.values()) if isinstance(self.image, Index) else [self.image]

    async def _token(self, request: web.Request) -> web.Response:
        self.requests.append(f"token {request.query_string}")
        allowed = "ann:s3cret"
        if request.method == "POST":
            form = await request.post()
            given = "ann:s3cret" if form.get("refresh_token") == "identity" else ""
        else:
            given = _decoded(request.headers.get("Authorization", ""))
        if given != allowed and self.login != "bearer-always":
            return web.json_response({"details": "no"}, status=401)
        return web.json_response({"token": TOKEN})

    def _refusal(self, request: web.Request) -> web.Response | None:
        self.requests.append(request.path)
        self.seen[request.headers.get("Authorization", "none").split()[0]] += 1
        if self.failures:
            body = {"errors": [{"code": "X", "message": "told by the registry"}]}
            return web.json_response(body, status=self.failures.pop(0), headers=self.headers)
        given = request.headers.get("Authorization", "")
        if self.login == "basic" and _decoded(given) != "ann:s3cret":
            return self._unauthorized('Basic realm="registry"')
        if self.login.startswith("bearer") and given != f"Bearer {TOKEN}":
            realm = f'Bearer realm="http://{self.address}/token",service="stand-in"'
            return self._unauthorized(realm + ',scope="repository:app:pull"')
        return None

    def _unauthorized(self, challenge: str) -> web.Response:
        return web.json_response({}, status=401, headers={"WWW-Authenticate": challenge})

    async def _manifest(self, request: web.Request) -> web.StreamResponse:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        wanted = request.match_info["wanted"]
        known: dict[str, Any] = {digest(i.manifest()): i for i in [self.image, *self._images()]}
        known["latest"] = self.image
        if wanted not in known:
            return web.json_response({"errors": [{"code": "MANIFEST_UNKNOWN"}]}, status=404)
        data = known[wanted].manifest()
        return web.Response(body=data + b" " * self.spoiled, content_type=known[wanted].media_type)

    async def _blob(self, request: web.Request) -> web.StreamResponse:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        if self.redirect:
            raise web.HTTPTemporaryRedirect(f"http://{self.redirect}{request.path}")
        blobs = {digest(blob): blob for image in self._images() for blob in image.blobs()}
        data = blobs[request.match_info["digest"]]
        if self.spoiled_once:
            self.spoiled_once = False
            data = b"x" * len(data)
        return web.Response(body=data)


def _decoded(header: str) -> str:
    scheme, _, text = header.partition(" ")
    return base64.b64decode(text).decode() if scheme == "Basic" else ""
