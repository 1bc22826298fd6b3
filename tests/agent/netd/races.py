"""Changes what a call names while it is judged: the address in memory, or what a descriptor is.

Run inside a pod as `python races.py NAME PLACES`, for a few seconds; prints how many calls it made.
Each names a destination that is allowed when it begins; a process beside it, over the same memory,
or a thread, over the same descriptors, puts one that is not in its place and back, as fast as it
can. Standard library of Python 3.9, because it runs with the node's own.
"""

import contextlib
import ctypes
import json
import mmap
import os
import signal
import socket
import struct
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)  # its calls let other threads run
SECONDS = 2.5
UNIX = b"\1\0/tmp/races-server"
NUMBER = 500  # of the descriptor that is another from one moment to the next


def packed(host, port):
    return struct.pack("<H", 2) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)


class Shared:
    """Memory whose content a process beside us changes all the time."""

    def __init__(self, *contents):
        self.memory = mmap.mmap(-1, 4096)
        size = max(len(one) for one in contents)
        self.contents = [one + bytes(size - len(one)) for one in contents]
        self.size = size
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self._parent = os.getpid()
        self._pid = os.fork()
        if not self._pid:
            self._change()

    def _change(self):
        view, (one, other) = memoryview(self.memory)[: self.size], self.contents
        while os.getppid() == self._parent:
            for _ in range(10000):
                view[:] = other
                view[:] = one

    def stop(self):
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def until_the_end():
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        yield


def impatient(sock):
    for name in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, name, struct.pack("qq", 1, 0))
    return sock


def connecting(kind, where, blocking=True):
    protocol = "tcp" if kind == socket.SOCK_STREAM else "udp"
    ends = [packed(where["v4"], where[one][protocol]) for one in ("allowed", "denied")]
    shared, count = Shared(*ends), 0
    for _ in until_the_end():
        with impatient(socket.socket(socket.AF_INET, kind)) as sock:
            if not blocking:
                os.set_blocking(sock.fileno(), False)
            libc.connect(sock.fileno(), ctypes.c_void_p(shared.address), 16)
            say(sock.fileno())
            count += 1
    shared.stop()
    return count


def say(fd):
    libc.send(fd, b"<allowed>", 9, socket.MSG_NOSIGNAL)


def by_connect(where):
    return connecting(socket.SOCK_STREAM, where)


def by_connect_without_waiting(where):
    return connecting(socket.SOCK_STREAM, where, False)


def by_connect_of_udp(where):
    return connecting(socket.SOCK_DGRAM, where)


def by_sendto(where):
    ends = [packed(where["v4"], where[one]["udp"]) for one in ("allowed", "denied")]
    shared, count = Shared(*ends), 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in until_the_end():
            libc.sendto(sock.fileno(), b"<allowed>", 9, 0, ctypes.c_void_p(shared.address), 16)
            count += 1
    shared.stop()
    return count


def by_sendmsg(where):
    ends = [packed(where["v4"], where[one]["udp"]) for one in ("allowed", "denied")]
    shared, count = Shared(*ends), 0
    said = ctypes.create_string_buffer(b"<allowed>", 9)
    piece = ctypes.create_string_buffer(struct.pack("<QQ", ctypes.addressof(said), 9), 16)
    pieces = ctypes.addressof(piece)
    head = struct.pack("<QIIQQQQiI", shared.address, 16, 0, pieces, 1, 0, 0, 0, 0)
    header = ctypes.create_string_buffer(head, len(head))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in until_the_end():
            libc.sendmsg(sock.fileno(), header, 0)
            count += 1
    shared.stop()
    return count


class Swapped:
    """A number that is one of several sockets, and from one moment to the next another."""

    def __init__(self, make):
        self._make = make
        self.sockets = make()
        self._is_over = threading.Event()
        self._swapping = threading.Thread(target=self._swap)
        self._swapping.start()

    def _swap(self):
        while not self._is_over.is_set():
            for one in self.sockets:
                with contextlib.suppress(OSError):
                    os.dup2(one.fileno(), NUMBER)

    def renew(self):
        old, self.sockets = self.sockets, self._make()
        for one in old:
            one.close()

    def stop(self):
        self._is_over.set()
        self._swapping.join()


def by_another_descriptor(where):
    """A unix socket is looked at, and one of the internet connected; the address changes, too."""
    with contextlib.suppress(OSError):
        os.unlink(UNIX[2:])
    server = socket.socket(socket.AF_UNIX)
    server.bind(UNIX[2:])
    server.listen(1024)
    server.setblocking(False)
    shared = Shared(UNIX, packed(where["v4"], where["denied"]["tcp"]))
    swapped, count = Swapped(lambda: [impatient(socket.socket()), socket.socket(socket.AF_UNIX)]), 0
    for _ in until_the_end():
        libc.connect(NUMBER, ctypes.c_void_p(shared.address), shared.size)
        say(NUMBER)
        count += 1
        with contextlib.suppress(BlockingIOError):
            server.accept()[0].close()
        swapped.renew()
    swapped.stop()
    shared.stop()
    with impatient(socket.socket()) as sock:  # that it may, where nobody interferes
        sock.connect((where["v4"], where["allowed"]["tcp"]))
        say(sock.fileno())
    return count


def by_another_descriptor_meanwhile(where):
    """A connection that is allowed is on its way; another socket takes its number, and goes on."""
    ends = [packed(where["v4"], where[one]["tcp"]) for one in ("allowed", "denied")]
    shared, count = Shared(*ends), 0
    swapped = Swapped(lambda: [impatient(socket.socket()) for _ in range(2)])
    for _ in until_the_end():
        libc.connect(NUMBER, ctypes.c_void_p(shared.address), 16)
        for one in swapped.sockets:
            say(one.fileno())
        count += 1
        swapped.renew()
    swapped.stop()
    shared.stop()
    return count


def by_another_descriptor_to_ourselves(where):
    """A connection to a port of the pod itself is on its way; the address changes, too."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=4096)) as server:
        own = packed(*server.getsockname())
        shared, count = Shared(own, packed(where["v4"], where["denied"]["tcp"])), 0
        swapped = Swapped(lambda: [impatient(socket.socket()) for _ in range(2)])
        for _ in until_the_end():
            libc.connect(NUMBER, ctypes.c_void_p(shared.address), 16)
            for one in swapped.sockets:
                say(one.fileno())
            count += 1
            swapped.renew()
        swapped.stop()
        shared.stop()
    with impatient(socket.socket()) as sock:  # that it may, where nobody interferes
        sock.connect((where["v4"], where["allowed"]["tcp"]))
        say(sock.fileno())
    return count


RACES = {
    name: found
    for name, found in list(globals().items())
    if name.startswith("by_") and callable(found)
}

if __name__ == "__main__":
    print(json.dumps(RACES[sys.argv[1]](json.loads(sys.argv[2]))))
