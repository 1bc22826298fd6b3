/* Sockets that are set not to block while we connect them, where the next netd finds them. As
 * tcp/nonblocking_journal.py, whose half of the places is the second. */
#include "quick.h"

#include <fcntl.h>

enum { PLACES = LENT / 2 };

static struct lent *place(void)
{
    static unsigned threads;
    static __thread unsigned own; /* each thread connects one at a time */
    if (!own)
        own = 1 + __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) % PLACES;
    return (struct lent *)world.lent + own - 1;
}

/* 0 or the errno of a connect that does not wait, on a socket that blocks. */
int connect_lent(const struct call *call, int fd, const void *raw, unsigned length, uint64_t cookie)
{
    struct lent *lent = place();
    int flags = fcntl(fd, F_GETFL);
    lent->pid = call->asked.pid;
    lent->fd = (int)call->asked.args[0];
    __atomic_store_n(&lent->cookie, cookie, __ATOMIC_RELEASE);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    int code = connect(fd, raw, length) ? errno : 0;
    fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    __atomic_store_n(&lent->cookie, 0, __ATOMIC_RELEASE);
    return code;
}
