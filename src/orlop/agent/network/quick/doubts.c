/* Connections that nobody has vouched for yet, put aside so that no caller waits for them.
 *
 * The thread that looks after what is pending settles them: by a notice that was late, or by their
 * time. One that turns out to be somebody's is kept for the next accept, and a knock, a connection
 * of our own that nobody gets to see, makes the program ask for it. */
#include "quick.h"

enum { MOST = 256 };

static struct taking doubts[MOST]; /* the oldest first */
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void remove_at(int at)
{
    int left = __atomic_sub_fetch(&count, 1, __ATOMIC_RELAXED) - at;
    memmove(doubts + at, doubts + at + 1, (size_t)left * sizeof *doubts);
}

/* Strangers may come in any number: the oldest goes. */
void put_aside(const struct taking *taking)
{
    pthread_mutex_lock(&lock);
    if (count == MOST) {
        close(doubts[0].connection);
        remove_at(0);
    }
    doubts[count] = *taking;
    __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    look_again();
}

int are_doubts(void)
{
    return __atomic_load_n(&count, __ATOMIC_RELAXED) > 0;
}

/* Wake who waits for the port. Known before it is on its way, it is dropped at accept. */
static void knock(const struct address *own, uint16_t port)
{
    uint8_t raw[NAME_MAX_LENGTH];
    struct address source = *own, real;
    struct notice nobody = {.port = port};
    int fd = socket(own->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    source.port = 0;
    unsigned length = pack(&source, raw);
    if (!bind(fd, (struct sockaddr *)raw, length) && own_name(fd, &real)) {
        expect(TCP, &real, &nobody);
        length = pack(own, raw);
        if (connect(fd, (struct sockaddr *)raw, length)) {
            /* then its backlog is full, and whoever takes of that finds ours first */
        }
    }
    close(fd);
}

/* Look at all of them; when to do so next at the latest, 0: there are none. */
double settle_doubts(void)
{
    double next = 0;
    pthread_mutex_lock(&lock);
    for (int at = 0; at < count;) {
        struct taking *taking = &doubts[at];
        int verdict = judge(taking);
        if (verdict == NOT_YET) {
            double due = next_look(taking);
            next = !next || due < next ? due : next;
            at++;
            continue;
        }
        struct address own;
        if (verdict == SOMEBODY && own_name(taking->connection, &own)) {
            keep(&own, taking->connection, &taking->peer);
            knock(&own, taking->port);
        } else {
            close(taking->connection);
        }
        remove_at(at);
    }
    pthread_mutex_unlock(&lock);
    return next;
}
