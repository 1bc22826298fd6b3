/* Answers connect: on the caller's own socket, to where the destination really is. As connecting.py.
 *
 * A blocking socket is set going without waiting and the call then handed back to the kernel, which
 * waits in the caller. Where there are more endpoints than one, the outcome is waited for. */
#include "quick.h"

#include <netinet/tcp.h>

enum { BIND_NO_PORT = 24, UNHEARD = 64 };

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

static void tell(int fd, const struct attempt *attempt, const struct place *place)
{
    struct address real, name;
    if ((!place->is_own && !place->notice) || !own_name(fd, &real) || real.length == 16)
        return;
    shown(TCP, &real, 1, &name);
    if (place->is_own) {
        struct notice notice = {name, {0}, place->port};
        towards(&attempt->to, &notice.peer);
        named(&attempt->to, place->port, &notice.own);
        expect(TCP, &real, &notice);
    } else {
        announce(&real, name.port, place);
    }
}

static int start(const struct call *call, int fd, struct attempt *attempt,
                 const struct place *place)
{
    int off = 0;
    if (attempt->to.family == AF_INET6 && attempt->to.length == 16 && place->real.length == 4)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    choose_source(fd, attempt, place);
    /* Before it is on its way: whoever follows us must know, should we end just after. */
    attempt->cookie = cookie_of(fd);
    remember(attempt->cookie, &attempt->to, NULL);
    int code = connect_now(call, fd, attempt, &place->real);
    if (!code || code == EINPROGRESS)
        tell(fd, attempt, place);
    else
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

/* Try until one is on its way. */
static int try_next(const struct call *call, int fd, struct attempt *attempt)
{
    int code = ECONNREFUSED;
    while (attempt->next < attempt->count) {
        const struct place *place = &attempt->places[attempt->next++];
        int is_last = attempt->next == attempt->count && !attempt->has_more;
        code = start(call, fd, attempt, place);
        if (code == EINPROGRESS && !is_last && tcp_state(fd) == TCP_CLOSE) /* on this very node */
            code = connect_now(call, fd, attempt, &place->real);
        if (!code) {
            answer(call, 0);
            return DONE;
        }
        if (code == EINPROGRESS)
            return is_last || tcp_state(fd) == TCP_ESTABLISHED ? on_its_way(call, attempt) : WAIT;
        if (!is_unreached(code))
            break;
    }
    if (is_unreached(code) && attempt->has_more)
        return TO_PYTHON;
    answer(call, -code);
    return DONE;
}

/* The connection is made or refused, or we have waited long enough. */
int resume_connect(const struct call *call, int fd, struct attempt *attempt, int is_ready)
{
    if (!is_ready)
        return on_its_way(call, attempt);
    /* Asked again, the kernel gives the error and makes the socket fresh. */
    const struct place *place = &attempt->places[attempt->next - 1];
    int code = connect_now(call, fd, attempt, &place->real);
    if (is_unreached(code)) {
        if (attempt->next < attempt->count)
            return try_next(call, fd, attempt);
        if (attempt->has_more)
            return TO_PYTHON;
        answer(call, -code);
        return DONE;
    }
    if (!code && attempt->is_blocking) {
        answer(call, 0);
        return DONE;
    }
    return on_its_way(call, attempt);
}

/* A socket that is on its way, connected or listening: the kernel says which. */
static void again(const struct call *call, int fd)
{
    if (!is_blocking(fd) && was_unheard(cookie_of(fd)))
        answer(call, -EINPROGRESS);
    else
        go_on(call);
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
        again(call, fd);
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
