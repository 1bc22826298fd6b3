"""Leads an authorized request on a resource to its verb, and makes an answer of the result.

Called by the handler. Each method is one verb: read the options, call the verb, render the result;
none of them knows who may call it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from aiohttp import web
from multidict import MultiDict, MultiMapping

from ...api.kinds import Kind, subresource
from ...api.schema.strict import duplicate_fields
from ..audit import ANNOTATIONS
from ..auth.access_reviews import Reviews
from ..auth.authentication import User
from ..auth.authorization import Authorizer
from ..discovery.documents import CONNECT, SERVED_SUBRESOURCES
from ..objects import virtual_kinds
from ..objects.conversion import bucket_of, ready
from ..proxy.kubelet_dialer import KubeletClient
from ..registry import Call, Registry
from ..subresources.approval import patch_approval, update_approval
from ..subresources.binding import bind
from ..subresources.connect import connect
from ..subresources.ephemeralcontainers import patch_ephemeral, update_ephemeral
from ..subresources.eviction import evict
from ..subresources.finalize import finalize
from ..subresources.log import open_log
from ..subresources.proxy import Proxies
from ..subresources.resize import refuse_resize
from ..subresources.scale import apply_scale, get_scale, patch_scale, update_scale
from ..subresources.token import request_token
from ..verbs.apply import apply
from ..verbs.create import create
from ..verbs.delete import delete, options_from, returns_object, status_of
from ..verbs.deletecollection import deletecollection
from ..verbs.get import get
from ..verbs.list import list_
from ..verbs.patch import APPLY, MEDIA_TYPES, patch
from ..verbs.update import update
from ..verbs.watch import watch
from . import options
from .body import apply_body, decode_json, media_type_of
from .failures import method_not_supported, no_such_path, unsupported_media_type
from .http import answer, answer_pieces, read, read_object
from .negotiation import PLAIN, Form, form_of
from .offload import beside_the_loop
from .render import Renderer, value
from .requestinfo import RequestInfo, flag
from .streams import copy_log, watch_over_http, watch_over_websocket

_REVIEW_GROUPS = ("authentication.k8s.io", "authorization.k8s.io")
_WATCH_TIMEOUT = (1800.0, 3600.0)  # seconds, where the client names none: spread, as upstream's
_PROXIED = ("get", "create", "update", "patch", "delete", "options")
_Answer = Awaitable[web.StreamResponse]


class Dispatcher:
    def __init__(
        self,
        registry: Registry,
        authorizer: Authorizer,
        reviews: Reviews,
        kubelet: KubeletClient,
        proxies: Proxies,
    ) -> None:
        self._registry = registry
        self._authorizer = authorizer
        self._reviews = reviews
        self._kubelet = kubelet
        self._proxies = proxies
        self._verbs: dict[str, Callable[[web.BaseRequest, Call], _Answer]] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._deletecollection,
        }
        self._subresources: dict[tuple[str, str], Callable[[web.BaseRequest, Call], _Answer]] = {
            ("status", "get"): self._get,
            ("status", "update"): self._update,
            ("status", "patch"): self._patch,
            ("scale", "get"): self._get_scale,
            ("scale", "update"): self._update_scale,
            ("scale", "patch"): self._patch_scale,
            ("binding", "create"): self._bind,
            ("eviction", "create"): self._evict,
            ("finalize", "update"): self._finalize,
            ("log", "get"): self._log,
            ("token", "create"): self._token,
            ("approval", "get"): self._get,
            ("approval", "update"): self._update_approval,
            ("approval", "patch"): self._patch_approval,
            ("ephemeralcontainers", "get"): self._get,
            ("ephemeralcontainers", "update"): self._update_ephemeral,
            ("ephemeralcontainers", "patch"): self._patch_ephemeral,
            ("resize", "get"): self._get,
            ("resize", "update"): self._resize,
            ("resize", "patch"): self._resize,
            **{(name, verb): self._connect for name in CONNECT for verb in ("get", "create")},
            **{("proxy", verb): self._proxies.serve for verb in _PROXIED},
        }

    async def serve(
        self, request: web.BaseRequest, info: RequestInfo, user: User, kind: Kind
    ) -> web.StreamResponse:
        """Answer a request whose verb and kind are known and allowed."""
        serve = self._method(info, kind)
        query: MultiMapping[str] = request.query
        is_apply = _is_apply(request)
        if info.subresource == "proxy":  # its query is the far side's business
            query, is_apply = MultiDict(), False
        call = Call(
            user,
            kind,
            namespace=info.namespace if kind.namespaced else "",
            name=info.name,
            subresource=info.subresource,
            prefix=info.prefix,
            beyond=info.beyond,
            dry_run=options.dry_run(query),
            field_manager=options.field_manager(query, info.verb, is_apply=is_apply),
            user_agent=request.headers.get("User-Agent", ""),
            field_validation=options.field_validation(query),
            authorize_create=lambda: self._authorizer.check(
                user, replace(info, verb="create"), kind
            ),
        )
        request[ANNOTATIONS] = call.annotations
        if info.verb == "patch":
            call.options = {"kind": "PatchOptions", "force": flag(query, "force") or None}
        if "fieldValidation" in query:
            call.options["fieldValidation"] = call.field_validation
        if kind.custom is not None and kind.custom.warning:
            call.warnings.append(kind.custom.warning)
        return await serve(request, call)

    def _method(self, info: RequestInfo, kind: Kind) -> Callable[[web.BaseRequest, Call], _Answer]:
        if not _is_in_its_place(info, kind):
            raise no_such_path()
        if info.subresource:
            facts = subresource(kind, info.subresource)
            if facts is None or facts.name not in SERVED_SUBRESOURCES:
                raise no_such_path()
            if info.rest and facts.name != "proxy":
                raise no_such_path()
            method = self._subresources.get((facts.name, info.verb))
        elif info.verb in kind.verbs:
            method = self._special(kind, info.verb) or self._verbs.get(info.verb)
        else:
            method = None
        if method is None:
            raise method_not_supported(kind, info.verb)
        return method

    def _special(self, kind: Kind, verb: str) -> Callable[[web.BaseRequest, Call], _Answer] | None:
        if kind.group in _REVIEW_GROUPS:
            return self._review
        source = virtual_kinds.source_of(self._registry, kind)
        if source is not None:
            compute = self._get_virtual if verb == "get" else self._list_virtual
            return partial(compute, source)
        return self._bind if (kind.group, kind.plural) == ("", "bindings") else None

    # Reading

    async def _get(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        renderer = self._renderer(request, call)
        version = request.query.get("resourceVersion", "")
        record = get(self._registry, call, resource_version=version)
        data = await renderer.ready(record)
        return answer(data, renderer.form.media_type, warnings=call.warnings)

    async def _list(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        renderer = self._renderer(request, call)
        await self._ready(call)
        page = list_(self._registry, call, options.list_options(call.kind, request.query))
        pieces, media_type = await renderer.page(page), renderer.form.media_type
        return await answer_pieces(request, pieces, media_type, warnings=call.warnings)

    async def _get_virtual(
        self, source: virtual_kinds.Source, request: web.BaseRequest, call: Call
    ) -> web.StreamResponse:
        renderer = self._renderer(request, call)
        record = await virtual_kinds.get(source, call)
        return answer(renderer.one(record), renderer.form.media_type)

    async def _list_virtual(
        self, source: virtual_kinds.Source, request: web.BaseRequest, call: Call
    ) -> web.StreamResponse:
        renderer = self._renderer(request, call)
        wanted = options.list_options(call.kind, request.query)
        page = await virtual_kinds.list_(source, call, wanted)
        return await answer_pieces(request, await renderer.page(page), renderer.form.media_type)

    async def _watch(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        renderer = self._renderer(request, call)
        wanted = options.watch_options(call.kind, request.query, call.name)
        if wanted.timeout is None:
            wanted = options.with_timeout(wanted, self._registry.rng.uniform(*_WATCH_TIMEOUT))
        batches = watch(self._registry, call, wanted)
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await watch_over_websocket(request, batches, renderer)
        return await watch_over_http(request, batches, renderer)

    # Writing

    async def _create(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        renderer = self._renderer(request, call)
        body = await self._object(request, call)
        record = await create(self._registry, call, body)
        form = renderer.form
        return answer(
            await renderer.ready(record), form.media_type, code=201, warnings=call.warnings
        )

    async def _update(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        renderer = self._renderer(request, call)
        body = await self._object(request, call)
        record = await update(self._registry, call, body)
        return answer(
            await renderer.ready(record), renderer.form.media_type, warnings=call.warnings
        )

    async def _patch(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        if _is_apply(request):
            return await self._apply(request, call)
        renderer = self._renderer(request, call)
        media_type, body = await self._patch_body(request)
        record = await patch(self._registry, call, media_type, body)
        return answer(
            await renderer.ready(record), renderer.form.media_type, warnings=call.warnings
        )

    async def _apply(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        renderer = self._renderer(request, call)
        config = await self._configuration(request, call)
        done = await apply(self._registry, call, config, force=flag(request.query, "force"))
        code = 201 if done.is_new else 200
        media_type = renderer.form.media_type
        body = await renderer.ready(done.record)
        return answer(body, media_type, code=code, warnings=call.warnings)

    async def _delete(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        renderer = self._renderer(request, call)
        wanted = options_from(await self._optional(request))
        call.dry_run = call.dry_run or wanted.dry_run
        deleted = await delete(self._registry, call, options.delete_options(wanted, request.query))
        if returns_object(call, deleted):
            return answer(await renderer.ready(deleted.record), renderer.form.media_type)
        return self._plain(request, status_of(call, deleted))

    async def _deletecollection(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        renderer = self._renderer(request, call)
        wanted = options_from(await self._optional(request))
        call.dry_run = call.dry_run or wanted.dry_run
        which = options.list_options(call.kind, request.query)
        await self._ready(call)
        wanted = options.delete_options(wanted, request.query)
        page = await deletecollection(self._registry, call, wanted, which)
        return await answer_pieces(request, await renderer.page(page), renderer.form.media_type)

    async def _review(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        review = await self._reviews.answer(call, await read_object(request))
        return self._plain(request, review, code=201)

    # Subresources

    async def _get_scale(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        return self._plain(request, await get_scale(self._registry, call))

    async def _update_scale(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        body = await read_object(request)
        return self._plain(request, await update_scale(self._registry, call, body))

    async def _patch_scale(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        if _is_apply(request):
            config, force = await self._configuration(request, call), flag(request.query, "force")
            scale = await apply_scale(self._registry, call, config, force=force)
            return self._plain(request, scale)
        media_type, body = await self._patch_body(request)
        return self._plain(request, await patch_scale(self._registry, call, media_type, body))

    async def _bind(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        body = await read_object(request)
        return self._plain(request, await bind(self._registry, call, body), code=201)

    async def _evict(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        body = await read_object(request)
        return self._plain(request, await evict(self._registry, call, body), code=201)

    async def _token(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        body = await read_object(request)
        return self._plain(request, await request_token(self._registry, call, body), code=201)

    async def _update_ephemeral(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        renderer = self._renderer(request, call)
        record = await update_ephemeral(self._registry, call, await self._object(request, call))
        return answer(renderer.one(record), renderer.form.media_type, warnings=call.warnings)

    async def _patch_ephemeral(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        if _is_apply(request):
            raise unsupported_media_type(list(MEDIA_TYPES.values()))
        renderer = self._renderer(request, call)
        media_type, body = await self._patch_body(request)
        record = await patch_ephemeral(self._registry, call, media_type, body)
        return answer(renderer.one(record), renderer.form.media_type, warnings=call.warnings)

    async def _resize(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        raise refuse_resize(self._registry, call)

    async def _update_approval(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        renderer = self._renderer(request, call)
        record = await update_approval(self._registry, call, await read_object(request))
        return answer(renderer.one(record), renderer.form.media_type)

    async def _patch_approval(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        renderer = self._renderer(request, call)
        media_type, body = await self._patch_body(request)
        record = await patch_approval(self._registry, call, media_type, body)
        return answer(renderer.one(record), renderer.form.media_type)

    async def _finalize(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        renderer = self._renderer(request, call)
        record = await finalize(self._registry, call, await read_object(request))
        return answer(await renderer.ready(record), renderer.form.media_type)

    async def _log(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        async with open_log(self._registry, call, self._kubelet, request.query) as source:
            return await copy_log(request, source)

    async def _connect(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        call.authorize_create()  # WebSockets begin with a GET, and `get` is for those who only look
        return await connect(self._registry, call, self._kubelet, request)

    # What they share

    async def _ready(self, call: Call) -> None:
        """Convert a collection to the version asked for: selectors see that version, too."""
        if call.kind.custom is not None:
            bucket = bucket_of(call.kind)
            await ready(call.kind, self._registry.store.list(bucket, call.namespace).records)

    def _renderer(self, request: web.BaseRequest, call: Call) -> Renderer:
        form = form_of(request.headers.get("Accept", ""))
        include = request.query.get("includeObject", "")
        return Renderer(call.kind, form, now=self._registry.now(), include=include)

    def _plain(self, request: web.BaseRequest, obj: object, *, code: int = 200) -> web.Response:
        form = form_of(request.headers.get("Accept", ""))
        form = Form("application/yaml") if form.is_yaml else PLAIN
        return answer(value(form, obj), form.media_type, code=code)

    async def _object(self, request: web.BaseRequest, call: Call) -> object:
        body = await read_object(request)
        is_json = media_type_of(request.headers.get("Content-Type", "")) in ("", "application/json")
        if is_json and call.field_validation != "Ignore":
            data = await request.read()
            call.duplicates = await beside_the_loop(
                request, len(data), lambda: duplicate_fields(data)
            )
        return body

    async def _patch_body(self, request: web.BaseRequest) -> tuple[str, object]:
        media_type = media_type_of(request.headers.get("Content-Type", ""))
        if media_type not in MEDIA_TYPES.values():
            raise unsupported_media_type([*MEDIA_TYPES.values(), APPLY])
        data = await read(request)
        return media_type, await beside_the_loop(request, len(data), lambda: decode_json(data))

    async def _configuration(self, request: web.BaseRequest, call: Call) -> object:
        """Read the body of an apply patch: YAML, which JSON is too."""
        data = await read(request)
        config, duplicates = await beside_the_loop(request, len(data), lambda: apply_body(data))
        call.duplicates = duplicates
        return config

    async def _optional(self, request: web.BaseRequest) -> object:
        data = await read(request)
        return await read_object(request) if data.strip() else None


def _is_in_its_place(info: RequestInfo, kind: Kind) -> bool:
    """Return whether such a kind is found below such a path.

    What is authorized within a namespace has to be of that namespace.
    """
    if kind.namespaced:
        return bool(info.namespace) or info.verb in ("list", "watch")
    is_namespace = (kind.group, kind.plural) == ("", "namespaces")  # it is below itself
    return not info.namespace or (is_namespace and info.namespace == info.name)


def _is_apply(request: web.BaseRequest) -> bool:
    if request.method != "PATCH":
        return False
    return media_type_of(request.headers.get("Content-Type", "")) == APPLY
