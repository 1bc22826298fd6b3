/* Answers connect: on the caller's own socket, to where the destination really is. The steps of
 * tcp/connect.py and identity/proof.py; what both decide is in tcp/decisions.py.
 *
 * The socket is set going without waiting. A connection to a pod is told to the program when it is
 * known whose the other end is: on this node by the kernel, on another by the word of that pod's
 * netd. A blocking call is then handed back to the kernel, which waits in the caller. */
#include "quick.h"

#include <signal.h>
#include <sys/epoll.h>

enum { BIND_NO_PORT = 24, FASTOPEN_CONNECT = 30 };
enum { FAILED = 3 }; /* beside DONE, TO_PYTHON and WAIT: `error` of the attempt says why */

static uint64_t unheard[MAX_UNHEARD]; /* sockets whose answer met a signal instead of the caller */
static unsigned unheard_next, unheard_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void not_heard(uint64_t cookie)
{
    pthread_mutex_lock(&lock);
    unheard[unheard_next++ % MAX_UNHEARD] = cookie;
    unheard_count++;
    pthread_mutex_unlock(&lock);
}

static int was_unheard(uint64_t cookie)
{
    int is_found = 0;
    if (!__atomic_load_n(&unheard_count, __ATOMIC_RELAXED))
        return 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_UNHEARD && !is_found; i++)
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

static int is_local(const struct place *place)
{
    return is4(&place->real, world.node) || is4(&place->real, world.loopback);
}

/* By its source address a server on this node knows the pod, unless it has one already. */
static void choose_source(int fd, const struct attempt *attempt, const struct place *place)
{
    struct address own = attempt->own;
    if (attempt->next > 1 && !own_name(fd, &own)) /* it was tried before */
        return;
    int source = source_of(own.port, is_local(place), is4(&own, world.loopback));
    if (source != KEEP_SOURCE)
        come_from(fd, attempt->to.family, source == FROM_LOOPBACK ? world.loopback : 0);
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
    return is_local(place) && world.diagnostics >= 0;
}

static int is_held_here(const struct place *place)
{
    struct address server = place->real;
    server.family = AF_INET;
    return world.diagnostics < 0 || holds(TCP, &server);
}

/* 0 or the errno; `state`: of the socket afterwards. */
static int start(const struct call *call, int fd, struct attempt *attempt,
                 const struct place *place, int *state)
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
    *state = tcp_state(fd);
    if (is_over_already(code, *state))
        code = connect_now(call, fd, attempt, &place->real);
    if (!is_on_its_way(code))
        forget(attempt->cookie);
    return code;
}

/* It may go on, as far as we are concerned. */
static int on_its_way(const struct call *call, const struct attempt *attempt)
{
    switch (answer_to(attempt->is_blocking, !egress_free)) {
    case SAY_IN_PROGRESS:
        if (!answer(call, -EINPROGRESS))
            not_heard(attempt->cookie);
        return DONE;
    case LEAVE_TO_KERNEL:
        go_on(call);
        return DONE;
    default:
        return TO_PYTHON; /* a policy has come while it waited */
    }
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
    } else if (child && place->notice) {
        uint8_t raw[NOTICE_LENGTH];
        make_notice(&real, name.port, place, attempt->cookie, child, raw);
        send_notice(raw, place);
    }
    /* An end that the server has closed already has no owner, and it may have closed its listener. */
    return child || attempt->was_held || holds(TCP, &server);
}

/* Make ready what the netd of a place elsewhere has to acknowledge. */
static int prepare_notice(int fd, struct attempt *attempt)
{
    struct address real, name;
    if (!own_name(fd, &real) || real.length == 16)
        return 0;
    shown(TCP, &real, 1, &name);
    make_notice(&real, name.port, place_of(attempt), attempt->cookie, 0, attempt->notice);
    attempt->pause = FIRST_PAUSE;
    return 1;
}

/* Say it again, if it is time. */
static void say(struct attempt *attempt, double until)
{
    double time = now();
    if (!is_notice_due(time, attempt->said, attempt->pause, until))
        return;
    attempt->pause = next_pause(attempt->pause);
    attempt->said = time;
    send_notice(attempt->notice, place_of(attempt));
}

static double patience_of(const struct attempt *attempt)
{
    return patience_ends(attempt->began, attempt->left, is_last(attempt), attempt->is_blocking);
}

/* The events to wait for, and for how long. */
uint32_t awaits(const struct attempt *attempt, double *seconds)
{
    double due = attempt->is_asked ? attempt->said + attempt->pause : patience_of(attempt);
    *seconds = seconds_until(now(), due);
    return attempt->is_asked ? 0 : EPOLLOUT; /* an error is told all the same */
}

static int try_on(const struct call *call, int fd, struct attempt *attempt, int code);

/* Leave a place where nobody of ours has answered. */
static int leave_place(const struct call *call, int fd, struct attempt *attempt, int error)
{
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    connect(fd, &nowhere, sizeof nowhere);
    return try_on(call, fd, attempt, error);
}

/* The kernel has connected it: is it to whom it was meant for? */
static int on_handshake(const struct call *call, int fd, struct attempt *attempt)
{
    int next = after_handshake(attempt->is_asked, is_here(place_of(attempt)));
    if (next == GO_ON || (next == CHECK_HERE && is_proven_here(fd, attempt)))
        return on_its_way(call, attempt);
    if (!attempt->made)
        attempt->made = now();
    double until = proof_ends(attempt->made, is_last(attempt));
    if (next == CHECK_HERE || now() >= until)
        return leave_place(call, fd, attempt, ECONNREFUSED);
    say(attempt, until);
    return WAIT;
}

/* Set the present place going. */
static int set_going(const struct call *call, int fd, struct attempt *attempt)
{
    const struct place *place = place_of(attempt);
    int proof = proof_of(place->is_own, place->pod != 0, place->notice != 0, is_here(place));
    attempt->was_held = proof == PROOF_BY_KERNEL && is_held_here(place);
    int state, code = start(call, fd, attempt, place, &state);
    attempt->is_asked = attempt->is_acknowledged = 0;
    attempt->said = attempt->made = 0;
    if (!is_on_its_way(code)) {
        attempt->error = code;
        return FAILED;
    }
    int is_made = state == TCP_ESTABLISHED;
    attempt->began = now();
    if (proof == PROOF_BY_KERNEL) {
        if (is_made)
            return on_handshake(call, fd, attempt);
        int is_kernels = may_be_left_to_kernel(place->is_own, is_last(attempt));
        return is_kernels && attempt->was_held ? on_its_way(call, attempt) : WAIT;
    }
    if (proof == PROOF_BY_NOTICE && prepare_notice(fd, attempt)) {
        attempt->is_asked = world.needs_proof;
        attempt->said = now();
        if (attempt->is_asked) {
            await_acknowledgement(attempt);
            return attempt->is_acknowledged ? on_its_way(call, attempt) : WAIT;
        }
        send_notice(attempt->notice, place);
    }
    return is_answered_unproven(is_last(attempt), is_made) ? on_its_way(call, attempt) : WAIT;
}

/* After a failure: try until one is on its way. */
static int try_on(const struct call *call, int fd, struct attempt *attempt, int code)
{
    for (;;) {
        int next = after_failure(code, attempt->again);
        if (next == TRY_NEXT && attempt->next == attempt->count && attempt->has_more)
            return TO_PYTHON;
        if (next == TELL_ERROR || (next == TRY_NEXT && attempt->next == attempt->count)) {
            answer(call, -error_told(code));
            return DONE;
        }
        attempt->again = next == TRY_AGAIN ? attempt->again + 1 : 0;
        attempt->next += next == TRY_NEXT;
        int result = set_going(call, fd, attempt);
        if (result != FAILED)
            return result;
        code = attempt->error;
    }
}

/* Look what has become of one that waits. */
int resume_connect(const struct call *call, int fd, struct attempt *attempt, int is_ready)
{
    if (attempt->is_acknowledged)
        return on_its_way(call, attempt);
    int state = tcp_state(fd);
    if (is_to_be_asked(is_ready, state)) {
        /* Asked again, the kernel gives the error and makes the socket fresh. */
        int code = connect_now(call, fd, attempt, &place_of(attempt)->real);
        if (is_failed(code))
            return try_on(call, fd, attempt, code);
    }
    if (state != TCP_SYN_SENT)
        return on_handshake(call, fd, attempt);
    if (now() >= patience_of(attempt))
        return leave_place(call, fd, attempt, ETIMEDOUT);
    if (attempt->is_asked)
        say(attempt, patience_of(attempt));
    return WAIT;
}

/* The caller was interrupted or is gone; if it lives it may go on with the socket, or ask again. */
int leave_connect(const struct call *call, int fd, struct attempt *attempt)
{
    if (kill((pid_t)call->asked.pid, 0) && errno == ESRCH) {
        attempt->left = 0;
        /* While the notice may still be heard the connection must not become another's. */
        return may_be_heard(now(), attempt->said) ? WAIT : DONE;
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
        attempt.again = 0;
        attempt.left = 0;
        result = try_on(call, fd, &attempt, ECONNREFUSED); /* none is tried yet */
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
