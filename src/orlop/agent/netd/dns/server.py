"""Serves the pod's DNS: the cluster's names from the endpoint cache, all others from DNS servers.

Runs in netd on a private address; what the pod sends to the cluster's name server is directed
there, and other clients get no answer. A question that can be answered from memory is answered at
once, any other by a thread of its own, so that none waits for another.
"""

from __future__ import annotations

import random
import socket
import struct
import threading

from ..endpoint_cache import EndpointCache, Unknown
from . import packets
from .cluster_names import Zone
from .packets import Malformed, Question, Record
from .upstream_servers import Upstream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Admits = Callable[[str, tuple[str, int], tuple[str, int]], bool]

TTL = 5
WORKERS = 64  # questions that wait for somebody else at the same time
IDLE = 10.0  # seconds that a TCP connection may be silent
MAX_CHASE = 8  # names that lead to names
REMEMBERED = 2048
# The same for each network process of a pod: who asked the last one asks the next one again.
PREFERRED = 64511


class DnsServer:
    """The server: `answer` does the work; `serve` answers packets that arrive at an address.

    `admits` is asked about each client, by protocol, its address and ours.
    """

    def __init__(self, endpoints: EndpointCache, network: dict[str, Any], admits: Admits) -> None:
        self._admits = admits
        dns = network.get("dns") or {}
        self._endpoints = endpoints
        self._zone = Zone(dns.get("domain") or "cluster.local", endpoints)
        self._upstream = Upstream(dns.get("upstream") or [], dns.get("stubs") or {})
        self._workers = threading.BoundedSemaphore(WORKERS)
        # What was answered to the very same bytes: the name's key, its records, the answer.
        self._quick: dict[bytes, tuple[str, Any, bytes]] = {}
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    # Answers

    def answer(self, packet: bytes, tcp: bool = False) -> bytes:
        """Answer a query, waiting where somebody else must be asked; empty: no answer."""
        try:
            question = packets.parse(packet)
        except Malformed:
            return packets.refusal(packet, packets.FORMERR)
        if question.flags & 0x7800:
            return packets.refusal(packet, packets.NOTIMP)
        limit = 0 if tcp else question.size
        if not self._zone.has(question.name) or question.cls != packets.IN:
            return self._upstream.ask(packet, question.name, tcp) or packets.answer(
                question, packets.SERVFAIL
            )
        try:
            records = self._zone.records(question.name)
        except Unknown:
            return packets.answer(question, packets.SERVFAIL)
        return self._of_cluster(packet, question, records, limit)

    def _of_cluster(
        self, packet: bytes, question: Question, records: dict[str, Any] | None, limit: int
    ) -> bytes:
        soa = packets.authority(self._zone.domain, TTL)
        if records is None:
            made = packets.answer(question, packets.NXDOMAIN, (), [soa], limit=limit)
        else:
            found, extra = self._found(question, records)
            authority = [] if found else [soa]
            made = packets.answer(question, 0, found, authority, extra, limit=limit)
        if limit and _is_always_the_same(records):
            self._remember(packet, question.name, records, made)
        return made

    def _found(
        self, question: Question, records: dict[str, Any]
    ) -> tuple[list[Record], list[Record]]:
        if records.get("CNAME"):
            return self._chased(question, records["CNAME"]), []
        kinds = [question.type] if question.type != packets.ANY else list(_MAKERS)
        ttl = int(records.get("ttl") or TTL)
        found: list[Record] = []
        for kind in kinds:
            if kind in _MAKERS:
                word, make = _MAKERS[kind]
                some = [
                    Record(question.name, kind, ttl, make(one)) for one in records.get(word, ())
                ]
                random.shuffle(some)
                found += some
        extra = []
        if question.type == packets.SRV:
            for target, addresses in (records.get("glue") or {}).items():
                extra += [_address(target, ttl, ip) for ip in addresses]
        return found, extra

    def _chased(self, question: Question, target: str) -> list[Record]:
        """Follow a name that stands for another: return that record, and those of the other one."""
        found = [Record(question.name, packets.CNAME, TTL, packets.encoded(target))]
        if question.type in (packets.A, packets.AAAA) and self._zone.depth < MAX_CHASE:
            with self._zone.deeper():
                answered = self.answer(packets.query(question, target), tcp=True)
            try:
                found += packets.addresses_in(answered)
            except Malformed:
                pass  # the name is there; what it leads to is not
        return found

    # From memory

    def _remember(self, packet: bytes, name: str, records: Any, made: bytes) -> None:
        if len(self._quick) >= REMEMBERED:
            self._quick.clear()
        self._quick[packet[2:]] = (f"name/{name}", records, made[2:])

    def _from_memory(self, packet: bytes) -> bytes:
        """Return the answer, if the same was asked before and nothing has changed; else empty."""
        known = self._quick.get(packet[2:])
        if known is None:
            return b""
        key, records, made = known
        return packet[:2] + made if self._endpoints.is_still(key, records) else b""

    def _is_at_hand(self, packet: bytes) -> bool:
        """Return whether it can be answered without waiting for anybody."""
        try:
            name = packets.parse(packet).name
            return self._zone.has(name) and self._zone.is_at_hand(name)
        except Malformed:
            return True

    # Serving

    def serve(self, address: str, port: int = 0) -> int:
        """Answer what arrives there over UDP and TCP from now on; return the port."""
        for wanted in [port] if port else [PREFERRED, *([0] * 50)]:
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((address, wanted))
                datagrams.bind((address, listener.getsockname()[1]))
                listener.listen(64)
                break
            except OSError:
                listener.close()
                datagrams.close()
        else:
            raise OSError(f"no port of {address} is free for TCP and UDP")
        self._sockets += [datagrams, listener]
        for work, sock in ((self._serve_udp, datagrams), (self._serve_tcp, listener)):
            thread = threading.Thread(target=work, args=(sock,), name="dns", daemon=True)
            thread.start()
            self._threads.append(thread)
        return int(listener.getsockname()[1])

    def close(self) -> None:
        """Stop serving; the ports are free afterwards."""
        for sock in self._sockets:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # wakes a thread that waits in recvfrom, and fails as it should
            sock.close()
        for thread in self._threads:  # a port is free only once nobody waits for it any more
            thread.join(1.0)

    def _serve_udp(self, sock: socket.socket) -> None:
        while True:
            try:
                packet, client = sock.recvfrom(65535)
            except OSError:
                return
            if not client:
                return  # closed
            if not self._admits("udp", client, sock.getsockname()):
                continue
            quick = self._from_memory(packet)
            if quick:
                _send(sock, quick, client)
            elif self._is_at_hand(packet):
                self._answer_udp(sock, packet, client)
            else:
                self._spawn(self._answer_udp, sock, packet, client)

    def _spawn(self, work: Any, *args: Any) -> None:
        """Do the work in a thread, unless too many wait already: then the client asks again."""
        if self._workers.acquire(blocking=False):
            threading.Thread(target=self._worked, args=(work, *args), daemon=True).start()

    def _worked(self, work: Any, *args: Any) -> None:
        try:
            work(*args)
        finally:
            self._workers.release()

    def _answer_udp(self, sock: socket.socket, packet: bytes, client: Any) -> None:
        made = self.answer(packet)
        if made:
            _send(sock, made, client)

    def _serve_tcp(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, client = listener.accept()
            except OSError:
                return
            if self._admits("tcp", client, listener.getsockname()):
                self._spawn(self._converse, connection)
            else:
                connection.close()

    def _converse(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(IDLE)
            try:
                while True:
                    head = _exactly(connection, 2)
                    packet = _exactly(connection, struct.unpack(">H", head)[0])
                    made = self._answer_tcp(packet)
                    connection.sendall(struct.pack(">H", len(made)) + made)
            except (OSError, EOFError):
                pass

    def _answer_tcp(self, packet: bytes) -> bytes:
        made = self.answer(packet, tcp=True)
        if not made:
            raise EOFError("not a query")
        return made


def _is_always_the_same(records: dict[str, Any] | None) -> bool:
    """Return whether the records come in one order for ever.

    Several addresses come in another order each time; another name may change by itself.
    """
    return records is None or (len(records.get("A") or ()) < 2 and "CNAME" not in records)


def _send(sock: socket.socket, made: bytes, client: Any) -> None:
    try:
        sock.sendto(made, client)
    except OSError:
        pass  # nobody waits for it any more


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _address(name: str, ttl: int, ip: str) -> Record:
    if ":" in ip:
        return Record(name, packets.AAAA, ttl, packets.address6(ip))
    return Record(name, packets.A, ttl, packets.address4(ip))


_MAKERS: dict[int, tuple[str, Any]] = {
    packets.A: ("A", packets.address4),
    packets.AAAA: ("AAAA", packets.address6),
    packets.SRV: ("SRV", lambda one: packets.service(*one)),
    packets.PTR: ("PTR", packets.encoded),
    packets.TXT: ("TXT", packets.text),
}
