/* Whose socket is at the other end of a connection that stays on this node, by sock_diag(7).
 * As owners.py, which asks here when this library is loaded: there is one socket to ask by. */
#include "quick.h"

#include <poll.h>

enum { BY_FAMILY = 20, REQUEST = 1, STATE_AT = 16 + 1, COOKIE_AT = 16 + 44, UID_AT = 16 + 64 };

struct question {
    uint32_t length;
    uint16_t type, flags;
    uint32_t sequence, port;
    uint8_t family, protocol, extensions, empty;
    uint32_t states;
    uint16_t peer_port, own_port;
    uint8_t peer[16], own[16];
    uint32_t interface, cookie[2];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t asked; /* questions */

static void place(uint8_t into[16], const struct address *address, int family)
{
    if (address->length == 16) {
        memcpy(into, address->ip, 16);
    } else if (family == AF_INET6) {
        into[10] = into[11] = 0xff;
        memcpy(into + 12, address->ip, 4);
    } else {
        memcpy(into, address->ip, 4);
    }
}

/* With the lock held; -1 when there is none. */
static ssize_t hear(uint8_t *into, size_t room)
{
    struct pollfd ready = {world.diagnostics, POLLIN, 0};
    ssize_t length = recv(world.diagnostics, into, room, MSG_DONTWAIT);
    if (length < 0 && poll(&ready, 1, 500) > 0)
        length = recv(world.diagnostics, into, room, MSG_DONTWAIT);
    return length;
}

/* The answer's length; 0 when there is no such socket. */
static ssize_t ask(struct question *question, uint8_t *into, size_t room)
{
    uint16_t type = 0;
    uint32_t sequence;
    pthread_mutex_lock(&lock);
    question->sequence = (uint32_t)getpid() << 16 ^ ++asked; /* not as the netd before us */
    ssize_t length = send(world.diagnostics, question, sizeof *question, 0);
    while (length > 0) {
        length = hear(into, room);
        if (length < 16)
            break;
        memcpy(&type, into + 4, 2);
        memcpy(&sequence, into + 8, 4);
        if (sequence == question->sequence) /* a netd that was killed may have left another */
            break;
    }
    pthread_mutex_unlock(&lock);
    return length >= 16 && type == BY_FAMILY ? length : 0;
}

int is_ours(int protocol, const struct address *peer, const struct address *own, uint64_t *cookie)
{
    uint8_t said[8192];
    *cookie = 0;
    if (world.diagnostics < 0)
        return -1;
    /* A client of IPv6 that speaks to a mapped address is found under its own family only. */
    for (int number = 0; number < 2; number++) {
        int family = number ? AF_INET6 : AF_INET;
        struct question question = {sizeof question, BY_FAMILY, REQUEST, 0, 0, (uint8_t)family,
                                    (uint8_t)protocol, 0, 0, 0xffffffff, htons(peer->port),
                                    htons(own->port), {0}, {0}, 0, {0xffffffff, 0xffffffff}};
        place(question.peer, peer, family);
        place(question.own, own, family);
        ssize_t length = ask(&question, said, sizeof said);
        if (length < UID_AT + 4)
            continue;
        memcpy(cookie, said + COOKIE_AT, 8);
        /* Established or about to be: a socket that is closing has lost its owner. */
        if (said[STATE_AT] < 1 || said[STATE_AT] > 3)
            continue;
        uint32_t uid;
        memcpy(&uid, said + UID_AT, 4);
        for (int i = 0; i < world.uid_ranges; i++)
            if (uid - world.uids[2 * i] < world.uids[2 * i + 1])
                return 1;
        return 0;
    }
    return -1;
}

API int quick_is_ours(int protocol, const struct address *peer, const struct address *own,
                      uint64_t *cookie)
{
    return is_ours(protocol, peer, own, cookie);
}
