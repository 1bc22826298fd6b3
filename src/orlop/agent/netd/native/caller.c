/* The process that made a call: its memory, its descriptors, and its answer. The steps of
 * seccomp/caller_process.py and seccomp/notify.py. Nothing is written before the kernel has confirmed that it still waits. */
#include "quick.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { PIDFD_OPEN = 434, PIDFD_GETFD = 438 }; /* the same on every architecture */

static double signalled_at; /* when a call of the pod's was last found interrupted */

static int gone(void)
{
    if (errno == ENOENT || errno == ESRCH)
        __atomic_store(&signalled_at, &(double){now()}, __ATOMIC_RELAXED);
    return 0;
}

/* The process that a thread belongs to; 0 when it is gone. */
static uint32_t process_of(uint32_t thread)
{
    char path[64], line[256];
    uint32_t found = 0;
    snprintf(path, sizeof path, "/proc/%u/status", thread);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file))
        if (sscanf(line, "Tgid: %u", &found) != 1)
            found = 0;
    if (file)
        fclose(file);
    return found;
}

static int open_pidfd(uint32_t pid)
{
    int fd = syscall(PIDFD_OPEN, pid, O_EXCL); /* PIDFD_THREAD, Linux 6.9: any thread */
    if (fd < 0 && errno == EINVAL)
        fd = syscall(PIDFD_OPEN, process_of(pid), 0);
    return fd;
}

static int pidfd_of(struct desk *desk, uint32_t pid, int is_new)
{
    int at = pid % PIDFDS;
    if (!is_new && desk->known[at].pid == pid)
        return desk->known[at].fd;
    int fd = open_pidfd(pid);
    if (fd < 0)
        return -errno;
    if (desk->known[at].pid)
        close(desk->known[at].fd);
    desk->known[at].pid = pid;
    desk->known[at].fd = fd;
    return fd;
}

/* A copy of the caller's descriptor, or minus an errno; -ENOSYS: Python should try. */
int grab(struct desk *desk, const struct call *call, int number)
{
    for (int is_new = 0; is_new < 2; is_new++) {
        int pidfd = pidfd_of(desk, call->asked.pid, is_new);
        if (pidfd < 0)
            return -ENOSYS;
        int fd = syscall(PIDFD_GETFD, pidfd, number, 0);
        if (fd >= 0)
            return fd;
        if (errno != ESRCH) /* else the number had another owner */
            return -errno;
    }
    return -ENOSYS;
}

int read_caller(const struct call *call, uint64_t at, void *into, unsigned length)
{
    struct iovec ours = {into, length}, theirs = {(void *)(uintptr_t)at, length};
    ssize_t got = process_vm_readv(call->asked.pid, &ours, 1, &theirs, 1, 0);
    return got == (ssize_t)length ? 0 : -EFAULT;
}

/* As the kernel answers with a name: what fits, and how long it really is. */
int write_name(const struct call *call, uint64_t at, uint64_t length_at, const struct address *name)
{
    uint8_t raw[NAME_MAX_LENGTH];
    uint32_t room, length = pack(name, raw);
    if (!at)
        return 0;
    if (read_caller(call, length_at, &room, sizeof room))
        return -EFAULT;
    if (room > 1u << 31)
        return -EINVAL;
    if (!is_waiting(call))
        return -EFAULT;
    uint32_t part = room < length ? room : length;
    struct iovec ours[2] = {{raw, part}, {&length, sizeof length}};
    struct iovec theirs[2] = {{(void *)(uintptr_t)at, part},
                              {(void *)(uintptr_t)length_at, sizeof length}};
    ssize_t put = process_vm_writev(call->asked.pid, ours, 2, theirs, 2, 0);
    return put == (ssize_t)(part + sizeof length) ? 0 : -EFAULT;
}

int is_waiting(const struct call *call)
{
    uint64_t id = call->asked.id;
    return !ioctl(call->listener, NOTIF_ID_VALID, &id) || gone();
}

/* Whether the caller was still there to hear it. */
static int send_reply(const struct call *call, int64_t value, int32_t error, uint32_t flags)
{
    struct reply reply = {call->asked.id, value, error, flags};
    return !ioctl(call->listener, NOTIF_SEND, &reply) || gone();
}

int answer(const struct call *call, int64_t value)
{
    return value < 0 ? send_reply(call, 0, (int32_t)value, 0) : send_reply(call, value, 0, 0);
}

int go_on(const struct call *call)
{
    return send_reply(call, 0, 0, NOTIF_CONTINUE);
}

/* Put our descriptor among the caller's: its number there, or minus an errno.
 *
 * The kernel could answer with it in one step, but whoever asks for that and is killed before the
 * caller has run leaves it with the answer 0: its standard input. */
int give(const struct call *call, int fd, int flags)
{
    struct descriptor given = {call->asked.id, 0, (uint32_t)fd, 0, (uint32_t)flags};
    int number = ioctl(call->listener, NOTIF_ADDFD, &given);
    if (number >= 0)
        return number;
    int code = errno;
    gone();
    return -code;
}

/* Answer with our descriptor, which the caller has by that number: whether it was there to hear.
 *
 * A caller that is signalled in the moment of an answer may drop it, and the kernel says that it
 * was heard. Where signals are about, the answer is therefore part of giving the descriptor once
 * more, which the caller does itself or not at all. Else not, for the reason that `give` has. */
int answer_given(const struct call *call, int number, int fd, int flags)
{
    double last;
    __atomic_load(&signalled_at, &last, __ATOMIC_RELAXED);
    if (now() - last > SIGNALLED_FOR)
        return answer(call, number);
    struct descriptor given = {call->asked.id, ADDFD_AT | ADDFD_ANSWER, (uint32_t)fd,
                               (uint32_t)number, (uint32_t)flags};
    return ioctl(call->listener, NOTIF_ADDFD, &given) >= 0 || gone();
}

/* Whether the caller has our socket by that number. */
int has(const struct call *call, int number, int fd)
{
    int is_it = 0, pidfd = open_pidfd(call->asked.pid);
    int theirs = pidfd < 0 ? -1 : (int)syscall(PIDFD_GETFD, pidfd, number, 0);
    if (theirs >= 0) {
        is_it = cookie_of(theirs) == cookie_of(fd);
        close(theirs);
    }
    if (pidfd >= 0)
        close(pidfd);
    return is_it;
}
