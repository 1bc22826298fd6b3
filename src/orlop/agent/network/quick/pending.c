/* Calls that cannot be answered yet, looked after by one thread of their own. As pending.py.
 *
 * Only that thread lets go of an entry. What turns out to be for Python is put on a list that a
 * thread of Python's takes from. */
#include "quick.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

enum { MANY = 64 };
static const double outcome = 0.02, patient_outcome = 0.25; /* seconds for one endpoint's answer */
static const double sweep_every = 1.0, tick = 0.02, busy = 0.1;

struct waiting {
    struct waiting *next, **link;
    struct call call;
    int fd, is_accept;
    double deadline; /* 0: none */
    union {
        struct attempt attempt;
        struct taking taking;
    } of;
};

static struct waiting *all;
static int epoll, bell, has_kept;
static double sleeps_until, last_event;
static unsigned sweeps_wanted, sweeps_done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
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

static void add(struct waiting *made, uint32_t events, double seconds)
{
    struct epoll_event event = {.events = events | EPOLLONESHOT, .data.ptr = made};
    pthread_mutex_lock(&lock);
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
    add(made, EPOLLOUT, attempt->is_blocking ? patient_outcome : outcome);
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

/* With the lock held; the caller is gone, or was interrupted. */
static void leave(struct waiting *entry)
{
    if (entry->is_accept && leave_accept(&entry->call, entry->fd, &entry->of.taking) == WAIT)
        entry->deadline = now() + LOOK_AGAIN;
    else
        drop(entry);
}

/* With the lock held. */
static void step(struct waiting *entry, int is_ready)
{
    double seconds = entry->is_accept || entry->of.attempt.is_blocking ? patient_outcome : outcome;
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
    uint32_t events = !entry->is_accept ? EPOLLOUT : is_for_socket ? EPOLLIN : 0;
    struct epoll_event event = {.events = events | EPOLLONESHOT, .data.ptr = entry};
    entry->deadline = seconds > 0 ? now() + seconds : 0;
    epoll_ctl(epoll, EPOLL_CTL_MOD, entry->fd, &event);
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
    if (all && time - last_event < busy && time + tick < found)
        found = time + tick;
    for (struct waiting *entry = all; entry; entry = entry->next)
        if (entry->deadline && entry->deadline < found)
            found = entry->deadline;
    return found;
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
        pthread_mutex_lock(&lock);
        for (int i = 0; i < count; i++) {
            uint64_t rung;
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
    pthread_t thread;
    epoll = epoll_create1(EPOLL_CLOEXEC);
    bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll < 0 || bell < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, bell, &event))
        return -1;
    return pthread_create(&thread, NULL, look_after, NULL);
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
