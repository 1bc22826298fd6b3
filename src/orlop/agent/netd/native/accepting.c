/* Answers accept: takes a connection, makes sure of who it is, and hands it over. The steps of
 * tcp/accept.py; what both decide is in tcp/decisions.py.
 *
 * Only where no NetworkPolicy restricts who may come; else Python takes it. What nobody vouches for
 * is closed, and the caller never sees it. */
#include "quick.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

/* A notice is sent just after its connection, and most that are late come while one looks: to wait
 * for it here takes less than to be woken again. */
static const double at_once = 0.0003;

struct kept { /* a connection whose caller was interrupted before it knew of it */
    uint64_t listening; /* the cookie of the socket it came by */
    int connection, number; /* number: what a caller may have it by already, or less than 0 */
    struct address peer; /* empty: nobody has made sure of it yet */
};

static struct kept kept[MAX_KEPT];
static unsigned kept_next, kept_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t take_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep(uint64_t listening, int connection, const struct address *peer, int number)
{
    pthread_mutex_lock(&lock);
    struct kept *place = &kept[kept_next++ % MAX_KEPT];
    if (place->listening)
        close(place->connection);
    else
        kept_count++;
    *place = (struct kept){listening, connection, number, *peer};
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
    for (int i = 0; i < MAX_KEPT && connection < 0; i++)
        if (kept[i].listening == cookie) {
            connection = kept[i].connection;
            *peer = kept[i].peer;
            *number = kept[i].number;
            kept[i].listening = 0;
            kept_count--;
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

static int might_wait(const struct taking *taking, double left)
{
    int is_over = taking->give_up_at && now() > taking->give_up_at;
    return is_at_leisure(taking->is_blocking, taking->was_in_vain, left, is_over);
}

/* Who is at the other end; `taking->peer` is its real address before, and its pod's after. */
static int judge(struct taking *taking)
{
    struct address real = taking->peer, own, pod;
    struct names names;
    uint64_t cookie = cookie_of(taking->connection), client;
    int owner = UNTOLD, verdict = NOT_YET;
    if (!real.length)
        return NOBODY;
    own_end(taking, &own);
    int is_from_loopback = is4(&real, world.loopback), is_pods = neighbour(&real, &pod);
    int is_amiss = comes_amiss(is_here(&real), is4(&own, world.loopback), is_from_loopback);
    int is_vouched = vouched(cookie, real.family, &names);
    if (!is_vouched) {
        read_notices();
        is_vouched = vouched(cookie, real.family, &names);
    }
    if (is_vouched) {
        verdict = judge_vouched(is_amiss, names.own.length);
    } else if (is_here(&real)) {
        owner = is_ours(TCP, &real, &own, &client);
        int is_sibling = sibling(client, &real, taking->port, &names);
        verdict = judge_here(owner, is_sibling, is_amiss, is_from_loopback, is_pods);
    }
    if (verdict == NOT_YET)
        verdict = judge_other(owner, is_pods, world.allows_outside, world.allows_outside);
    if (verdict == NOT_YET) {
        double left = taking->doubt_until - now();
        return judge_late(owner, is_pods, world.allows_outside, left, might_wait(taking, left));
    }
    if (verdict == VOUCHED || verdict == SIBLING)
        taking->peer = names.peer;
    else if (verdict == NEIGHBOUR)
        taking->peer = pod;
    else if (verdict == AGENT)
        set4(&taking->peer, htonl(INADDR_LOOPBACK));
    taking->peer.family = real.family;
    if (verdict != VOUCHED && is_known(verdict))
        remember(cookie, &taking->peer, verdict == SIBLING ? &names.own : NULL);
    return verdict;
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
        code = (number = give(call, connection, taking->flags & O_CLOEXEC)) < 0 ? number : 0;
    collect(room); /* the caller has it, and is told at once */
    int is_heard = code ? answer(call, code)
                        : answer_given(call, number, connection, taking->flags & O_CLOEXEC);
    if (is_kept(-code, is_heard))
        keep(listening, connection, &taking->peer, number);
    else
        close(connection);
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
            taking->doubt_until = now() + DOUBT;
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
            taking->doubt_until = now() + DOUBT;
        }
        int verdict = is_new ? judge_at_once(taking) : judge(taking);
        if (verdict == NOT_YET) {
            *is_for_socket = 0;
            *seconds = until_next_look(taking->doubt_until - now());
            return WAIT;
        }
        if (is_known(verdict)) {
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
    if (is_known(verdict)) {
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
