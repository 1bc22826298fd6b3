/* Who a connection comes from: the signed datagrams between netds, and what is known by them.
 * As notices.py, which asks here when this library is loaded: there is one table. */
#include "quick.h"

#include <endian.h>
#include <math.h>
#include <poll.h>

enum { SETS = 2048, WAYS = 4, BODY = 33, SIGNATURE = 16, HEARD = 4096 };
static const uint8_t magic[6] = {'o', 'r', 'l', 'o', 'p', 1};
static const double tolerance = 120, lifetime = 30;

struct entry {
    int protocol;
    struct address real;
    struct notice notice;
    double until;
};

static struct entry table[SETS][WAYS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct entry *set_of(int protocol, const struct address *real)
{
    uint32_t mixed = (ip4(real) ^ real->port * 2654435761u ^ (uint32_t)protocol) * 2654435761u;
    return table[mixed >> 16 & (SETS - 1)];
}

static int is_that(const struct entry *entry, int protocol, const struct address *real)
{
    return entry->protocol == protocol && entry->real.port == real->port &&
           entry->real.length == real->length && !memcmp(entry->real.ip, real->ip, real->length);
}

static void put(int protocol, const struct address *real, const struct notice *notice)
{
    struct entry *set = set_of(protocol, real), *place = set;
    for (int way = 0; way < WAYS; way++) {
        if (is_that(&set[way], protocol, real)) {
            place = &set[way];
            break;
        }
        if (set[way].until < place->until)
            place = &set[way];
    }
    *place = (struct entry){protocol, *real, *notice, now() + lifetime};
}

/* One of this pod's own connections, which no other netd tells us of. */
void expect(int protocol, const struct address *real, const struct notice *notice)
{
    pthread_mutex_lock(&lock);
    put(protocol, real, notice);
    pthread_mutex_unlock(&lock);
}

/* Who speaks to our port from a real address, of what was read before. */
int find_notice(int protocol, const struct address *real, uint16_t port, struct notice *found)
{
    int is_found = 0;
    pthread_mutex_lock(&lock);
    struct entry *set = set_of(protocol, real);
    for (int way = 0; way < WAYS; way++) {
        struct entry *entry = &set[way];
        if (!is_that(entry, protocol, real) || entry->notice.port != port)
            continue;
        *found = entry->notice;
        is_found = 1;
        if (protocol == TCP) { /* one connection each; the next will be announced anew */
            is_found = now() <= entry->until;
            memset(entry, 0, sizeof *entry);
        }
        break;
    }
    pthread_mutex_unlock(&lock);
    return is_found;
}

static double wall_clock(void)
{
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    return found.tv_sec + found.tv_nsec / 1e9;
}

struct heard { /* as heard.py */
    uint32_t real;
    uint16_t real_port, port;
    uint32_t peer;
    uint16_t peer_port, empty;
};

/* For the next netd: a connected UDP socket announces itself but once. */
static void leave(const struct address *real, const struct notice *notice)
{
    struct heard *table = world.heard;
    table[(ip4(real) * 31u + real->port) % HEARD] = (struct heard){
        ip4(real), real->port, notice->port, ip4(&notice->peer), notice->peer.port, 0};
}

static void take(const uint8_t *raw)
{
    uint8_t expected[SIGNATURE], different = 0;
    uint64_t bits;
    double when;
    sign(raw, BODY, expected);
    for (int i = 0; i < SIGNATURE; i++)
        different |= expected[i] ^ raw[BODY + i];
    if (different || memcmp(raw, magic, sizeof magic) || memcmp(raw + 27, &world.pod, 4))
        return;
    memcpy(&bits, raw + 7, 8);
    bits = be64toh(bits);
    memcpy(&when, &bits, 8);
    if (!(fabs(wall_clock() - when) <= tolerance))
        return;
    struct address real = {AF_INET, raw[19] << 8 | raw[20], 4, {0}};
    struct notice notice = {{AF_INET, raw[25] << 8 | raw[26], 4, {0}}, {0}, raw[31] << 8 | raw[32]};
    memcpy(real.ip, raw + 15, 4);
    memcpy(notice.peer.ip, raw + 21, 4);
    put(raw[6], &real, &notice);
    if (raw[6] == UDP)
        leave(&real, &notice);
}

/* All that has arrived. */
void read_notices(void)
{
    uint8_t raw[BODY + SIGNATURE + 1];
    pthread_mutex_lock(&lock);
    for (;;) {
        ssize_t length = recv(world.notices, raw, sizeof raw, MSG_DONTWAIT);
        if (length < 0)
            break;
        if (length == BODY + SIGNATURE)
            take(raw);
    }
    pthread_mutex_unlock(&lock);
}

/* Until one arrives, or so many seconds have passed. */
void await_notice(double seconds)
{
    struct pollfd ready = {world.notices, POLLIN, 0};
    struct timespec most = {0, (long)(seconds * 1e9)};
    ppoll(&ready, 1, &most, NULL);
}

/* Tell the netd of a place that what comes from `real` is our pod's, at `port`. */
void announce(const struct address *real, uint16_t port, const struct place *place)
{
    uint8_t raw[BODY + SIGNATURE];
    double when = wall_clock();
    uint64_t bits;
    uint16_t ports[3] = {htons(real->port), htons(port), htons(place->port)};
    memcpy(&bits, &when, 8);
    bits = htobe64(bits);
    memcpy(raw, magic, sizeof magic);
    raw[6] = TCP;
    memcpy(raw + 7, &bits, 8);
    memcpy(raw + 15, real->ip, 4);
    memcpy(raw + 19, &ports[0], 2);
    memcpy(raw + 21, &world.pod, 4);
    memcpy(raw + 25, &ports[1], 2);
    memcpy(raw + 27, &place->pod, 4);
    memcpy(raw + 31, &ports[2], 2);
    sign(raw, BODY, raw + BODY);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(place->notice_port)};
    memcpy(&to.sin_addr, &place->notice, 4);
    sendto(world.notices, raw, sizeof raw, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to);
}

API void quick_expect(int protocol, const struct address *real, const struct notice *notice)
{
    expect(protocol, real, notice);
}

API int quick_find_notice(int protocol, const struct address *real, int port, struct notice *found)
{
    return find_notice(protocol, real, (uint16_t)port, found);
}

API void quick_read_notices(void)
{
    read_notices();
}
