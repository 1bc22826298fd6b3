"""Small programs that run inside a pod, as `python programs.py NAME`, and say what they saw.

Each is an ordinary program: it knows nothing of how the network is made. It asserts what any
program may rely on, and prints a JSON value for the test to look at. Standard library of Python
3.9, because it runs with the node's own.
"""

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

ME = os.environ.get("POD_IP", "")
libc = ctypes.CDLL(None, use_errno=True)


def tcp(family=socket.AF_INET):
    return socket.socket(family, socket.SOCK_STREAM)


def udp(family=socket.AF_INET):
    return socket.socket(family, socket.SOCK_DGRAM)


def listening(where, family=socket.AF_INET):
    sock = tcp(family)
    sock.bind(where)
    sock.listen(64)
    return sock


def error_of(act, *args):
    try:
        act(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"


def names_agree():
    server = listening(("0.0.0.0", 80))
    assert server.getsockname() == ("0.0.0.0", 80), server.getsockname()
    client = socket.create_connection((ME, 80))
    assert client.getpeername() == (ME, 80), client.getpeername()
    got, peer = server.accept()
    assert peer == client.getsockname(), (peer, client.getsockname())
    assert peer[0] == ME, peer
    assert got.getpeername() == peer
    assert got.getsockname() == (ME, 80), got.getsockname()
    nobody, _ = listening(("", 81)), socket.create_connection((ME, 81))
    fd = libc.accept(nobody.fileno(), None, None)
    assert socket.socket(fileno=fd).getpeername()[0] == ME


def ports_can_be_shared():
    first, second, third = tcp(), tcp(), tcp()
    for sock in (first, second):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(("0.0.0.0", 90))
        sock.listen(64)
        sock.setblocking(False)
    assert error_of(third.bind, ("0.0.0.0", 90)) == "EADDRINUSE"
    clients = [socket.create_connection((ME, 90)) for _ in range(40)]
    counts = []
    for sock in (first, second):
        counts.append(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                sock.accept()
                counts[-1] += 1
    assert sum(counts) == len(clients), counts
    assert all(counts), counts


def udp_ports_can_be_shared():
    for option in (socket.SO_REUSEPORT, socket.SO_REUSEADDR):
        first, second = udp(), udp()
        for sock in (first, second):
            sock.setsockopt(socket.SOL_SOCKET, option, 1)
            sock.bind(("0.0.0.0", 93))
        senders = [udp() for _ in range(40)]
        for number, sock in enumerate(senders):
            sock.sendto(bytes([number]), (ME, 93))
        heard = set()
        while len(heard) < len(senders):
            ready, _, _ = select.select([first, second], [], [], 5)
            assert ready, heard
            heard.update(sock.recv(9) for sock in ready)
        first.close()
        second.close()


def a_port_is_taken_while_it_is_used():
    first = listening(("0.0.0.0", 91))
    assert error_of(tcp().bind, ("0.0.0.0", 91)) == "EADDRINUSE"
    client = socket.create_connection((ME, 91))
    accepted, _ = first.accept()
    accepted.close()  # its remains wait for last packets
    first.close()
    assert client.recv(1) == b""
    assert error_of(socket.create_connection, (ME, 91)) == "ECONNREFUSED"
    second = listening(("0.0.0.0", 91))
    socket.create_connection((ME, 91))
    second.accept()


def a_port_is_taken_before_anybody_listens():
    """As by ranks of MPI, which look for a free port by bind and listen later."""
    first, second = tcp(), tcp()
    first.bind(("0.0.0.0", 95))
    assert error_of(second.bind, ("0.0.0.0", 95)) == "EADDRINUSE"
    first.listen()
    first.close()
    second.bind(("0.0.0.0", 95))  # nobody has it any more
    second.listen()
    socket.create_connection((ME, 95))


def any_port():
    server = tcp()
    server.bind(("", 0))
    server.listen()
    port = server.getsockname()[1]
    assert port
    for host in (ME, "127.0.0.1", "localhost"):
        assert socket.create_connection((host, port)).getpeername()[1] == port
    unnamed = tcp()
    unnamed.listen()
    port = unnamed.getsockname()[1]
    assert socket.create_connection((ME, port)).getpeername() == (ME, port)


def both_families():
    server = tcp(socket.AF_INET6)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.bind(("::", 94))
    server.listen()
    assert server.getsockname()[:2] == ("::", 94)
    for host in (ME, "::1", "127.0.0.1"):
        client = socket.create_connection((host, 94))
        assert client.getpeername()[:2] == (host, 94), client.getpeername()
        accepted, peer = server.accept()
        own = client.getsockname()
        assert own[0] == host, own
        wanted = host if ":" in host else "::ffff:" + host
        assert peer[:2] == (wanted, own[1]), (host, peer)
        assert accepted.getsockname()[:2] == (wanted, 94), accepted.getsockname()
    mapped = tcp(socket.AF_INET6)
    mapped.connect(("::ffff:" + ME, 94))
    assert mapped.getpeername()[:2] == ("::ffff:" + ME, 94)


def families_apart():
    six = tcp(socket.AF_INET6)
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    six.bind(("::", 95))
    six.listen()
    four = listening(("0.0.0.0", 95))
    for host, server in (("::1", six), (ME, four)):
        server.settimeout(2)
        client = socket.create_connection((host, 95))
        accepted, _ = server.accept()
        client.sendall(b"x")
        assert accepted.recv(1) == b"x"
    assert six.getsockname()[:2] == ("::", 95)


def own_and_others_addresses():
    server = listening((ME, 96))
    assert server.getsockname() == (ME, 96)
    socket.create_connection((ME, 96))
    assert error_of(tcp().bind, ("10.244.9.9", 97)) == "EADDRNOTAVAIL"
    assert error_of(tcp().bind, ("10.96.0.1", 97)) == "EADDRNOTAVAIL"


def loopback_addresses_are_apart():
    one, two = listening(("127.0.0.1", 98)), listening(("127.0.0.2", 98))
    client = socket.create_connection(("127.0.0.2", 98))
    two.settimeout(2)
    two.accept()
    assert one.getsockname() == ("127.0.0.1", 98)
    assert two.getsockname() == ("127.0.0.2", 98)
    assert client.getpeername() == ("127.0.0.2", 98)
    assert error_of(socket.create_connection, (ME, 98)) == "ECONNREFUSED"


def children_inherit():
    server = listening(("", 100))
    pid = os.fork()
    if not pid:
        accepted, _ = server.accept()
        accepted.sendall(b"child")
        os._exit(0)
    assert socket.create_connection((ME, 100)).recv(9) == b"child"
    os.waitpid(pid, 0)
    script = (
        f"import socket; s = socket.socket(fileno={server.fileno()}); "
        "print(s.getsockname()); s.accept()[0].sendall(b'exec')"
    )
    given = {"pass_fds": [server.fileno()], "stdout": subprocess.PIPE, "text": True}
    child = subprocess.Popen([sys.executable, "-c", script], **given)
    assert socket.create_connection((ME, 100)).recv(9) == b"exec"
    assert child.communicate()[0].strip() == "('0.0.0.0', 100)"


def many_threads():
    server = listening(("", 102))
    server.listen(512)

    def serve():
        while True:
            server.accept()[0].close()

    threading.Thread(target=serve, daemon=True).start()
    failures = []

    def connect():
        for _ in range(100):
            failure = error_of(lambda: socket.create_connection((ME, 102)).close())
            if failure != "ok":
                failures.append(failure)

    threads = [threading.Thread(target=connect) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def refusals():
    sock = tcp()
    assert [error_of(sock.connect, (ME, 999)) for _ in range(2)] == ["ECONNREFUSED"] * 2
    server = listening(("", 103))
    sock.connect((ME, 103))  # the same socket, after it was refused
    server.accept()
    assert error_of(sock.connect, (ME, 103)) == "EISCONN"


def without_blocking():
    server = listening(("", 104))
    server.setblocking(False)
    assert error_of(server.accept) == "EAGAIN"
    sock = tcp()
    sock.setblocking(False)
    assert sock.connect_ex((ME, 104)) in (0, errno.EINPROGRESS)
    assert select.select([], [sock], [], 2)[1]
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    assert sock.connect_ex((ME, 104)) in (0, errno.EISCONN)
    assert select.select([server], [], [], 2)[0]
    server.accept()
    slow = listening(("", 105))
    slow.settimeout(0.2)
    with contextlib.suppress(socket.timeout):
        slow.accept()
        raise AssertionError("accepted nothing")


def wrong_arguments():
    codes = []
    for number, address in ((tcp().fileno(), 8), (777, None)):
        packed = struct.pack("<HH4s8x", 2, 80, socket.inet_aton(ME))
        where = ctypes.c_void_p(address) if address else ctypes.c_char_p(packed)
        libc.connect(number, where, 16)
        codes.append(errno.errorcode[ctypes.get_errno()])
    assert codes == ["EFAULT", "EBADF"], codes
    with open(os.devnull) as file:
        assert libc.getsockname(file.fileno(), ctypes.create_string_buffer(99), None) == -1
    assert errno.errorcode[ctypes.get_errno()] == "ENOTSOCK"
    server = listening(("", 106))
    socket.create_connection((ME, 106))
    assert libc.accept(server.fileno(), ctypes.c_void_p(8), ctypes.c_void_p(8)) == -1


def unix_sockets():
    path = f"/tmp/unix-{os.getpid()}"
    for name in (path, "\0" + path, "\0" + "x" * 106):
        server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        server.bind(name)
        server.listen()
        client.connect(name)
        accepted, _ = server.accept()
        client.sendall(b"x")
        assert accepted.recv(1) == b"x"
        if len(name) < 90:
            wanted = name if name == path else name.encode()
            assert server.getsockname() == wanted, server.getsockname()
            assert client.getpeername() == wanted
    os.unlink(path)
    one, two = socket.socketpair()
    socket.send_fds(one, [b"x"], [0])
    assert len(socket.recv_fds(two, 9, 9)[1]) == 1


def unix_datagrams():
    """Names without a path, by every call that takes one; answers find their way, too."""
    for name in ("\0talk", "\0" + "y" * 100):
        server, client = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in "sc")
        server.bind(name)
        client.bind("")  # the kernel gives it a name
        client.sendto(b"sendto", name)
        assert server.recv(99) == b"sendto"
        client.sendmsg([b"send", b"msg"], [], 0, name)
        data, own = server.recvfrom(99)
        assert data == b"sendmsg"
        server.sendto(b"answer", own)
        assert client.recv(99) == b"answer"
        server.sendmsg([b"answer"], [], 0, own)
        assert client.recv(99) == b"answer"
        server.connect(own)
        server.send(b"answer")
        assert client.recv(99) == b"answer"
        reading, writing = os.pipe()
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("<i", writing))
        client.sendmsg([b"x"], [rights], 0, name)
        _, got, _, _ = socket.recv_fds(server, 9, 9)
        os.write(got[0], b"through")
        assert os.read(reading, 99) == b"through"
        client.connect(name)
        client.send(b"connected")
        assert server.recv(99) == b"connected"


def unix_datagrams_wait_for_room():
    server, client = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in "sc")
    server.bind("\0full")
    client.setblocking(False)
    while error_of(client.sendto, b"x", "\0full") == "ok":
        pass
    client.setblocking(True)
    waiting = threading.Thread(target=client.sendto, args=(b"last", "\0full"))
    waiting.start()
    while server.recv(99) != b"last":
        pass
    waiting.join(20)
    assert not waiting.is_alive()


def no_io_uring():
    assert libc.syscall(425, 8, 0) == -1
    assert ctypes.get_errno() == errno.ENOSYS


def interfaces():
    import fcntl

    names = {}
    buffer = ctypes.create_string_buffer(4096)
    with udp() as sock:
        request = struct.pack("<iiQ", 4096, 0, ctypes.addressof(buffer))
        length = struct.unpack("<i", fcntl.ioctl(sock, 0x8912, request)[:4])[0]
    for at in range(0, length, 40):
        entry = buffer.raw[at : at + 40]
        names[entry[:16].split(b"\0")[0].decode()] = socket.inet_ntoa(entry[20:24])
    assert names.pop("lo") == "127.0.0.1"
    assert list(names.values()) == [ME], names
    shown = subprocess.run(["ip", "-4", "-o", "addr"], capture_output=True, text=True, check=True)
    found = [line.split()[3] for line in shown.stdout.splitlines()]
    assert found == ["127.0.0.1/8", f"{ME}/16"], found


def datagrams():
    server = udp()
    server.bind(("0.0.0.0", 53))
    assert server.getsockname() == ("0.0.0.0", 53)
    client = udp()
    client.sendto(b"one", (ME, 53))
    data, source = server.recvfrom(99)
    assert (data, source) == (b"one", (ME, client.getsockname()[1])), (data, source)
    server.sendto(b"two", source)
    assert client.recvfrom(99) == (b"two", (ME, 53))
    client.connect(("127.0.0.1", 53))
    assert client.getpeername() == ("127.0.0.1", 53)
    client.send(b"three")
    data, source = server.recvfrom(99)
    server.sendto(b"four", source)
    assert client.recvfrom(99) == (b"four", ("127.0.0.1", 53))
    assert error_of(client.recv, 99, socket.MSG_DONTWAIT) == "EAGAIN"


def a_server_connects_to_whom_it_heard():
    """As iperf3 and many others do: the client's port is nobody's but the client's."""
    server, client = udp(), udp()
    server.bind(("", 58))
    client.connect((ME, 58))
    client.send(b"hello")
    _, source = server.recvfrom(99)
    server.connect(source)
    assert server.getpeername() == source
    server.send(b"you")
    assert client.recv(99) == b"you"
    client.send(b"me")
    assert server.recv(99) == b"me"


def datagrams_by_message():
    server, client = udp(), udp()
    server.bind(("", 54))
    server.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO
    client.sendmsg([b"he", b"llo"], [], 0, (ME, 54))
    data, control, flags, source = server.recvmsg(3, 100)
    assert (data, source[0]) == (b"hel", ME)
    assert flags & socket.MSG_TRUNC
    assert socket.inet_ntoa(control[0][2][8:12]) == ME, control
    server.sendmsg([b"back"], [], 0, source)
    first, second = bytearray(2), bytearray(9)
    count, _, _, source = client.recvmsg_into([first, second])
    assert (count, bytes(first), bytes(second[:2]), source) == (4, b"ba", b"ck", (ME, 54))
    server.settimeout(0.1)
    with contextlib.suppress(socket.timeout):
        server.recvfrom(9)
        raise AssertionError("received nothing")


def many_datagrams():
    """sendmmsg and recvmmsg, which Python does not have."""

    class Iov(ctypes.Structure):
        _fields_ = [("base", ctypes.c_char_p), ("length", ctypes.c_size_t)]

    class Header(ctypes.Structure):
        _fields_ = [
            ("name", ctypes.c_void_p), ("name_length", ctypes.c_uint),
            ("iov", ctypes.POINTER(Iov)), ("count", ctypes.c_size_t),
            ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t),
            ("flags", ctypes.c_size_t), ("length", ctypes.c_uint),
        ]  # fmt: skip

    server, client = udp(), udp()
    server.bind(("", 55))
    name = struct.pack("<H", 2) + struct.pack(">H", 55) + socket.inet_aton(ME) + bytes(8)
    where = ctypes.create_string_buffer(name, 16)
    pieces = (Iov * 3)(*(Iov(word, len(word)) for word in (b"a", b"bb", b"ccc")))
    sent = (Header * 3)(
        *(Header(ctypes.addressof(where), 16, ctypes.pointer(piece), 1) for piece in pieces)
    )
    assert libc.sendmmsg(client.fileno(), sent, 3, 0) == 3
    assert [header.length for header in sent] == [1, 2, 3]
    room = [ctypes.create_string_buffer(9) for _ in range(5)]
    empty = (Iov * 5)(*(Iov(ctypes.cast(buffer, ctypes.c_char_p), 9) for buffer in room))
    names = [ctypes.create_string_buffer(16) for _ in range(5)]
    got = (Header * 5)(
        *(
            Header(ctypes.addressof(name), 16, ctypes.pointer(piece), 1)
            for name, piece in zip(names, empty)  # noqa: B905 (Python 3.9)
        )
    )
    assert libc.recvmmsg(server.fileno(), got, 5, 0x10000, None) == 3
    assert [buffer.value for buffer in room[:3]] == [b"a", b"bb", b"ccc"]
    assert all(socket.inet_ntoa(name.raw[4:8]) == ME for name in names[:3])


def threads_make_udp_sockets_at_once():
    """Each has its own, as a server that starts a thread for each port."""
    found, ready = [], threading.Barrier(8)

    def make(number):
        ready.wait(20)
        sock = udp()
        sock.bind(("", 6000 + number))
        found.append((sock, sock.getsockname()[1], number))

    for turn in range(10):
        threads = [threading.Thread(target=make, args=(8 * turn + n,)) for n in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(20)
    assert sorted(number for *_, number in found) == list(range(80)), found
    assert [(port, number) for _, port, number in found if port != 6000 + number] == []
    assert len({sock.fileno() for sock, *_ in found}) == 80


def many_udp_sockets():
    server = udp()
    server.bind(("", 56))
    socks = [udp() for _ in range(200)]
    assert len({sock.fileno() for sock in socks}) == 200
    for sock in (socks[0], socks[-1]):
        sock.sendto(b"x", (ME, 56))
        assert server.recvfrom(9)[0] == b"x"


def signals_are_harmless():
    """As a profiler sends them; the calls that are asked about are made all the while."""
    hits = []
    signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
    signal.siginterrupt(signal.SIGALRM, False)
    server = listening(("", 107))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        for number in range(300):
            client = socket.create_connection((ME, 107))
            accepted, peer = server.accept()
            assert peer == client.getsockname()
            bound = tcp()
            bound.bind(("", 20000 + number))
            assert bound.getsockname()[1] == 20000 + number
            for sock in (client, accepted, bound):
                sock.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert hits


def a_signal_ends_a_blocking_accept():
    class Interrupted(Exception):
        pass

    def interrupt(*_):
        raise Interrupted

    signal.signal(signal.SIGALRM, interrupt)
    server = listening(("", 108))
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    with contextlib.suppress(Interrupted):
        server.accept()
        raise AssertionError("accepted nothing")
    socket.create_connection((ME, 108))
    server.settimeout(2)
    server.accept()
    server.close()
    listening(("", 108))  # nothing of ours keeps it


def a_killed_caller_harms_nobody():
    server = listening(("", 109))
    pid = os.fork()
    if not pid:
        server.accept()
        os._exit(0)
    time.sleep(0.2)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    server.close()
    again = listening(("", 109))
    socket.create_connection((ME, 109))
    again.settimeout(2)
    again.accept()


def who_finds_no_room_for_a_descriptor_is_taken_later():
    import resource

    server = listening(("", 116))
    client = socket.create_connection((ME, 116))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, limits[1]))
    found = error_of(server.accept)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert found == "EMFILE", found
    accepted, peer = server.accept()
    assert peer == client.getsockname(), peer
    client.close()
    assert accepted.recv(1) == b""


def raised_limits():
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    server, client = udp(), udp()
    server.bind(("", 57))
    client.sendto(b"x", (ME, 57))
    assert server.recvfrom(9)[0] == b"x"


CASES = {
    name: found
    for name, found in list(globals().items())
    if callable(found)
    and getattr(found, "__module__", "") == __name__
    and not found.__code__.co_argcount
    and name not in ("tcp", "udp")
}

if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]]()))
