/* Receives calls and answers those it can; the others go to Python, one at a time. */
#include "quick.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

struct world world;

API int quick_abi(void)
{
    return ABI;
}

/* Once for each process; 0, or it is not to be used. */
API int quick_start(const struct world *given)
{
    world = *given;
    set_key(world.key, world.key_length);
    return start_notices() ? -1 : start_pending();
}

API void *quick_desk(void)
{
    return calloc(1, sizeof(struct desk));
}

API void quick_leave(struct desk *desk)
{
    for (int i = 0; desk && i < PIDFDS; i++)
        if (desk->known[i].pid)
            close(desk->known[i].fd);
    free(desk);
}

/* What names nobody, at a descriptor where it is asked about. What is sent by UDP is Python's, and
 * what is received by a socket that hears more than one: of UDP, or what tells of interfaces. */
static int do_plain(struct desk *desk, const struct call *call, int is_sent)
{
    struct address peer;
    int fd = grab(desk, call, (int)call->asked.args[0]);
    if (fd < 0)
        return TO_PYTHON;
    int domain = option(fd, SOL_SOCKET, 39 /* SO_DOMAIN */);
    int is_for_python = option(fd, SOL_SOCKET, SO_PROTOCOL) == UDP;
    if (!is_sent)
        is_for_python = domain == AF_NETLINK || (is_for_python && peer_name(fd, &peer) <= 0);
    close(fd);
    if (is_for_python)
        return TO_PYTHON;
    go_on(call);
    return DONE;
}

static int handle(struct desk *desk, const struct call *call)
{
    switch (call->asked.number) {
    case SYS_connect:
        return do_connect(desk, call);
    case SYS_accept:
        return do_accept(desk, call, 0);
    case SYS_accept4:
        return do_accept(desk, call, (int)call->asked.args[3]);
    case SYS_getsockname:
        return do_getsockname(desk, call);
    case SYS_getpeername:
        return do_getpeername(desk, call);
    case SYS_write:
    case SYS_writev:
        return do_plain(desk, call, 1);
    case SYS_read:
    case SYS_readv:
        return do_plain(desk, call, 0);
    case SYS_sendto:
        return call->asked.args[4] ? TO_PYTHON : do_plain(desk, call, 1);
    case SYS_recvfrom:
        return call->asked.args[4] ? TO_PYTHON : do_plain(desk, call, 0);
    default:
        return TO_PYTHON;
    }
}

static int is_abandoned(int listener)
{
    struct pollfd found = {listener, 0, 0};
    return poll(&found, 1, 0) > 0;
}

/* The next call for Python: 1; 0 when nobody is left to make one. */
API int quick_next(struct desk *desk, int listener, struct notification *asked)
{
    struct call call = {.listener = listener};
    for (;;) {
        memset(&call.asked, 0, sizeof call.asked);
        if (ioctl(listener, NOTIF_RECV, &call.asked)) {
            if (errno != EINTR && is_abandoned(listener))
                return 0;
            continue;
        }
        if (handle(desk, &call) == TO_PYTHON) {
            *asked = call.asked;
            return 1;
        }
    }
}
