/* Calls that cannot be answered yet, looked after by one thread of their own. As tcp/pending_calls.py.
 *
 * Only that thread lets go of an entry. What turns out to be for Python is put on a list that a
 * thread of Python's takes from. */
#include "quick.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

enum { MANY = 64, ASKING = 32 };
static const double sweep_every = 1.0, tick = 0.02, busy = 0.1;
/* Seconds in which most acknowledgements come: to wait for one where the call came in takes less than
 * to leave it to the thread here. */
static const double at_once = 0.0003, at_once_part = 0.00005;
/* Whoever accepts reads notices, too; this thread is woken for them at most so often. */
static const double notices_every = 0.004;

struct waiting {
    struct waiting *next, **link;
    struct call call;
    int fd, is_accept, is_asked;
    double deadline; /* 0: none */
    union {
        struct attempt attempt;
        struct taking taking;
    } of;
};

static struct waiting *all;
static struct attempt *asking[ASKING]; /* whose acknowledgement is waited for where the call came in */
static unsigned asked; /* of those in `all`, how many may wait for one */
static double notices_seen; /* when this thread read notices last, if it does not wait for any now */
static int epoll, bell, has_kept;
static double sleeps_until, last_event;
static unsigned sweeps_wanted, sweeps_done;
static pthread_t looker; /* who looks after them */
static pthread_mutex_t lock; /* recursive: who is looked after may bring news of others */
static pthread_cond_t swept = PTHREAD_COND_INITIALIZER;

struct returned {
    struct returned *next;
    struct call call;
};
static struct returned *returned, **returned_end = &returned;
static pthread_mutex_t return_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_returned = PTHREAD_COND_INITIALIZER;

static void ring(void)
{
    uint64_t one = 1;
    if (write(bell, &one, sizeof one) < 0) {
        /* it rings already */
    }
}

/* With the lock held: have this thread woken by the next notice. */
static void watch_notices(void)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = &world};
    if (notices_seen)
        epoll_ctl(epoll, EPOLL_CTL_MOD, world.notices, &event);
    notices_seen = 0;
}

/* With the lock held. */
static void count_asked(struct waiting *entry)
{
    int is_asked = !entry->is_accept && entry->of.attempt.is_asked;
    asked += (unsigned)is_asked - (unsigned)entry->is_asked;
    entry->is_asked = is_asked;
    if (is_asked)
        watch_notices();
}

static void add(struct waiting *made, uint32_t events, double seconds)
{
    struct epoll_event event = {.events = events | EPOLLONESHOT, .data.ptr = made};
    pthread_mutex_lock(&lock);
    made->is_asked = 0;
    count_asked(made);
    made->deadline = seconds > 0 ? now() + seconds : 0;
    made->next = all;
    made->link = &all;
    if (all)
        all->link = &made->next;
    all = made;
    double due = made->deadline ? made->deadline : now() + sweep_every;
    int is_early = !sleeps_until || due < sleeps_until;
    epoll_ctl(epoll, EPOLL_CTL_ADD, made->fd, &event);
    pthread_mutex_unlock(&lock);
    if (is_early)
        ring();
}

/* NULL where there is no memory: the caller has been told. */
static struct waiting *waiting_for(const struct call *call, int fd, int is_accept)
{
    struct waiting *made = malloc(sizeof *made);
    if (!made) {
        answer(call, -ENOMEM);
        close(fd);
        return NULL;
    }
    made->call = *call;
    made->fd = fd;
    made->is_accept = is_accept;
    return made;
}

void wait_connect(const struct call *call, int fd, const struct attempt *attempt)
{
    struct waiting *made = waiting_for(call, fd, 0);
    if (!made)
        return;
    made->of.attempt = *attempt;
    double seconds;
    uint32_t events = awaits(attempt, &seconds);
    add(made, events, seconds);
}

/* The caller of one that waits was interrupted and asks again; whether there is such a one. */
int take_up_connect(const struct call *call, int fd)
{
    uint64_t cookie = cookie_of(fd);
    struct waiting *entry;
    pthread_mutex_lock(&lock);
    for (entry = all; entry; entry = entry->next)
        if (!entry->is_accept && entry->of.attempt.cookie == cookie)
            break;
    if (entry && is_waiting(&entry->call)) {
        answer(call, -EALREADY);
    } else if (entry) {
        entry->call = *call;
        entry->of.attempt.left = 0;
        entry->of.attempt.is_blocking = is_blocking(fd);
        entry->deadline = now();
    }
    pthread_mutex_unlock(&lock);
    if (entry)
        ring();
    return entry != NULL;
}

/* Send a notice and wait for its acknowledgement, as long as that may take where all goes well. */
void await_acknowledgement(struct attempt *attempt)
{
    double until = now() + at_once, left = at_once;
    int at = pthread_equal(pthread_self(), looker) ? ASKING : 0; /* others wait for that */
    pthread_mutex_lock(&lock);
    while (at < ASKING && asking[at])
        at++;
    if (at < ASKING)
        asking[at] = attempt;
    pthread_mutex_unlock(&lock);
    send_notice(attempt->notice, &attempt->places[attempt->next - 1]);
    while (at < ASKING && !__atomic_load_n(&attempt->is_acknowledged, __ATOMIC_SEQ_CST) && left > 0) {
        /* Not for long at once: another thread may read what we wait for. */
        await_notice(left < at_once_part ? left : at_once_part);
        read_notices();
        left = until - now();
    }
    pthread_mutex_lock(&lock);
    if (at < ASKING)
        asking[at] = NULL;
    pthread_mutex_unlock(&lock);
}

static int is_for(const struct attempt *attempt, uint64_t cookie, const uint8_t raw[NOTICE_LENGTH])
{
    return attempt && attempt->cookie == cookie && attempt->is_asked &&
           is_answer(attempt->notice, raw);
}

/* A netd has said that it knows of a connection; whether somebody here waits for that. */
int acknowledged(uint64_t cookie, const uint8_t raw[NOTICE_LENGTH])
{
    int is_found = 0;
    pthread_mutex_lock(&lock);
    for (int at = 0; at < ASKING; at++)
        if (is_for(asking[at], cookie, raw)) {
            __atomic_store_n(&asking[at]->is_acknowledged, 1, __ATOMIC_SEQ_CST);
            pthread_mutex_unlock(&lock);
            return 1;
        }
    for (struct waiting *entry = all; entry && !is_found; entry = entry->next)
        if (!entry->is_accept && is_for(&entry->of.attempt, cookie, raw)) {
            entry->of.attempt.is_acknowledged = is_found = 1;
            entry->deadline = now();
        }
    pthread_mutex_unlock(&lock);
    if (is_found && !pthread_equal(pthread_self(), looker))
        ring();
    return is_found;
}

void wait_accept(const struct call *call, int fd, const struct taking *taking, double seconds,
                 int is_for_socket)
{
    struct waiting *made = waiting_for(call, fd, 1);
    if (!made)
        return;
    made->of.taking = *taking;
    add(made, is_for_socket ? EPOLLIN : 0, seconds);
}

/* With the lock held. */
static void drop(struct waiting *gone)
{
    *gone->link = gone->next;
    if (gone->next)
        gone->next->link = gone->link;
    asked -= (unsigned)gone->is_asked;
    epoll_ctl(epoll, EPOLL_CTL_DEL, gone->fd, NULL);
    close(gone->fd);
    if (gone->is_accept)
        turn_away(&gone->of.taking);
    free(gone);
}

static void give_back(const struct call *call)
{
    struct returned *made = calloc(1, sizeof *made);
    if (!made) {
        answer(call, -ENOMEM);
        return;
    }
    made->call = *call;
    pthread_mutex_lock(&return_lock);
    *returned_end = made;
    returned_end = &made->next;
    pthread_cond_signal(&has_returned);
    pthread_mutex_unlock(&return_lock);
}

/* With the lock held. */
static void wait_for(struct waiting *entry, uint32_t events, double seconds)
{
    struct epoll_event event = {.events = events | EPOLLONESHOT, .data.ptr = entry};
    entry->deadline = seconds > 0 ? now() + seconds : 0;
    epoll_ctl(epoll, EPOLL_CTL_MOD, entry->fd, &event);
}

/* With the lock held; for what a connection waits for. */
static void wait_on(struct waiting *entry)
{
    double seconds;
    uint32_t events = awaits(&entry->of.attempt, &seconds);
    count_asked(entry);
    wait_for(entry, events, seconds);
}

/* With the lock held; the caller is gone, or was interrupted. */
static void leave(struct waiting *entry)
{
    if (entry->is_accept) {
        if (leave_accept(&entry->call, entry->fd, &entry->of.taking) == WAIT)
            entry->deadline = now() + LOOK_AGAIN;
        else
            drop(entry);
    } else if (leave_connect(&entry->call, entry->fd, &entry->of.attempt) == WAIT) {
        wait_on(entry);
        if (!entry->of.attempt.left) /* the caller is gone: there is nothing but time to wait for */
            entry->deadline = now() + sweep_every / 10;
    } else {
        drop(entry);
    }
}

/* With the lock held. */
static void step(struct waiting *entry, int is_ready)
{
    double seconds = 0;
    int result = DONE, is_for_socket = 1;
    if (!is_waiting(&entry->call)) {
        leave(entry);
        return;
    }
    if (entry->is_accept)
        result = resume_accept(&entry->call, entry->fd, &entry->of.taking, &seconds, &is_for_socket);
    else
        result = resume_connect(&entry->call, entry->fd, &entry->of.attempt, is_ready);
    if (result == TO_PYTHON)
        give_back(&entry->call);
    if (result != WAIT) {
        drop(entry);
        return;
    }
    if (entry->is_accept)
        wait_for(entry, is_for_socket ? EPOLLIN : 0, seconds);
    else
        wait_on(entry);
}

static void sweep(void)
{
    for (struct waiting *entry = all, *next; entry; entry = next) {
        next = entry->next;
        if (!is_waiting(&entry->call))
            leave(entry);
    }
    sweeps_done = sweeps_wanted;
    pthread_cond_broadcast(&swept);
}

static void step_due(double time)
{
    int has_news = __atomic_exchange_n(&has_kept, 0, __ATOMIC_SEQ_CST);
    for (struct waiting *entry = all, *next; entry; entry = next) {
        next = entry->next;
        if ((has_news && entry->is_accept) || (entry->deadline && time >= entry->deadline))
            step(entry, 0);
    }
}

/* When there is something to do at the latest; 0: only when something happens. */
static double soonest(double time, double last_sweep)
{
    double found = all ? last_sweep + sweep_every : 0;
    if (notices_seen && (!found || notices_seen + notices_every < found))
        found = notices_seen + notices_every;
    if (all && time - last_event < busy && time + tick < found)
        found = time + tick;
    for (struct waiting *entry = all; entry; entry = entry->next)
        if (entry->deadline && entry->deadline < found)
            found = entry->deadline;
    return found;
}

static void see_notices(void)
{
    pthread_mutex_lock(&lock);
    notices_seen = now();
    pthread_mutex_unlock(&lock);
    read_notices();
}

static void *look_after(void *nothing)
{
    struct epoll_event events[MANY];
    double last_sweep = now();
    (void)nothing;
    for (;;) {
        pthread_mutex_lock(&lock);
        double time = now();
        sleeps_until = soonest(time, last_sweep);
        int wait = sleeps_until ? (int)((sleeps_until - time) * 1000) + 1 : -1;
        pthread_mutex_unlock(&lock);
        int count = epoll_wait(epoll, events, MANY, wait < -1 ? 0 : wait);
        for (int i = 0; i < count; i++)
            if (events[i].data.ptr == &world)
                see_notices();
        pthread_mutex_lock(&lock);
        if (notices_seen && (asked || now() - notices_seen >= notices_every))
            watch_notices();
        for (int i = 0; i < count; i++) {
            uint64_t rung;
            if (events[i].data.ptr == &world)
                continue;
            if (events[i].data.ptr)
                step(events[i].data.ptr, 1);
            else if (read(bell, &rung, sizeof rung) < 0)
                continue;
        }
        time = now();
        if (count > 0)
            last_event = time;
        step_due(time);
        if (sweeps_wanted != sweeps_done || time - last_sweep > sweep_every) {
            sweep();
            last_sweep = time;
        }
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* Have those who wait in accept look whether a connection was kept for them. */
void look_for_kept(void)
{
    __atomic_store_n(&has_kept, 1, __ATOMIC_SEQ_CST);
    ring();
}

int start_pending(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct epoll_event notice = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = &world};
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &recursive);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll < 0 || bell < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, bell, &event))
        return -1;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, world.notices, &notice))
        return -1;
    return pthread_create(&looker, NULL, look_after, NULL);
}

/* Let go of what callers that are gone have left; done when this returns. */
API void quick_sweep(void)
{
    pthread_mutex_lock(&lock);
    unsigned wanted = ++sweeps_wanted;
    ring();
    while ((int)(sweeps_done - wanted) < 0)
        pthread_cond_wait(&swept, &lock);
    pthread_mutex_unlock(&lock);
}

/* A call that is for Python after all; waits for one. Where it came in is returned. */
API int quick_returned(struct notification *asked)
{
    pthread_mutex_lock(&return_lock);
    while (!returned)
        pthread_cond_wait(&has_returned, &return_lock);
    struct returned *found = returned;
    returned = found->next;
    if (!returned)
        returned_end = &returned;
    pthread_mutex_unlock(&return_lock);
    *asked = found->call.asked;
    int listener = found->call.listener;
    free(found);
    return listener;
}
