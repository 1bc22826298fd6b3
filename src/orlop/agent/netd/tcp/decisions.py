"""Decides what becomes of a connect and of an accept, from facts: errors, times, owners.

Called by `connect`, `accept`, `identity/proof.py` and `identity/notices.py`; the compiled part
calls the same functions, which `agent/c_header.py` translates. What either part does in between is
to ask the kernel. Written in the few words that the translator knows; it refuses all others. Times
are seconds of one clock, 0 where there is none.
"""

from __future__ import annotations

from errno import (
    EALREADY,
    ECONNABORTED,
    ECONNREFUSED,
    ECONNRESET,
    EHOSTUNREACH,
    EINPROGRESS,
    EISCONN,
    EMFILE,
    ENETUNREACH,
    ENFILE,
    EPIPE,
    ETIMEDOUT,
)

from ..sockets.socket_calls import TCP_CLOSE, TCP_ESTABLISHED, TCP_SYN_SENT

# A connect: the kernel's handshake.

# Seconds for the answer of one endpoint, when there is another to go to: it comes within a round
# trip, but on a node that is full the kernel's own threads have to wait for a core, too.
PATIENCE_OF_MANY = 0.3
# Seconds for the last endpoint's answer to a caller who would not wait: one SYN may be lost. Who
# waits is given as long as the kernel tries.
PATIENCE_AT_ONCE, PATIENCE_AT_LEISURE = 1.3, 130.0
MAX_AGAIN = 2  # times that one is tried that was made and closed before it was acknowledged
MAX_UNHEARD = 64  # connects remembered whose answer met a signal instead of the caller
UNREACHED = (ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT)
CLOSED = (ECONNABORTED, ECONNRESET, EPIPE)
ON_ITS_WAY = (0, EINPROGRESS)
NO_ERROR = (0, EINPROGRESS, EALREADY, EISCONN)
KEEP_SOURCE, FROM_LOOPBACK, FROM_ANY = 0, 1, 2
SAY_IN_PROGRESS, LEAVE_TO_KERNEL, SAY_WHEN_MADE = 0, 1, 2
TRY_AGAIN, TRY_NEXT, TELL_ERROR = 0, 1, 2


def source_of(has_port: bool, is_local: bool, is_from_loopback: bool) -> int:
    """Decide from where a socket connects: by that a server on this node knows the pod."""
    if has_port:
        return KEEP_SOURCE
    if is_local:
        return FROM_LOOPBACK
    # Where an endpoint on this node has refused it, it goes on to another.
    return FROM_ANY if is_from_loopback else KEEP_SOURCE


def is_on_its_way(code: int) -> bool:
    return code in ON_ITS_WAY


def is_over_already(code: int, state: int) -> bool:
    """Return whether to ask for the error now: on this very node it is refused within the call."""
    return code == EINPROGRESS and state == TCP_CLOSE


def is_failed(code: int) -> bool:
    """Return whether a connect that was asked for once more says that the first has failed."""
    return code not in NO_ERROR


def is_to_be_asked(is_ready: bool, state: int) -> bool:
    """Return whether it may have failed, which the kernel tells by one more connect."""
    return is_ready or state not in (TCP_SYN_SENT, TCP_ESTABLISHED)


def patience_ends(began: float, left: float, is_last: bool, is_blocking: bool) -> float:
    """Return when the handshake has taken too long; `left`: when its caller was interrupted."""
    if left > 0.0:
        return left + PATIENCE_AT_ONCE
    if not is_last:
        return began + PATIENCE_OF_MANY
    return began + (PATIENCE_AT_LEISURE if is_blocking else PATIENCE_AT_ONCE)


def after_failure(code: int, again: int) -> int:
    """Decide what follows a failure, after so many tries more of the same place."""
    if code in CLOSED and again < MAX_AGAIN:
        # The server's netd had it in its hands before our notice: nothing was sent yet.
        return TRY_AGAIN
    return TRY_NEXT if code in CLOSED or code in UNREACHED else TELL_ERROR


def error_told(code: int) -> int:
    """Return the error that a program hears where there is no other place."""
    return ECONNREFUSED if code in CLOSED else code


def answer_to(is_blocking: bool, is_held: bool) -> int:
    """Decide how to answer a connect that may go on; `is_held`: an egress policy may restrict it.

    The kernel would read the address once more, and another thread may have changed it.
    """
    if not is_blocking:
        return SAY_IN_PROGRESS
    return SAY_WHEN_MADE if is_held else LEAVE_TO_KERNEL


# A connect: the proof of who is at the other end.

# Seconds that a notice of TCP may lie unread: its sender holds the connection for longer.
MAX_UNREAD = 0.25
HEARD = MAX_UNREAD + 0.05  # seconds after which a notice is not believed any more
TOLERANCE = 120.0  # seconds that the clocks of two nodes may differ
MOST_AT_ONCE = 256  # datagrams; whoever floods us must leave time for the calls of the pod
# Seconds for the acknowledgement of a connection that is made; with another endpoint to go to.
PROOF_TIME, PROOF_TIME_OF_MANY = 3.0, 1.0
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.2  # seconds between one notice and the next
SHORTEST_WAIT = 0.0005
NO_PROOF, PROOF_BY_KERNEL, PROOF_BY_NOTICE = 0, 1, 2
GO_ON, CHECK_HERE, AWAIT_ACK = 0, 1, 2


def proof_of(is_own: bool, has_pod: bool, has_notice: bool, is_here: bool) -> int:
    """Decide how to make sure of a place; `is_here`: the kernel can be asked about it."""
    if is_own:
        return PROOF_BY_KERNEL
    if not has_pod or not has_notice:
        return NO_PROOF
    return PROOF_BY_KERNEL if is_here else PROOF_BY_NOTICE


def may_be_left_to_kernel(is_own: bool, is_last: bool) -> bool:
    """Return whether the kernel may wait for the handshake, if one of ours listens there.

    To a port of the pod itself: who is to accept may be the caller.
    """
    return is_own and is_last


def is_answered_unproven(is_last: bool, is_made: bool) -> bool:
    """Return whether a connect of which nothing is to be proven is answered when it is begun."""
    return is_last or is_made


def after_handshake(is_asked: bool, is_here: bool) -> int:
    """Decide what is left to do for a connection that the kernel has made."""
    if is_asked:
        return AWAIT_ACK
    return CHECK_HERE if is_here else GO_ON


def proof_ends(made: float, is_last: bool) -> float:
    return made + (PROOF_TIME if is_last else PROOF_TIME_OF_MANY)


def is_notice_due(now: float, said: float, pause: float, until: float) -> bool:
    """Return whether to say it again: if it is time, and it will not be heard after `until`."""
    return said + pause <= now and now < until - HEARD


def next_pause(pause: float) -> float:
    return min(2.0 * pause, LONGEST_PAUSE)


def may_be_heard(now: float, said: float) -> bool:
    """Return whether a notice may still be believed: the connection must not become another's."""
    return said > 0.0 and now < said + HEARD


def seconds_until(now: float, due: float) -> float:
    return max(due - now, SHORTEST_WAIT)


def is_of_now(age: float) -> bool:
    """Return whether a datagram is of now, as far as clocks agree."""
    return age >= -TOLERANCE and age <= TOLERANCE


def is_read_in_time(age: float) -> bool:
    """Return whether what the kernel said of a connection was so while its sender held it."""
    return age <= MAX_UNREAD


# An accept.

DOUBT, DOUBT_HERE = 0.05, 0.003  # seconds for a notice that is late; on this very node
# A netd that was put off its core between its connection and its notice needs longer on a busy
# node. Where the caller would wait in any case it is given that, and others in the queue wait, too:
# to let them in first would leave a program that asked `select` with one it is never shown again.
DOUBT_AT_LEISURE = 1.5
LOOK_AGAIN, LOOK_SELDOM = 0.001, 0.01  # seconds between one look for a notice and the next
UNTOLD, NOT_OURS, OURS = -1, 0, 1  # whose a socket of this node is
# Who a connection comes from: nobody that may; unknown as yet; whom a notice has named; this pod;
# its agent; the pod that its address is; its address.
NOBODY, NOT_YET, VOUCHED, SIBLING, AGENT, NEIGHBOUR, AS_IS = 0, 1, 2, 3, 4, 5, 6


def is_known(verdict: int) -> bool:
    return verdict not in (NOBODY, NOT_YET)


def comes_amiss(is_here: bool, is_at_loopback: bool, is_from_loopback: bool) -> bool:
    """Return whether another pod of this node is at our localhost, where it has no business."""
    return is_here and is_at_loopback and not is_from_loopback


def judge_vouched(is_amiss: bool, has_own_name: bool) -> int:
    """Decide about one that is written down; with a name of its own it is of this very pod."""
    return NOBODY if is_amiss and not has_own_name else VOUCHED


def judge_here(
    owner: int, is_sibling: bool, is_amiss: bool, is_from_loopback: bool, is_neighbour: bool
) -> int:
    """Decide about a connection from this node; `is_neighbour`: its address is surely a pod's."""
    if is_sibling:
        return SIBLING
    if is_amiss:
        return NOBODY
    if owner != OURS:
        return NOT_YET
    if is_from_loopback:
        return AGENT  # a probe, a forwarded port
    return NEIGHBOUR if is_neighbour else NOT_YET


def judge_other(owner: int, is_pods: bool, is_open: bool, allows_outside: bool) -> int:
    """Decide about one from elsewhere, or that none of these has been.

    `is_pods`: its address is that of a pod of this node; `is_open`: anybody may come here.
    """
    if owner == NOT_OURS:
        return AS_IS if is_open else NOBODY
    if allows_outside and not (is_pods and owner == OURS):
        return AS_IS
    return NOT_YET


def judge_late(owner: int, needs_notice: bool, is_open: bool, left: float, is_idle: bool) -> int:
    """Decide about one whom no notice has named; `left`: seconds of doubt; `is_idle`: see below.

    A program of this user's in no pod with a network of its own, or one from outside at a hostPort,
    is let in by its address; `needs_notice` where that is a pod's, or a NetworkPolicy forbids it.
    """
    if left >= DOUBT - DOUBT_HERE:
        return NOT_YET
    if not needs_notice and (owner == OURS or is_open):
        return AS_IS
    return NOT_YET if left >= 0.0 or is_idle else NOBODY


def is_at_leisure(is_blocking: bool, was_in_vain: bool, left: float, is_over: bool) -> bool:
    """Return whether the caller would wait anyway, and has not yet waited for a stranger."""
    return is_blocking and not was_in_vain and left >= DOUBT - DOUBT_AT_LEISURE and not is_over


def until_next_look(left: float) -> float:
    """Return after how many seconds to look for a notice again."""
    return LOOK_AGAIN if left >= 0.0 else LOOK_SELDOM


def is_kept(code: int, is_heard: bool) -> bool:
    """Return whether a connection stays for the next accept after this answer to its caller."""
    return not is_heard or code in (EMFILE, ENFILE)
