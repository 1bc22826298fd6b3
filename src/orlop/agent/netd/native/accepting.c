/* Answers accept: takes a connection, makes sure of who it is, and hands it over. As tcp/accept.py.
 *
 * Only where no NetworkPolicy restricts who may come; else Python takes it. What nobody vouches for
 * is closed, and the caller never sees it. */
#include "quick.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

enum { KEPT = 64 };
enum { NOBODY, SOMEBODY, NOT_YET };
static const double patience = 0.05, patience_here = 0.003; /* seconds */
/* As tcp/accept.py: where the caller would wait in any case. */
static const double patience_at_leisure = 1.5, look_seldom = 0.01;
/* A notice is sent just after its connection, and most that are late come while one looks: to wait
 * for it here takes less than to be woken again. */
static const double at_once = 0.0003;

struct kept { /* a connection whose caller was interrupted before it knew of it */
    uint64_t listening; /* the cookie of the socket it came by */
    int connection, number; /* number: what a caller may have it by already, or less than 0 */
    struct address peer; /* empty: nobody has made sure of it yet */
};

static struct kept kept[KEPT];
static unsigned kept_next, kept_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t take_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep(uint64_t listening, int connection, const struct address *peer, int number)
{
    pthread_mutex_lock(&lock);
    struct kept *place = &kept[kept_next++ % KEPT];
    if (place->listening)
        close(place->connection);
    *place = (struct kept){listening, connection, number, *peer};
    kept_count++;
    pthread_mutex_unlock(&lock);
    look_for_kept();
}

static int take_kept(int fd, struct address *peer, int *number)
{
    int connection = -1;
    if (!__atomic_load_n(&kept_count, __ATOMIC_RELAXED))
        return -1;
    uint64_t cookie = cookie_of(fd);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT && connection < 0; i++)
        if (kept[i].listening == cookie) {
            connection = kept[i].connection;
            *peer = kept[i].peer;
            *number = kept[i].number;
            kept[i].listening = 0;
        }
    pthread_mutex_unlock(&lock);
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

/* Whether a notice, or a netd before us, has said who it is. */
static int is_vouched(struct taking *taking, const struct address *real)
{
    struct names found;
    if (!vouched(cookie_of(taking->connection), real->family, &found))
        return 0;
    taking->peer = found.peer;
    taking->peer.family = real->family;
    return 1;
}

/* Whether the caller is one who would wait in any case, and has not waited for a stranger yet. */
static int is_at_leisure(const struct taking *taking, double left)
{
    if (!taking->is_blocking || taking->was_in_vain || left < patience - patience_at_leisure)
        return 0;
    return !taking->give_up_at || now() <= taking->give_up_at;
}

/* Who is at the other end; `taking->peer` is its real address before, and its pod's after. */
static int judge(struct taking *taking)
{
    struct address real = taking->peer, own;
    struct names names;
    uint64_t cookie;
    int ours = -1;
    if (!real.length)
        return NOBODY;
    if (is_vouched(taking, &real))
        return SOMEBODY;
    own_end(taking, &own);
    /* Another pod has no business at our localhost. */
    int is_amiss = is_here(&real) && is4(&own, world.loopback) && !is4(&real, world.loopback);
    if (!is_amiss) {
        read_notices();
        if (is_vouched(taking, &real))
            return SOMEBODY;
    }
    if (is_here(&real)) {
        ours = is_ours(TCP, &real, &own, &cookie);
        /* One of the pod's own that is not expected yet, or was by the netd before us. */
        if (sibling(cookie, &real, taking->port, &names)) {
            taking->peer = names.peer;
            taking->peer.family = real.family;
            remember(cookie_of(taking->connection), &taking->peer, &names.own);
            return SOMEBODY;
        }
        if (is_amiss)
            return NOBODY;
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
    return left >= 0 || is_at_leisure(taking, left) ? NOT_YET : NOBODY;
}

static int judge_at_once(struct taking *taking)
{
    double until = now() + at_once, left = at_once;
    int verdict;
    while ((verdict = judge(taking)) == NOT_YET && left > 0) {
        await_notice(left);
        left = until - now();
    }
    return verdict;
}

static void deliver(const struct call *call, int fd, struct taking *taking)
{
    int connection = taking->connection, number = taking->number;
    int room = taking->room;
    uint64_t listening = cookie_of(fd);
    taking->connection = taking->number = taking->room = -1;
    int code = write_name(call, call->asked.args[1], call->asked.args[2], &taking->peer);
    if (!code && (number < 0 || !has(call, number, connection)))
        number = give(call, connection, taking->flags & O_CLOEXEC);
    collect(room); /* the caller has it, and is told at once */
    if (code && answer(call, code)) {
        close(connection);
        return;
    }
    if (!code && number >= 0 &&
        answer_given(call, number, connection, taking->flags & O_CLOEXEC)) {
        close(connection);
        return;
    }
    if (number == -EMFILE || number == -ENFILE)
        answer(call, number);
    keep(listening, connection, &taking->peer, number);
}

void turn_away(struct taking *taking)
{
    if (taking->connection >= 0)
        close(taking->connection);
    collect(taking->room);
    taking->connection = taking->number = taking->room = -1;
}

/* Go as far as can be gone now: DONE, TO_PYTHON, or WAIT for so many seconds (0: for ever). */
int resume_accept(const struct call *call, int fd, struct taking *taking, double *seconds,
                  int *is_for_socket)
{
    if (taking->connection < 0) {
        taking->connection = take_kept(fd, &taking->peer, &taking->number);
        if (taking->connection >= 0 && taking->peer.length) {
            deliver(call, fd, taking);
            return DONE;
        }
        if (taking->connection >= 0) { /* of a netd that was killed before it knew who it was */
            if (!ingress_free) {
                keep(cookie_of(fd), taking->connection, &taking->peer, taking->number);
                taking->connection = -1;
                return TO_PYTHON;
            }
            taking->room = deposit(call, cookie_of(fd), taking->connection);
            if (peer_name(taking->connection, &taking->peer) <= 0)
                memset(&taking->peer, 0, sizeof taking->peer);
            taking->doubt_until = now() + patience;
        }
    }
    for (;;) {
        int is_new = taking->connection < 0;
        if (is_new) {
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
                *is_for_socket = 1;
                return WAIT;
            }
            if (found < 0) {
                answer(call, found);
                return DONE;
            }
            taking->connection = found;
            taking->room = deposit(call, cookie_of(fd), found);
            taking->doubt_until = now() + patience;
        }
        int verdict = is_new ? judge_at_once(taking) : judge(taking);
        if (verdict == NOT_YET) {
            *is_for_socket = 0;
            *seconds = now() > taking->doubt_until ? look_seldom : LOOK_AGAIN;
            return WAIT;
        }
        if (verdict == SOMEBODY) {
            deliver(call, fd, taking);
            return DONE;
        }
        /* Those behind a stranger have been at the door as long, and their notices, too. */
        taking->was_in_vain |= now() > taking->doubt_until;
        turn_away(taking);
    }
}

/* The caller hears nothing more: whom it would have got is kept for its next accept. */
int leave_accept(const struct call *call, int fd, struct taking *taking)
{
    if (taking->connection < 0 || (kill((pid_t)call->asked.pid, 0) && errno == ESRCH))
        return DONE;
    int verdict = judge(taking);
    if (verdict == SOMEBODY) {
        keep(cookie_of(fd), taking->connection, &taking->peer, taking->number);
        taking->connection = -1;
    }
    return verdict == NOT_YET ? WAIT : DONE;
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
    struct taking taking = {.flags = flags, .connection = -1, .room = -1, .number = -1};
    struct address name;
    double seconds = 0;
    int is_for_socket = 1;
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
    int result = resume_accept(call, fd, &taking, &seconds, &is_for_socket);
    if (result == WAIT) {
        wait_accept(call, fd, &taking, seconds, is_for_socket);
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

API void quick_keep(uint64_t listening, int connection, const struct address *peer, int number)
{
    keep(listening, connection, peer, number);
}

API int quick_take_kept(int fd, struct address *peer, int *number)
{
    return take_kept(fd, peer, number);
}
