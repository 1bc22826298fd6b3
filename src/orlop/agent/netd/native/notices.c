/* Who a connection comes from: the signed datagrams between netds, as identity/notices.py has them.
 *
 * What concerns TCP is done here: a notice is looked up in the kernel, written down and
 * acknowledged, and an acknowledgement wakes the connect that waits for it. The rest is passed on
 * to Python. */
#include "quick.h"

#include <endian.h>
#include <poll.h>

static uint16_t own_port; /* where ours arrive */

static double wall_clock(void)
{
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    return found.tv_sec + found.tv_nsec / 1e9;
}

static void put16(uint8_t *at, uint16_t value)
{
    value = htons(value);
    memcpy(at, &value, 2);
}

static uint16_t get16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, 2);
    return ntohs(value);
}

static void put64(uint8_t *at, uint64_t value)
{
    value = htobe64(value);
    memcpy(at, &value, 8);
}

static uint64_t get64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, 8);
    return be64toh(value);
}

/* A datagram is good at one port: who has that of a netd before can repeat it nowhere. */
static void sign_for(uint16_t port, const uint8_t *raw, uint8_t signature[SIGNATURE])
{
    uint8_t words[BODY_SIZE + 2];
    memcpy(words, raw, BODY_SIZE);
    put16(words + BODY_SIZE, port);
    sign(words, sizeof words, signature);
}

/* `child`: the cookie at the other end, where we could ask for it ourselves. */
void make_notice(const struct address *real, uint16_t port, const struct place *place,
                 uint64_t cookie, uint64_t child, uint8_t raw[NOTICE_LENGTH])
{
    double when = wall_clock();
    uint64_t bits;
    memcpy(&bits, &when, 8);
    memcpy(raw, MAGIC, sizeof MAGIC);
    raw[BODY_KIND_AT] = NOTICE;
    raw[BODY_PROTOCOL_AT] = TCP;
    put64(raw + BODY_WHEN_AT, bits);
    memcpy(raw + BODY_REAL_AT, real->ip, 4);
    put16(raw + BODY_REAL_PORT_AT, real->port);
    memcpy(raw + BODY_PEER_AT, &world.pod, 4);
    put16(raw + BODY_PEER_PORT_AT, port);
    memcpy(raw + BODY_POD_AT, &place->pod, 4);
    put16(raw + BODY_PORT_AT, place->port);
    put16(raw + BODY_TO_AT, place->real.port);
    put64(raw + BODY_COOKIE_AT, cookie);
    put64(raw + BODY_MORE_AT, child);
    sign_for(place->notice_port, raw, raw + BODY_SIZE);
}

static void send_to(const uint8_t raw[NOTICE_LENGTH], const struct sockaddr_in *to)
{
    sendto(world.notices, raw, NOTICE_LENGTH, MSG_DONTWAIT, (const struct sockaddr *)to, sizeof *to);
}

void send_notice(const uint8_t raw[NOTICE_LENGTH], const struct place *place)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(place->notice_port)};
    memcpy(&to.sin_addr, &place->notice, 4);
    send_to(raw, &to);
}

/* Whether a datagram acknowledges that very notice. */
int is_answer(const uint8_t notice[NOTICE_LENGTH], const uint8_t raw[NOTICE_LENGTH])
{
    return !memcmp(notice + BODY_PROTOCOL_AT, raw + BODY_PROTOCOL_AT, BODY_SIZE - BODY_PROTOCOL_AT);
}

static int is_authentic(const uint8_t *raw)
{
    uint8_t expected[SIGNATURE], different = 0;
    if (memcmp(raw, MAGIC, sizeof MAGIC))
        return 0;
    sign_for(own_port, raw, expected);
    for (int i = 0; i < SIGNATURE; i++)
        different |= expected[i] ^ raw[BODY_SIZE + i];
    if (different)
        return 0;
    uint64_t bits = get64(raw + BODY_WHEN_AT);
    double when, age;
    memcpy(&when, &bits, 8);
    age = wall_clock() - when;
    return is_of_now(age); /* not for what is no number, too */
}

/* A connection to a port of ours: whose it is, if it is here, and our word that we know. */
static void on_notice(uint8_t *raw, const struct sockaddr_in *sender, double arrived)
{
    struct address own = {AF_INET, get16(raw + BODY_TO_AT), 4, {0}}, given;
    struct address real = {AF_INET, get16(raw + BODY_REAL_PORT_AT), 4, {0}};
    struct address peer = {AF_INET, get16(raw + BODY_PEER_PORT_AT), 4, {0}};
    memcpy(own.ip, &world.node, 4);
    memcpy(real.ip, raw + BODY_REAL_AT, 4);
    memcpy(peer.ip, raw + BODY_PEER_AT, 4);
    if (!given_to(TCP, &own, &given) || given.port != get16(raw + BODY_PORT_AT))
        return;
    uint64_t child = get64(raw + BODY_MORE_AT);
    if (child) { /* its netd has looked itself, on this node */
        remember(child, &peer, NULL);
        return;
    }
    child = child_of(&own, &real);
    /* Looked at afterwards: what the kernel said was so while the sender held its end. */
    if (!child || child == OTHERS || !is_read_in_time(wall_clock() - arrived))
        return;
    remember(child, &peer, NULL);
    raw[BODY_KIND_AT] = ACK;
    sign_for(ntohs(sender->sin_port), raw, raw + BODY_SIZE);
    send_to(raw, sender);
}

static void pass_on(const uint8_t *raw, const struct sockaddr_in *sender, double arrived)
{
    struct forwarded head = {.port = ntohs(sender->sin_port), .arrived = arrived};
    uint8_t made[sizeof head + NOTICE_LENGTH];
    memcpy(&head.ip, &sender->sin_addr, 4);
    memcpy(made, &head, sizeof head);
    memcpy(made + sizeof head, raw, NOTICE_LENGTH);
    send(world.forward, made, sizeof made, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void take(uint8_t *raw, const struct sockaddr_in *sender, double arrived)
{
    if (!is_authentic(raw))
        return;
    if (raw[BODY_PROTOCOL_AT] == TCP && raw[BODY_KIND_AT] == NOTICE) {
        if (!memcmp(raw + BODY_POD_AT, &world.pod, 4))
            on_notice(raw, sender, arrived);
    } else if (raw[BODY_PROTOCOL_AT] == TCP && raw[BODY_KIND_AT] == ACK &&
               acknowledged(get64(raw + BODY_COOKIE_AT), raw)) {
        /* it was one of our own */
    } else {
        pass_on(raw, sender, arrived);
    }
}

/* When the kernel received it. */
static double arrival(struct msghdr *message)
{
    for (struct cmsghdr *one = CMSG_FIRSTHDR(message); one; one = CMSG_NXTHDR(message, one))
        if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SO_TIMESTAMPNS) {
            struct timespec found;
            memcpy(&found, CMSG_DATA(one), sizeof found);
            return found.tv_sec + found.tv_nsec / 1e9;
        }
    return wall_clock();
}

/* What has arrived; of a flood a part, the rest at the next look. */
void read_notices(void)
{
    for (int count = 0; count < MOST_AT_ONCE; count++) {
        uint8_t raw[NOTICE_LENGTH + 1], control[64];
        struct sockaddr_in sender;
        struct iovec part = {raw, sizeof raw};
        struct msghdr message = {.msg_name = &sender, .msg_namelen = sizeof sender, .msg_iov = &part,
                                 .msg_iovlen = 1, .msg_control = control,
                                 .msg_controllen = sizeof control};
        ssize_t length = recvmsg(world.notices, &message, MSG_DONTWAIT);
        if (length < 0)
            return;
        if (length == NOTICE_LENGTH)
            take(raw, &sender, arrival(&message));
    }
}

int start_notices(void)
{
    struct address own;
    if (!own_name(world.notices, &own))
        return -1;
    own_port = own.port;
    return 0;
}

void await_notice(double seconds)
{
    struct pollfd ready = {world.notices, POLLIN, 0};
    struct timespec left = {0, (long)(seconds * 1e9)};
    ppoll(&ready, 1, &left, NULL);
}

API void quick_read_notices(void)
{
    read_notices();
}
