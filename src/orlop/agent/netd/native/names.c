/* Who is who: getsockname and getpeername with the names that the pod's programs know.
 * As identity/names.py, sockets/getsockname.py and tcp/connection_table.py, over the same memory. */
#include "quick.h"

/* Written in an order in which no reader takes one socket's names for another's. */
void remember(uint64_t cookie, const struct address *peer, const struct address *own)
{
    struct entry *entry = (struct entry *)world.names + cookie % NAMES;
    struct entry made = {cookie, {(uint8_t)peer->length, 0, peer->port, {0}}, {0}};
    memcpy(made.peer.ip, peer->ip, peer->length);
    if (own) {
        made.own.length = (uint8_t)own->length;
        made.own.port = own->port;
        memcpy(made.own.ip, own->ip, own->length);
    }
    __atomic_store_n(&entry->cookie, 0, __ATOMIC_SEQ_CST);
    entry->peer = made.peer;
    entry->own = made.own;
    __atomic_store_n(&entry->cookie, cookie, __ATOMIC_SEQ_CST);
}

/* It speaks with nobody of the cluster. */
void forget(uint64_t cookie)
{
    struct entry *entry = (struct entry *)world.names + cookie % NAMES;
    if (entry->cookie == cookie)
        entry->cookie = 0;
}

static void read_name(const struct name *name, int family, struct address *found)
{
    memset(found, 0, sizeof *found);
    found->family = (uint16_t)family;
    found->port = name->port;
    found->length = name->length == 16 ? 16 : 4;
    memcpy(found->ip, name->ip, found->length);
}

/* Whom a socket speaks with; `has_own`: it has a name of its own there, too. */
static int recall(uint64_t cookie, int family, struct address *peer, struct address *own,
                  int *has_own)
{
    const struct entry *at = (struct entry *)world.names + cookie % NAMES;
    struct entry entry = {__atomic_load_n(&at->cookie, __ATOMIC_SEQ_CST), at->peer, at->own};
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (entry.cookie != cookie || __atomic_load_n(&at->cookie, __ATOMIC_SEQ_CST) != cookie)
        return 0;
    read_name(&entry.peer, family, peer);
    *has_own = entry.own.length != 0;
    if (*has_own)
        read_name(&entry.own, family, own);
    return 1;
}

static void as_pod(struct address *address)
{
    if (is4(address, world.node) || is4(address, world.loopback))
        set4(address, world.pod);
}

/* The pod of this node that a loopback address stands for. */
int neighbour(const struct address *real, struct address *found)
{
    *found = *real;
    if (real->length != 4 || real->ip[0] != 127)
        return 0;
    uint32_t pod = world.pod;
    memcpy((uint8_t *)&pod + 1, real->ip + 1, 3);
    if (!in_pods(pod))
        return 0;
    set4(found, pod);
    return 1;
}

/* The real address of a socket of ours, as its program should see it. */
void shown(int protocol, const struct address *real, int is_connected, struct address *found)
{
    struct address given;
    *found = *real;
    if (!given_to(protocol, real, &given)) {
        as_pod(found);
        return;
    }
    found->port = given.port;
    found->length = given.length;
    memcpy(found->ip, given.ip, sizeof found->ip);
    if (is_any(&given) && is_connected)
        set4(found, world.pod);
}

/* Who speaks to itself by its loopback has that name there, too. */
void towards(const struct address *peer, struct address *shown)
{
    if (!is_loopback(peer) && !is_any(peer))
        return;
    memset(shown->ip, 0, sizeof shown->ip);
    shown->length = peer->length;
    if (peer->length == 4)
        shown->ip[0] = 127;
    shown->ip[peer->length - 1] = 1;
}

/* Our port as one of this pod knows it that asked for `to`; by a service, by the pod's address. */
void named(const struct address *to, uint16_t port, struct address *found)
{
    *found = *to;
    found->port = port;
    if (!is_loopback(to) && !is_any(to))
        set4(found, world.pod);
}

/* Who an accepted connection is, by a notice or a netd before us. */
int vouched(uint64_t cookie, int family, struct names *found)
{
    int has_own;
    memset(found, 0, sizeof *found);
    return recall(cookie, family, &found->peer, &found->own, &has_own);
}

/* Of a connection to our port from a socket of this very pod: its names at both ends. */
int sibling(uint64_t cookie, const struct address *real, uint16_t port, struct names *found)
{
    struct address to, own;
    int has_own;
    if (!cookie || !recall(cookie, real->family, &to, &own, &has_own))
        return 0;
    shown(TCP, real, 1, &found->peer);
    towards(&to, &found->peer);
    named(&to, port, &found->own);
    return 1;
}

static int finish(const struct call *call, const struct address *name)
{
    int code = write_name(call, call->asked.args[1], call->asked.args[2], name);
    answer(call, code);
    return DONE;
}

int do_getsockname(struct desk *desk, const struct call *call)
{
    struct address real, peer, own, found;
    int has_own, result = TO_PYTHON, fd = grab(desk, call, (int)call->asked.args[0]);
    if (fd < 0)
        return TO_PYTHON;
    int protocol = option(fd, SOL_SOCKET, SO_PROTOCOL);
    if (!own_name(fd, &real) || (protocol != TCP && protocol != UDP))
        goto out; /* unix, and whatever else there is */
    if (!real.port && is_any(&real)) {
        go_on(call);
        result = DONE;
        goto out;
    }
    if (!recall(cookie_of(fd), real.family, &peer, &own, &has_own)) {
        shown(protocol, &real, peer_name(fd, &peer) > 0, &found);
    } else {
        shown(protocol, &real, 1, &found);
        if (has_own) {
            own.port = found.port;
            found = own;
        } else {
            towards(&peer, &found);
        }
    }
    result = finish(call, &found);
out:
    close(fd);
    return result;
}

int do_getpeername(struct desk *desk, const struct call *call)
{
    struct address real, own, found;
    int has_own, result = TO_PYTHON, fd = grab(desk, call, (int)call->asked.args[0]);
    if (fd < 0)
        return TO_PYTHON;
    int code = peer_name(fd, &real);
    if (code < 0) {
        answer(call, code);
        result = DONE;
    } else if (code > 0) {
        if (recall(cookie_of(fd), real.family, &found, &own, &has_own) || neighbour(&real, &found))
            result = finish(call, &found);
        else
            go_on(call), result = DONE;
    }
    close(fd);
    return result;
}
