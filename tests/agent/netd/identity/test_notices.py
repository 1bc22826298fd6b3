"""Notices between netds: who may speak for a socket, for whom, and for how long."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from orlop.agent.netd.identity import notices as module
from orlop.agent.netd.identity.notices import ACK, Notice, Notices
from orlop.agent.netd.sockets import socket_calls
from orlop.agent.netd.sockets.sockaddr import AF_INET, Address, number
from orlop.agent.netd.tcp.decisions import MAX_UNREAD, TOLERANCE

from ..neighbourhood import other_netd

KEY = "ab" * 32
HERE = number("127.0.0.1")


@contextlib.contextmanager
def netd(ip: str, key: str = KEY) -> Iterator[Notices]:
    """A netd on this node that remembers whom it was told of."""
    with other_netd(ip, "127.0.0.1", key) as found:
        found.known = {}
        found.identify = found.known.__setitem__
        yield found


@pytest.fixture
def server():
    with netd("10.244.0.2") as made:
        yield made


@pytest.fixture
def client():
    with netd("10.244.0.1") as made:
        yield made


@pytest.fixture
def listener(server):
    """A port of the server's pod, 80, at a real one."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        real = found.getsockname()[1]
        server.given = lambda protocol, at: Address(AF_INET, at.ip, 80) if at.port == real else None
        yield found


@pytest.fixture
def connection(listener):
    with socket.create_connection(listener.getsockname()) as found:
        yield found


def notice_of(connection, listener, to: str = "10.244.0.2", port: int = 80, real: int = 0) -> bytes:
    own = Address(AF_INET, HERE, connection.getsockname()[1])
    far = (number(to), port, real or listener.getsockname()[1])
    with netd("10.244.0.1") as client:
        return client.notice("tcp", (own, 40000), far, socket_calls.cookie(connection.fileno()))


def tell(
    server: Notices,
    notice: bytes,
    change: Callable[[bytes], bytes] = lambda raw: raw,
    key: str = KEY,
    port: int = 0,
) -> None:
    """Send it, signed for the server's port or another."""
    raw = change(module.signed(bytes.fromhex(key), notice, port or server.port))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(raw, ("127.0.0.1", server.port))
    time.sleep(0.01)
    server.read()


def accepted_as(server, listener) -> Address | None:
    """Whom the next connection is known as."""
    taken, _ = listener.accept()
    with taken:
        return server.known.get(socket_calls.cookie(taken.fileno()))


def test_a_connection_is_who_its_netd_says(server, listener, connection):
    tell(server, notice_of(connection, listener))
    assert accepted_as(server, listener) == Address(AF_INET, number("10.244.0.1"), 40000)


def test_a_connection_that_is_accepted_already_is_known_as_well(server, listener, connection):
    taken, _ = listener.accept()
    with taken:
        tell(server, notice_of(connection, listener))
        assert socket_calls.cookie(taken.fileno()) in server.known


def test_one_whose_handshake_is_not_over_is_known_when_it_is(server, listener):
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 5)  # until data has come
    with socket.create_connection(listener.getsockname()) as connection:
        tell(server, notice_of(connection, listener))
        connection.send(b"x")
        assert accepted_as(server, listener) is not None


def test_who_takes_the_port_of_a_socket_that_is_gone_is_not_known_by_its_notice(server, listener):
    """The notice is for a connection, and not for its port."""
    gone = socket.create_connection(listener.getsockname())
    notice = notice_of(gone, listener)
    own = gone.getsockname()
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # no TIME_WAIT
    tell(server, notice)
    gone.close()
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(own)
        stranger.connect(listener.getsockname())
        known = [accepted_as(server, listener) for _ in range(2)]
    assert known == [Address(AF_INET, number("10.244.0.1"), 40000), None]


def test_a_notice_that_lay_unread_is_not_believed(server, listener, connection, monkeypatch):
    """Its sender may hold the connection no more."""
    notice, now = notice_of(connection, listener), time.time()
    monkeypatch.setattr(module.time, "time", lambda: now + MAX_UNREAD + 0.1)
    tell(server, notice)
    assert accepted_as(server, listener) is None


@pytest.mark.parametrize(
    "options",
    [{"to": "10.244.0.3"}, {"port": 81}, {"real": 9}],
    ids=["another pod", "another port", "another real port"],
)
def test_what_is_not_for_us_is_not_believed(server, listener, connection, options):
    tell(server, notice_of(connection, listener, **options))
    assert accepted_as(server, listener) is None


@pytest.mark.parametrize(
    "options", [{"key": "cd" * 32}, {"port": 9}], ids=["another key", "said to another port"]
)
def test_what_is_not_signed_for_us_is_not_believed(server, listener, connection, options):
    """Who has the port of a netd that is gone cannot repeat elsewhere what comes there."""
    tell(server, notice_of(connection, listener), **options)
    assert accepted_as(server, listener) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]),
        lambda raw: raw[:20] + bytes([raw[20] ^ 1]) + raw[21:],
        lambda raw: raw[:-1],
        lambda raw: raw + b"\0",
        lambda raw: b"",
        lambda raw: b"x" * module.LENGTH,
    ],
    ids=["signature", "body", "short", "long", "empty", "garbage"],
)
def test_what_was_changed_is_not_believed(server, listener, connection, change):
    tell(server, notice_of(connection, listener), change)
    assert accepted_as(server, listener) is None


def test_an_old_notice_is_not_believed(server, listener, connection, monkeypatch):
    now = time.time()
    monkeypatch.setattr(module.time, "time", lambda: now - TOLERANCE - 1)
    notice = notice_of(connection, listener)
    monkeypatch.undo()
    tell(server, notice)
    assert accepted_as(server, listener) is None


def asked(client, server, connection, listener) -> bytes:
    """A notice that was sent and heard."""
    own = Address(AF_INET, HERE, connection.getsockname()[1])
    far = (number("10.244.0.2"), 80, listener.getsockname()[1])
    notice = client.notice("tcp", (own, 40000), far, socket_calls.cookie(connection.fileno()))
    client.send(notice, ("127.0.0.1", server.port))
    time.sleep(0.01)
    server.read()
    time.sleep(0.01)
    return notice


def test_a_connection_to_a_port_of_the_pods_is_acknowledged(client, server, listener, connection):
    assert client.is_acknowledged(asked(client, server, connection, listener))


def test_a_connection_that_is_not_there_is_not_acknowledged(client, server, listener):
    with socket.socket() as elsewhere:
        elsewhere.bind(("127.0.0.1", 0))
        assert not client.is_acknowledged(asked(client, server, elsewhere, listener))


def test_an_acknowledgement_is_for_one_notice_and_signed(client, server, listener, connection):
    notice = asked(client, server, connection, listener)
    later = asked(client, server, connection, listener)
    assert client.is_acknowledged(later)
    assert not client.is_acknowledged(notice)
    forge = lambda raw: raw[:6] + bytes([ACK]) + raw[7:]  # noqa: E731
    with netd("10.244.0.1") as other:
        tell(other, later, forge)
        assert not other.is_acknowledged(later)


# UDP


def until_stamped(sock: socket.socket) -> None:
    """Wait until the kernel notes when datagrams arrive: some time after the first has asked."""
    socket_calls.stamp(sock.fileno())
    until = time.monotonic() + 10
    while time.monotonic() < until:
        sock.sendto(b"x", sock.getsockname())
        time.sleep(0.02)
        before = time.time()
        sock.recv(9)
        if socket_calls.stamp(sock.fileno()) < before - 0.01:
            return


@pytest.fixture
def mailbox(server):
    """A UDP port of the server's pod, 53, at a real one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        until_stamped(found)
        real = found.getsockname()[1]
        server.given = lambda protocol, at: Address(AF_INET, at.ip, 53) if at.port == real else None
        yield found


class Sender:
    """A UDP socket of a pod, as its netd announces it."""

    def __init__(self, client: Notices, server: Notices, mailbox: socket.socket) -> None:
        self._client, self._server, self._mailbox = client, server, mailbox
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.real = Address(AF_INET, HERE, self.socket.getsockname()[1])
        self.cookie = socket_calls.cookie(self.socket.fileno())

    def announce(self, is_kept: bool = True) -> None:
        if is_kept:
            self._client._leases.take(self.socket.fileno(), self.cookie, (0, 0))
        far = (number("10.244.0.2"), 53, self._mailbox.getsockname()[1])
        notice = self._client.notice("udp", (self.real, 4000), far, self.cookie, int(is_kept))
        self._client.send(notice, ("127.0.0.1", self._server.port))

    def send(self) -> None:
        self.socket.sendto(b"x", self._mailbox.getsockname())


@pytest.fixture
def sender(client, server, mailbox):
    made = Sender(client, server, mailbox)
    yield made
    made.socket.close()
    client._leases.give_up(made.real.port)


def heard(client, server, mailbox) -> Notice | None:
    """From whom the next datagram is; the client's netd hears what it is asked meanwhile."""
    _, source = mailbox.recvfrom(99)
    real = Address(AF_INET, number(source[0]), source[1])
    own = Address(AF_INET, HERE, mailbox.getsockname()[1])
    ask, server_read = server._wait_until, server.read

    def answer_first(holds, seconds):
        time.sleep(0.01)
        client.read()
        return ask(holds, seconds)

    server._wait_until = answer_first
    server_read()
    return server.speaker(real, own, 53, socket_calls.stamp(mailbox.fileno()))


def test_a_datagram_is_from_whom_its_netd_says(client, server, mailbox, sender):
    sender.announce()
    sender.send()
    assert heard(client, server, mailbox).peer == Address(AF_INET, number("10.244.0.1"), 4000)


def test_one_that_is_read_late_is_known_by_when_it_came(client, server, mailbox, sender):
    sender.announce()
    sender.send()
    sender.socket.close()
    time.sleep(1.2)
    assert heard(client, server, mailbox) is not None


def test_another_user_at_the_port_of_a_socket_that_was_closed_is_nobody(
    client, server, mailbox, sender
):
    sender.announce(is_kept=False)
    sender.send()
    assert heard(client, server, mailbox) is not None
    port = sender.socket.getsockname()
    sender.socket.close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(port)
        stranger.sendto(b"x", mailbox.getsockname())
        assert heard(client, server, mailbox) is None
        stranger.sendto(b"x", mailbox.getsockname())
        assert heard(client, server, mailbox) is None, "nor afterwards"


def test_the_port_of_an_announced_socket_is_nobody_elses_while_that_is_believed(
    client, server, mailbox, sender
):
    sender.announce()
    port = sender.socket.getsockname()
    sender.socket.close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        with pytest.raises(OSError, match="Address already in use"):
            stranger.bind(port)
        until = time.monotonic() + 5
        while client._leases.sweep() and time.monotonic() < until:
            time.sleep(0.05)
        stranger.bind(port)
        stranger.sendto(b"x", mailbox.getsockname())
        assert heard(client, server, mailbox) is None


def test_what_a_stranger_sent_before_a_pod_had_its_port_is_nobodys(client, server, mailbox, sender):
    port = sender.socket.getsockname()
    sender.send()  # nobody has announced it yet
    time.sleep(0.01)
    sender.announce()
    assert sender.socket.getsockname() == port
    assert heard(client, server, mailbox) is None


def test_a_socket_that_speaks_for_long_is_asked_about_again(client, server, mailbox, sender):
    sender.announce(is_kept=False)
    for _ in range(3):
        sender.send()
        assert heard(client, server, mailbox) is not None


def test_a_port_of_udp_is_acknowledged_while_it_is_ours(client, server, mailbox, sender):
    far = (number("10.244.0.2"), 53, mailbox.getsockname()[1])
    assert not client.is_held(*far)
    sender.announce()
    time.sleep(0.01)
    server.read()
    time.sleep(0.01)
    client.read()
    assert client.is_held(*far)
    assert not client.is_held(*far[:2], 9)


def test_a_port_that_is_nobodys_is_not_acknowledged(client, server, mailbox, sender):
    far = (number("10.244.0.2"), 53, mailbox.getsockname()[1])
    sender.announce()
    mailbox.close()
    time.sleep(0.01)
    server.read()
    assert not client.await_held(far)


def test_a_flood_makes_it_forget_and_not_grow(server):
    for port in range(module.MAX_KNOWN + 10):
        here = Address(AF_INET, HERE, port)
        server.expect(here, 53, 1, Notice(here))
    assert len(server._own) == module.MAX_KNOWN
    assert (HERE, 5, 53) not in server._own
