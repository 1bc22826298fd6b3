"""The API server as a process of its own, so that an attack may end it and not the tests.

Run with a folder, where it leaves its port and the tokens of two accounts: `pod` may do nothing but
ask who it is, as any pod may; `small` administers the namespaces `small` and `audited`. Records of
what goes on in the latter are full, of what goes on elsewhere brief.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from orlop import pki
from orlop.api import kinds
from orlop.api.objects import Key
from orlop.apiserver import ApiServer, ServerOptions
from orlop.apiserver.audit import Auditor
from orlop.apiserver.audit.log import AuditLog
from orlop.apiserver.audit.policy import AuditPolicy, AuditRule, Level
from orlop.client.api import Api
from orlop.jwt import SigningKey
from orlop.store import Store

NAMESPACE, AUDITED = "small", "audited"
ACCOUNTS = ("pod", "small")


async def serve(folder: Path) -> None:
    authority = pki.ensure(folder / "pki", ["localhost", "127.0.0.1"])
    store = await Store.open(folder / "state.db")
    in_full = AuditRule(level=Level.REQUEST_RESPONSE.word, namespaces=[AUDITED])
    policy = AuditPolicy(rules=[in_full, AuditRule(level=Level.METADATA.word)])
    server = ApiServer(
        store,
        tls=authority.server_context(authority.apiserver),
        signing_key=SigningKey.from_pem(authority.service_account_key),
        options=ServerOptions(auditor=Auditor(policy, AuditLog(folder / "audit.log"))),
    )
    port = await server.start("127.0.0.1", 0)
    admin = server.client("system:test", ["system:masters"])
    await _accounts(admin)
    tokens = {name: await _token(admin, name) for name in ACCOUNTS}
    ready = folder / "ready"
    ready.write_text(json.dumps({"port": port, "tokens": tokens}))
    ready.rename(folder / "ready.json")
    await asyncio.Event().wait()


async def _accounts(admin: Api) -> None:
    for namespace in (NAMESPACE, AUDITED):
        await admin.create(kinds.NAMESPACE, {"metadata": {"name": namespace}})
    for name in ACCOUNTS:
        metadata = {"name": name, "namespace": NAMESPACE}
        await admin.create(kinds.SERVICE_ACCOUNT, {"metadata": metadata})
    for namespace in (NAMESPACE, AUDITED):
        binding = {
            "metadata": {"name": "small", "namespace": namespace},
            "roleRef": {"apiGroup": kinds.ROLE.group, "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "small", "namespace": NAMESPACE}],
        }
        await admin.create(kinds.ROLE_BINDING, binding)


async def _token(admin: Api, name: str) -> str:
    made = await admin.create_subresource(
        kinds.SERVICE_ACCOUNT, Key(NAMESPACE, name), "token", {"spec": {}}
    )
    token: str = made["status"]["token"]
    return token


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
