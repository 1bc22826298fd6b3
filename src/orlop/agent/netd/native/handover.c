/* Connections on their way to a caller, where neither a signal nor our own end loses them. As
 * tcp/accept_handoff.py.
 *
 * From when it is taken until its caller has it, a connection is in a socket of the agent's, too,
 * where the next netd finds it. */
#include "quick.h"

enum { HALF = ROOMS / 2 }; /* the others are Python's */

static int is_taken[HALF];

/* The room it is in, or -1: so many at once have never been seen, they go without. */
int deposit(const struct call *call, uint64_t listening, int connection)
{
    union {
        char raw[CMSG_SPACE(sizeof(int))];
        struct cmsghdr head;
    } rights = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct ticket ticket = {listening, call->asked.pid, 0};
    struct iovec body = {&ticket, sizeof ticket};
    struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1, .msg_control = rights.raw,
                             .msg_controllen = sizeof rights.raw};
    memcpy(CMSG_DATA(&rights.head), &connection, sizeof connection);
    for (int room = 0; room < HALF; room++) {
        if (__atomic_exchange_n(&is_taken[room], 1, __ATOMIC_ACQUIRE))
            continue;
        if (sendmsg(world.rooms[2 * room], &message, MSG_DONTWAIT) > 0)
            return room;
        __atomic_store_n(&is_taken[room], 0, __ATOMIC_RELEASE);
        break;
    }
    return -1;
}

void collect(int room)
{
    struct ticket ticket;
    if (room < 0)
        return;
    if (recv(world.rooms[2 * room + 1], &ticket, sizeof ticket, MSG_DONTWAIT) < 0) {
        /* the agent is gone, and we are next */
    }
    __atomic_store_n(&is_taken[room], 0, __ATOMIC_RELEASE);
}
