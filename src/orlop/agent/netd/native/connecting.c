/* Answers connect: on the caller's own socket, to where the destination really is. As tcp/connect.py
 * and identity/proof.py.
 *
 * The socket is set going without waiting. A connection to a pod is told to the program when it is
 * known whose the other end is: on this node by the kernel, on another by the word of that pod's
 * netd. A blocking call is then handed back to the kernel, which waits in the caller. */
#include "quick.h"

#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>

enum { BIND_NO_PORT = 24, FASTOPEN_CONNECT = 30, UNHEARD = 64, MAX_AGAIN = 2 };
enum { FAILED = 3 }; /* beside DONE, TO_PYTHON and WAIT: `error` of the attempt says why */
/* Seconds, as in tcp/connect.py and identity/proof.py. */
static const double patience = 0.3, patience_at_once = 1.3, patience_at_leisure = 130;
static const double proof_time = 3, proof_time_of_many = 1;
static const double first_pause = 0.002, longest_pause = 0.2, heard = 0.3;

static uint64_t unheard[UNHEARD]; /* sockets whose answer met a signal instead of the caller */
static unsigned unheard_next, unheard_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void not_heard(uint64_t cookie)
{
    pthread_mutex_lock(&lock);
    unheard[unheard_next++ % UNHEARD] = cookie;
    unheard_count++;
    pthread_mutex_unlock(&lock);
}

static int was_unheard(uint64_t cookie)
{
    int is_found = 0;
    if (!__atomic_load_n(&unheard_count, __ATOMIC_RELAXED))
        return 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < UNHEARD && !is_found; i++)
        if (unheard[i] == cookie) {
            unheard[i] = 0;
            is_found = 1;
        }
    pthread_mutex_unlock(&lock);
    return is_found;
}

static int tcp_state(int fd)
{
    uint8_t state = 0;
    socklen_t length = 1;
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &length);
    return state;
}

/* 0 or the errno. */
static int connect_now(const struct call *call, int fd, const struct attempt *attempt,
                       const struct address *to)
{
    uint8_t raw[NAME_MAX_LENGTH];
    unsigned length = pack(to, raw);
    if (attempt->is_blocking)
        return connect_lent(call, fd, raw, length, attempt->cookie);
    return connect(fd, (struct sockaddr *)raw, length) ? errno : 0;
}

static void come_from(int fd, int family, uint32_t ip)
{
    uint8_t raw[NAME_MAX_LENGTH];
    struct address source = {(uint16_t)family, 0, 4, {0}};
    int on = 1;
    memcpy(source.ip, &ip, 4);
    setsockopt(fd, IPPROTO_IP, BIND_NO_PORT, &on, sizeof on);
    unsigned length = pack(&source, raw);
    if (bind(fd, (struct sockaddr *)raw, length)) {
        /* it is announced all the same */
    }
}

/* By its source address a server on this node knows the pod, unless it has one already. */
static void choose_source(int fd, const struct attempt *attempt, const struct place *place)
{
    struct address own = attempt->own;
    int family = attempt->to.family;
    if ((attempt->next > 1 && !own_name(fd, &own)) || own.port) /* it was tried before */
        return;
    if (is4(&place->real, world.node) || is4(&place->real, world.loopback))
        come_from(fd, family, world.loopback);
    else if (is4(&own, world.loopback)) /* an endpoint on this node has refused it */
        come_from(fd, family, 0);
}

static struct place *place_of(struct attempt *attempt)
{
    return &attempt->places[attempt->next - 1];
}

static int is_last(const struct attempt *attempt)
{
    return attempt->next == attempt->count && !attempt->has_more;
}

/* Whether the kernel can be asked about a place. */
static int is_here(const struct place *place)
{
    int is_local = is4(&place->real, world.node) || is4(&place->real, world.loopback);
    return is_local && world.diagnostics >= 0;
}

static int is_held_here(const struct place *place)
{
    struct address server = place->real;
    server.family = AF_INET;
    return world.diagnostics < 0 || holds(TCP, &server);
}

static int start(const struct call *call, int fd, struct attempt *attempt,
                 const struct place *place)
{
    int off = 0;
    if (attempt->to.family == AF_INET6 && attempt->to.length == 16 && place->real.length == 4)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    /* Else the kernel may wait for the first data, and send it before anything is proven. */
    setsockopt(fd, IPPROTO_TCP, FASTOPEN_CONNECT, &off, sizeof off);
    choose_source(fd, attempt, place);
    /* Before it is on its way: whoever follows us must know, should we end just after. */
    attempt->cookie = cookie_of(fd);
    remember(attempt->cookie, &attempt->to, NULL);
    int code = connect_now(call, fd, attempt, &place->real);
    if (code == EINPROGRESS && tcp_state(fd) == TCP_CLOSE) /* refused on this very node */
        code = connect_now(call, fd, attempt, &place->real);
    if (code && code != EINPROGRESS)
        forget(attempt->cookie);
    return code;
}

static int is_unreached(int code)
{
    return code == ECONNREFUSED || code == EHOSTUNREACH || code == ENETUNREACH || code == ETIMEDOUT;
}

static int on_its_way(const struct call *call, const struct attempt *attempt)
{
    if (attempt->is_blocking)
        go_on(call);
    else if (!answer(call, -EINPROGRESS))
        not_heard(attempt->cookie);
    return DONE;
}

/* Whether a connection that is made on this node ends at one of ours; tells who comes. */
static int is_proven_here(int fd, struct attempt *attempt)
{
    const struct place *place = place_of(attempt);
    struct address real, server = place->real, name, own;
    server.family = AF_INET;
    if (!own_name(fd, &real) || real.length == 16)
        return holds(TCP, &server);
    uint64_t child = child_of(&server, &real);
    shown(TCP, &real, 1, &name);
    if (child == OTHERS)
        return 0;
    if (place->is_own) {
        towards(&attempt->to, &name);
        named(&attempt->to, place->port, &own);
        if (child)
            remember(child, &name, &own);
    } else if (child) {
        uint8_t raw[NOTICE_LENGTH];
        make_notice(&real, name.port, place, attempt->cookie, child, raw);
        send_notice(raw, place);
    }
    return child || holds(TCP, &server);
}

/* Make ready what the netd of a place elsewhere has to acknowledge. */
static int prepare_notice(int fd, struct attempt *attempt)
{
    struct address real, name;
    if (!own_name(fd, &real) || real.length == 16)
        return 0;
    shown(TCP, &real, 1, &name);
    make_notice(&real, name.port, place_of(attempt), attempt->cookie, 0, attempt->notice);
    attempt->said = 0;
    attempt->pause = first_pause;
    return 1;
}

/* Say it, if it is time, but not so late that it would be heard after `until`. */
static void say(struct attempt *attempt, double until)
{
    double time = now();
    if (time < attempt->said + attempt->pause || time >= until - heard)
        return;
    if (attempt->said)
        attempt->pause = attempt->pause * 2 < longest_pause ? attempt->pause * 2 : longest_pause;
    attempt->said = time;
    send_notice(attempt->notice, place_of(attempt));
}

/* When the kernel's handshake has taken too long. */
static double patience_ends(const struct attempt *attempt)
{
    if (attempt->left)
        return attempt->left + patience_at_once;
    if (!is_last(attempt))
        return attempt->began + patience;
    return attempt->began + (attempt->is_blocking ? patience_at_leisure : patience_at_once);
}

/* The events to wait for, and for how long. */
uint32_t awaits(const struct attempt *attempt, double *seconds)
{
    double due = attempt->is_asked ? attempt->said + attempt->pause : patience_ends(attempt);
    *seconds = due - now() > 0.0005 ? due - now() : 0.0005;
    return attempt->is_asked ? 0 : EPOLLOUT; /* an error is told all the same */
}

static int try_next(const struct call *call, int fd, struct attempt *attempt);

/* Leave a place where nobody of ours has answered. */
static int leave_place(const struct call *call, int fd, struct attempt *attempt, int error)
{
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    connect(fd, &nowhere, sizeof nowhere);
    attempt->error = error;
    return try_next(call, fd, attempt);
}

/* The kernel has connected it: is it to whom it was meant for? */
static int on_handshake(const struct call *call, int fd, struct attempt *attempt)
{
    if (!attempt->is_asked) {
        if (!is_here(place_of(attempt)) || is_proven_here(fd, attempt))
            return on_its_way(call, attempt);
        return leave_place(call, fd, attempt, ECONNREFUSED);
    }
    if (!attempt->made)
        attempt->made = now();
    double until = attempt->made + (is_last(attempt) ? proof_time : proof_time_of_many);
    if (now() >= until)
        return leave_place(call, fd, attempt, ECONNREFUSED);
    say(attempt, until);
    return WAIT;
}

/* Set the present place going. */
static int set_going(const struct call *call, int fd, struct attempt *attempt)
{
    const struct place *place = place_of(attempt);
    int code = start(call, fd, attempt, place);
    attempt->is_asked = attempt->is_acknowledged = 0;
    if (code && code != EINPROGRESS) {
        attempt->error = code;
        return FAILED;
    }
    int is_made = tcp_state(fd) == TCP_ESTABLISHED;
    attempt->began = now();
    attempt->made = 0;
    if (place->is_own || (place->notice && is_here(place))) {
        if (is_made)
            return on_handshake(call, fd, attempt);
        /* To a port of the pod itself the kernel waits: who is to accept may be the caller. */
        return place->is_own && is_last(attempt) && is_held_here(place) ? on_its_way(call, attempt)
                                                                       : WAIT;
    }
    if (place->notice && prepare_notice(fd, attempt)) {
        attempt->is_asked = world.needs_proof;
        attempt->said = now();
        if (!attempt->is_asked) {
            send_notice(attempt->notice, place);
        } else {
            await_acknowledgement(attempt);
            return attempt->is_acknowledged ? on_its_way(call, attempt) : WAIT;
        }
    }
    return is_last(attempt) || is_made ? on_its_way(call, attempt) : WAIT;
}

/* Try until one is on its way. */
static int try_next(const struct call *call, int fd, struct attempt *attempt)
{
    while (attempt->next < attempt->count) {
        attempt->next++;
        attempt->again = 0;
        int result = set_going(call, fd, attempt);
        if (result != FAILED)
            return result;
        if (!is_unreached(attempt->error))
            break;
    }
    if (is_unreached(attempt->error) && attempt->has_more)
        return TO_PYTHON;
    answer(call, -attempt->error);
    return DONE;
}

static int is_closed(int code)
{
    return code == ECONNABORTED || code == ECONNRESET || code == EPIPE;
}

static int on_failure(const struct call *call, int fd, struct attempt *attempt, int code)
{
    if (is_closed(code) && attempt->again < MAX_AGAIN) {
        /* The server's netd had it in its hands before our notice: nothing was sent yet. */
        attempt->again++;
        int result = set_going(call, fd, attempt);
        if (result != FAILED)
            return result;
        code = attempt->error;
    }
    attempt->error = is_closed(code) ? ECONNREFUSED : code;
    if (is_unreached(attempt->error))
        return try_next(call, fd, attempt);
    answer(call, -code);
    return DONE;
}

/* Look what has become of one that waits. */
int resume_connect(const struct call *call, int fd, struct attempt *attempt, int is_ready)
{
    if (attempt->is_acknowledged)
        return on_its_way(call, attempt);
    int state = tcp_state(fd);
    if (is_ready || (state != TCP_SYN_SENT && state != TCP_ESTABLISHED)) {
        /* Asked again, the kernel gives the error and makes the socket fresh. */
        int code = connect_now(call, fd, attempt, &place_of(attempt)->real);
        if (code && code != EINPROGRESS && code != EALREADY && code != EISCONN)
            return on_failure(call, fd, attempt, code);
    }
    if (state != TCP_SYN_SENT)
        return on_handshake(call, fd, attempt);
    if (now() >= patience_ends(attempt))
        return leave_place(call, fd, attempt, ETIMEDOUT);
    if (attempt->is_asked)
        say(attempt, patience_ends(attempt));
    return WAIT;
}

/* The caller was interrupted or is gone; if it lives it may go on with the socket, or ask again. */
int leave_connect(const struct call *call, int fd, struct attempt *attempt)
{
    if (kill((pid_t)call->asked.pid, 0) && errno == ESRCH) {
        attempt->left = 0;
        /* While the notice may still be heard the connection must not become another's. */
        return attempt->is_asked && now() < attempt->said + heard ? WAIT : DONE;
    }
    if (!attempt->left)
        attempt->left = now();
    return resume_connect(call, fd, attempt, 0);
}

/* A socket that is on its way, connected or listening: the kernel says which. Where a policy holds
 * it is not let look again at what its caller may have changed. */
static int again(const struct call *call, int fd)
{
    if (take_up_connect(call, fd)) /* it is answered by who makes it */
        return DONE;
    if (!egress_free || is_blocking(fd) || !was_unheard(cookie_of(fd)))
        return TO_PYTHON;
    answer(call, -EINPROGRESS);
    return DONE;
}

int do_connect(struct desk *desk, const struct call *call)
{
    uint8_t raw[NAME_MAX_LENGTH];
    uint32_t length = (uint32_t)call->asked.args[2];
    struct address to;
    struct attempt attempt;
    if (length < 16 || length > sizeof raw || read_caller(call, call->asked.args[1], raw, length) ||
        !parse(raw, length, &to))
        return TO_PYTHON;
    int fd = grab(desk, call, (int)call->asked.args[0]);
    if (fd < 0)
        return TO_PYTHON;
    int result = TO_PYTHON;
    if (option(fd, SOL_SOCKET, SO_PROTOCOL) != TCP || !own_name(fd, &attempt.own))
        goto out;
    result = DONE;
    if (attempt.own.port && tcp_state(fd) != TCP_CLOSE) {
        result = again(call, fd);
        goto out;
    }
    switch (find_places(&to, &attempt)) {
    case OUTSIDE:
        forget(cookie_of(fd));
        go_on(call);
        break;
    case UNKNOWN:
        result = TO_PYTHON;
        break;
    default:
        attempt.is_blocking = is_blocking(fd);
        attempt.error = ECONNREFUSED;
        attempt.is_asked = 0;
        attempt.left = 0;
        result = try_next(call, fd, &attempt);
    }
    if (result == WAIT) {
        wait_connect(call, fd, &attempt);
        return DONE;
    }
out:
    close(fd);
    return result;
}

API void quick_not_heard(uint64_t cookie)
{
    not_heard(cookie);
}
