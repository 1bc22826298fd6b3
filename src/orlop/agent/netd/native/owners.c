/* Whose the sockets of this node are, by sock_diag(7): both ends of a connection, a listener. The
 * steps of identity/sock_diag.py, which asks here when this library is loaded: there is one socket to
 * ask by. */
#include "quick.h"

#include <poll.h>

enum { ESTABLISHED = 1, SYN_RECEIVED = 3, CLOSE_WAIT = 8, LISTEN = 10 }; /* of TCP */

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
    return length >= 16 && type == DIAG_BY_FAMILY ? length : 0;
}

/* Ask for the socket at `peer` that speaks to `own`. */
static ssize_t look(int family, int protocol, const struct address *peer,
                    const struct address *own, uint8_t *into, size_t room)
{
    /* Of UDP the kernel takes them the other way round. */
    const struct address *first = protocol == UDP ? own : peer;
    const struct address *second = protocol == UDP ? peer : own;
    struct question question = {.length = sizeof question, .type = DIAG_BY_FAMILY,
                                .flags = DIAG_REQUEST, .family = (uint8_t)family,
                                .protocol = (uint8_t)protocol, .states = 0xffffffff,
                                .peer_port = htons(first->port), .own_port = htons(second->port)};
    if (world.diagnostics < 0)
        return 0;
    memset(question.cookie, 0xff, sizeof question.cookie); /* whichever it has */
    place(question.peer, first, family);
    place(question.own, second, family);
    ssize_t length = ask(&question, into, room);
    return length < DIAG_UID_AT + 4 ? 0 : length;
}

static int is_of_ours(const uint8_t *said)
{
    uint32_t uid;
    memcpy(&uid, said + DIAG_UID_AT, 4);
    for (int i = 0; i < world.uid_ranges; i++)
        if (uid - world.uids[2 * i] < world.uids[2 * i + 1])
            return 1;
    return 0;
}

int is_ours(int protocol, const struct address *peer, const struct address *own, uint64_t *cookie)
{
    uint8_t said[8192];
    *cookie = 0;
    /* A client of IPv6 that speaks to a mapped address is found under its own family only. */
    for (int number = 0; number < 2; number++) {
        if (!look(number ? AF_INET6 : AF_INET, protocol, peer, own, said, sizeof said))
            continue;
        memcpy(cookie, said + DIAG_COOKIE_AT, 8);
        /* Established or about to be: a socket that is closing has lost its owner. */
        if (protocol == UDP || (said[DIAG_STATE_AT] >= 1 && said[DIAG_STATE_AT] <= 3))
            return is_of_ours(said);
    }
    return -1;
}

static const struct address nobody = {AF_INET, 0, 4, {0}};

/* Whether one of ours listens at a real address, or has it for UDP. */
int holds(int protocol, const struct address *server)
{
    uint8_t said[8192];
    for (int number = server->length == 16; number < 2; number++) {
        if (!look(number ? AF_INET6 : AF_INET, protocol, server, &nobody, said, sizeof said))
            continue;
        if (protocol == UDP || said[DIAG_STATE_AT] == LISTEN)
            return is_of_ours(said);
    }
    return 0;
}

/* The cookie of a server's end of a connection, if it and its listener are ours; OTHERS, or 0 where
 * there is none. One whose handshake is not complete has the cookie already that it will have then. */
uint64_t child_of(const struct address *server, const struct address *client)
{
    uint8_t said[8192];
    for (int number = 0; number < 2; number++) {
        if (!look(number ? AF_INET6 : AF_INET, TCP, server, client, said, sizeof said))
            continue;
        uint8_t state = said[DIAG_STATE_AT];
        if (state != ESTABLISHED && state != SYN_RECEIVED && state != CLOSE_WAIT)
            continue;
        uint32_t uid;
        uint64_t cookie;
        memcpy(&uid, said + DIAG_UID_AT, 4);
        memcpy(&cookie, said + DIAG_COOKIE_AT, 8);
        /* An end that nobody has accepted yet has no owner; its listener has. */
        return is_of_ours(said) || (!uid && holds(TCP, server)) ? cookie : OTHERS;
    }
    return 0;
}

API int quick_is_ours(int protocol, const struct address *peer, const struct address *own,
                      uint64_t *cookie)
{
    return is_ours(protocol, peer, own, cookie);
}

API uint64_t quick_child(const struct address *server, const struct address *client)
{
    return child_of(server, client);
}

API int quick_holds(int protocol, const struct address *server)
{
    return holds(protocol, server);
}
