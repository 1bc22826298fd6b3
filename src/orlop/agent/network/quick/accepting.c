/* Answers accept: takes a connection, makes sure of who it is, and hands it over. As accepting.py.
 *
 * Only where no NetworkPolicy restricts who may come; else Python takes it. What nobody vouches for
 * is closed, and the caller never sees it. */
#include "quick.h"

#include <fcntl.h>
#include <poll.h>

enum { KEPT = 256 };
/* Seconds: for a notice that is late, as on a node that is full; on this node; and that a caller is
 * made to wait, as most of them come while one looks. */
static const double patience = 2, patience_here = 0.003, at_once = 0.0003;

struct kept { /* whose caller was interrupted before it had it, or that was in doubt */
    int is_there, connection;
    struct address own, peer; /* the port it came by, and its pod */
};

static struct kept kept[KEPT];
static unsigned kept_next, kept_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t take_lock = PTHREAD_MUTEX_INITIALIZER;

/* Whether what comes to `own` comes by a socket at `listening`. */
static int is_port(const struct address *listening, const struct address *own)
{
    return listening->port == own->port &&
           (is_any(listening) ||
            (listening->length == own->length && !memcmp(listening->ip, own->ip, own->length)));
}

void keep(const struct address *own, int connection, const struct address *peer)
{
    pthread_mutex_lock(&lock);
    struct kept *place = &kept[kept_next++ % KEPT];
    if (place->is_there)
        close(place->connection);
    else
        __atomic_add_fetch(&kept_count, 1, __ATOMIC_RELAXED);
    *place = (struct kept){1, connection, *own, *peer};
    pthread_mutex_unlock(&lock);
}

/* Of sockets that share a port each may have it. */
static int take_kept(const struct address *own, int flags, struct address *peer)
{
    int connection = -1;
    if (!__atomic_load_n(&kept_count, __ATOMIC_RELAXED))
        return -1;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT && connection < 0; i++)
        if (kept[i].is_there && is_port(own, &kept[i].own)) {
            connection = kept[i].connection;
            *peer = kept[i].peer;
            kept[i].is_there = 0;
            __atomic_sub_fetch(&kept_count, 1, __ATOMIC_RELAXED);
        }
    pthread_mutex_unlock(&lock);
    if (connection >= 0)
        fcntl(connection, F_SETFL, flags & O_NONBLOCK);
    return connection;
}

/* A connection that is there now, or minus an errno. */
static int take(int fd, int flags, int is_blocking, struct address *peer)
{
    uint8_t raw[NAME_MAX_LENGTH];
    socklen_t length = sizeof raw;
    struct pollfd ready = {fd, POLLIN, 0};
    int found = -1, code = EAGAIN;
    /* Of one that blocks, what we saw waiting nobody else takes; its flag is not touched, since
     * whoever is killed in between would leave it so. */
    if (is_blocking)
        pthread_mutex_lock(&take_lock);
    if (!is_blocking || poll(&ready, 1, 0) > 0) {
        found = accept4(fd, (struct sockaddr *)raw, &length, flags);
        code = errno;
    }
    if (is_blocking)
        pthread_mutex_unlock(&take_lock);
    if (found < 0)
        return -code;
    if (!parse(raw, length, peer))
        memset(peer, 0, sizeof *peer);
    return found;
}

static int is_here(const struct address *peer)
{
    return is4(peer, world.node) || is_loopback(peer);
}

static void own_end(const struct taking *taking, struct address *own)
{
    *own = taking->own;
    if (is_any(own))
        own_name(taking->connection, own);
}

static int by_notice(struct taking *taking, const struct address *real)
{
    struct notice notice;
    if (!find_notice(TCP, real, taking->port, &notice))
        return NOT_YET;
    if (!notice.peer.length) /* a knock of our own */
        return NOBODY;
    taking->peer = notice.peer;
    taking->peer.family = real->family;
    remember(cookie_of(taking->connection), &taking->peer, notice.own.length ? &notice.own : NULL);
    return SOMEBODY;
}

/* Who is at the other end; `taking->peer` is its real address before, and its pod's after. */
int judge(struct taking *taking)
{
    struct address real = taking->peer, own;
    int ours = -1, verdict;
    if (!real.length)
        return NOBODY;
    if ((verdict = by_notice(taking, &real)) != NOT_YET)
        return verdict;
    own_end(taking, &own);
    /* Another pod has no business at our localhost. */
    if (is_here(&real) && is4(&own, world.loopback) && !is4(&real, world.loopback))
        return NOBODY;
    read_notices();
    if ((verdict = by_notice(taking, &real)) != NOT_YET)
        return verdict;
    if (is_here(&real)) {
        ours = is_ours(TCP, &real, &own);
        if (ours == 1 && is4(&real, world.loopback)) { /* the agent: a probe, a forwarded port */
            set4(&taking->peer, htonl(INADDR_LOOPBACK));
        } else if (ours != 1 || !neighbour(&real, &taking->peer)) {
            if (ours == 0 && !world.allows_outside)
                return NOBODY;
            if (!world.allows_outside)
                goto unknown;
        }
        remember(cookie_of(taking->connection), &taking->peer, NULL);
        return SOMEBODY;
    }
    if (world.allows_outside) {
        remember(cookie_of(taking->connection), &taking->peer, NULL);
        return SOMEBODY;
    }
unknown:;
    double left = taking->doubt_until - now();
    /* A program of this user's on this node that is in no pod with a network of its own. */
    if (ours == 1 && left < patience - patience_here)
        return SOMEBODY;
    return left < 0 ? NOBODY : NOT_YET;
}

/* When one that is in doubt is to be judged anew, should no notice come before. */
double next_look(const struct taking *taking)
{
    double soon = taking->doubt_until - patience + patience_here;
    return now() < soon ? soon : taking->doubt_until;
}

/* Judge one that has just come; a notice that is about to come is waited for. */
static int judge_at_once(struct taking *taking)
{
    double until = now() + at_once, left = at_once;
    int verdict;
    taking->doubt_until = now() + patience;
    while ((verdict = judge(taking)) == NOT_YET && left > 0 && await_notice(left))
        left = until - now();
    return verdict;
}

static void deliver(const struct call *call, struct taking *taking)
{
    int connection = taking->connection;
    taking->connection = -1;
    int code = write_name(call, call->asked.args[1], call->asked.args[2], &taking->peer);
    if (code && answer(call, code)) {
        close(connection);
        return;
    }
    if (!code && answer_with(call, connection, taking->flags & O_CLOEXEC))
        close(connection);
    else
        keep(&taking->own, connection, &taking->peer);
}

/* Go as far as can be gone now: DONE, TO_PYTHON, or WAIT for so many seconds (0: for ever). */
int resume_accept(const struct call *call, int fd, struct taking *taking, double *seconds)
{
    taking->connection = take_kept(&taking->own, taking->flags, &taking->peer);
    while (taking->connection < 0) {
        if (!ingress_free) /* a NetworkPolicy has come while it waited */
            return TO_PYTHON;
        int found = take(fd, taking->flags, taking->is_blocking, &taking->peer);
        if (found == -EAGAIN) {
            double left = taking->give_up_at ? taking->give_up_at - now() : 0;
            if (!taking->is_blocking || left < 0) {
                answer(call, -EAGAIN);
                return DONE;
            }
            *seconds = left;
            return WAIT;
        }
        if (found < 0) {
            answer(call, found);
            return DONE;
        }
        taking->connection = found;
        int verdict = judge_at_once(taking);
        if (verdict == SOMEBODY)
            break;
        if (verdict == NOT_YET)
            put_aside(taking);
        else
            close(found);
        taking->connection = -1;
    }
    deliver(call, taking);
    return DONE;
}

static double receive_timeout(int fd)
{
    struct timeval found = {0};
    socklen_t length = sizeof found;
    getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &found, &length);
    return found.tv_sec + found.tv_usec / 1e6;
}

int do_accept(struct desk *desk, const struct call *call, int flags)
{
    struct taking taking = {.flags = flags, .connection = -1};
    struct address name;
    double seconds = 0;
    int fd = grab(desk, call, (int)call->asked.args[0]);
    if (fd < 0)
        return TO_PYTHON;
    if (!own_name(fd, &taking.own) || option(fd, SOL_SOCKET, SO_PROTOCOL) != TCP) {
        go_on(call);
        close(fd);
        return DONE;
    }
    if (is_any(&taking.own)) { /* a hostPort, where others come, too */
        close(fd);
        return TO_PYTHON;
    }
    shown(TCP, &taking.own, 1, &name);
    taking.port = name.port;
    taking.is_blocking = is_blocking(fd);
    if (taking.is_blocking) {
        double timeout = receive_timeout(fd);
        taking.give_up_at = timeout > 0 ? now() + timeout : 0;
    }
    int result = resume_accept(call, fd, &taking, &seconds);
    if (result == WAIT) {
        wait_accept(call, fd, &taking, seconds);
        return DONE;
    }
    close(fd);
    return result;
}

/* For Python, where it answers an accept itself. */

API int quick_take(int fd, int flags, int is_blocking, struct address *peer)
{
    return take(fd, flags, is_blocking, peer);
}

API void quick_keep(int fd, int connection, const struct address *peer)
{
    struct address own;
    if (own_name(fd, &own))
        keep(&own, connection, peer);
}

API int quick_take_kept(int fd, int flags, struct address *peer)
{
    struct address own;
    return own_name(fd, &own) ? take_kept(&own, flags, peer) : -1;
}
