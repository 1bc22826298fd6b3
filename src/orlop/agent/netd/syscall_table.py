"""Has each system call of the pod's programs answered by its handler: one table, by its name.

Used by the threads that receive calls. A handler takes the pod's network, the call and its caller's
memory; it returns the answer, None where the kernel may go on, or LATER where the answer comes from
elsewhere.
"""

from __future__ import annotations

from errno import EFAULT, ENOSYS

from ..linux.job_output import Sayings
from .seccomp.caller_process import Target
from .seccomp.notify import Call
from .seccomp.syscall_numbers import calls
from .sockets import sockaddr
from .sockets.bind import bind, listen
from .sockets.getsockname import getpeername, getsockname
from .sockets.new_socket import make_socket, set_option
from .sockets.socket_calls import LATER
from .tcp.accept import Accepting
from .tcp.connect import Connecting
from .udp.read_write import read, readv, write, writev
from .udp.recvfrom import recvfrom
from .udp.recvmsg import recvmmsg, recvmsg
from .udp.sendmsg import sendmmsg, sendmsg
from .udp.sendto import sendto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Optional

    from .pod_network import PodNetwork

    Handler = Callable[[PodNetwork, Call, Target], Optional[int]]


class SyscallTable:
    def __init__(self, network: PodNetwork) -> None:
        self._network = network
        self._connecting, self._accepting = Connecting(network), Accepting(network)
        handlers: dict[str, Handler] = {
            "bind": bind,
            "listen": listen,
            "connect": self._connect,
            "accept": self._accept,
            "accept4": self._accept4,
            "getsockname": getsockname,
            "getpeername": getpeername,
            "socket": make_socket,
            "setsockopt": set_option,
            "sendto": sendto,
            "sendmsg": sendmsg,
            "sendmmsg": sendmmsg,
            "recvfrom": recvfrom,
            "recvmsg": recvmsg,
            "recvmmsg": recvmmsg,
            "read": read,
            "readv": readv,
            "write": write,
            "writev": writev,
            "ioctl": _ioctl,
        }
        numbers = calls()
        self._handlers = {numbers[name]: handler for name, handler in handlers.items()}

    def answer(self, call: Call, target: Target) -> None:
        try:
            result = self._handlers[call.number](self._network, call, target)
        except OSError as error:
            result = -(error.errno or EFAULT)
        except Exception as error:
            complain(f"call {call.number}: {error!r}")
            result = -ENOSYS
        if result is None:
            call.go_on()
        elif result != LATER and not call.answer(result):
            self._connecting.not_heard(call, result)

    def sweep(self) -> None:
        """Close copies of sockets whose programs may be done with them."""
        self._network.sweep()

    def _connect(self, network: PodNetwork, call: Call, target: Target) -> Optional[int]:
        raw = target.read_address(call, call.args[1], call.args[2] & 0xFFFFFFFF)
        to = sockaddr.parse(raw)
        if to is not None:
            return self._connecting.connect(call, target, to, raw)
        result = network.unix_sockets.connect(call, target, raw)
        if result is None and self._connecting.is_held:
            return self._connecting.held.connect_other(call, target, raw)
        return result

    def _accept(self, network: PodNetwork, call: Call, target: Target) -> Optional[int]:
        return self._accepting.accept(call, target, 0)

    def _accept4(self, network: PodNetwork, call: Call, target: Target) -> Optional[int]:
        return self._accepting.accept(call, target, call.args[3])


def _ioctl(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    return network.interfaces.ioctl(call, target)


def complain(words: str) -> None:
    """Write into the job's output, and not as often as a program may like."""
    _sayings.say(words)


_sayings = Sayings("orlop netd")
