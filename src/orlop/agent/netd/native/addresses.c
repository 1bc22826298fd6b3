/* Socket addresses as the kernel writes them and as we speak of them, and small questions to sockets.
 * As sockets/sockaddr.py and sockets/socket_calls.py. */
#include "quick.h"

#include <fcntl.h>

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
static const uint8_t nothing[16];

int parse(const void *raw, unsigned length, struct address *found)
{
    const struct sockaddr_in *v4 = raw;
    const struct sockaddr_in6 *v6 = raw;
    memset(found, 0, sizeof *found);
    if (length < sizeof *v4)
        return 0;
    found->family = v4->sin_family;
    found->port = ntohs(v4->sin_port);
    if (v4->sin_family == AF_INET) {
        found->length = 4;
        memcpy(found->ip, &v4->sin_addr, 4);
        return 1;
    }
    if (v4->sin_family != AF_INET6 || length < 24)
        return 0;
    const uint8_t *ip = (const uint8_t *)&v6->sin6_addr;
    found->length = memcmp(ip, mapped, 12) ? 16 : 4;
    memcpy(found->ip, found->length == 4 ? ip + 12 : ip, found->length);
    return 1;
}

unsigned pack(const struct address *address, void *raw)
{
    struct sockaddr_in *v4 = raw;
    struct sockaddr_in6 *v6 = raw;
    if (address->family == AF_INET) {
        memset(v4, 0, sizeof *v4);
        v4->sin_family = AF_INET;
        v4->sin_port = htons(address->port);
        memcpy(&v4->sin_addr, address->ip, 4);
        return sizeof *v4;
    }
    memset(v6, 0, sizeof *v6);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address->port);
    uint8_t *ip = (uint8_t *)&v6->sin6_addr;
    if (address->length == 16) {
        memcpy(ip, address->ip, 16);
    } else if (memcmp(address->ip, nothing, 4)) {
        memcpy(ip, mapped, 12);
        memcpy(ip + 12, address->ip, 4);
    }
    return sizeof *v6;
}

int is_any(const struct address *address)
{
    return !memcmp(address->ip, nothing, address->length);
}

int is_loopback(const struct address *address)
{
    if (address->length == 4)
        return address->ip[0] == 127;
    return !memcmp(address->ip, nothing, 15) && address->ip[15] == 1;
}

uint32_t ip4(const struct address *address)
{
    uint32_t ip;
    memcpy(&ip, address->ip, 4);
    return ip;
}

int is4(const struct address *address, uint32_t ip)
{
    return address->length == 4 && ip4(address) == ip;
}

void set4(struct address *address, uint32_t ip)
{
    memset(address->ip, 0, sizeof address->ip);
    memcpy(address->ip, &ip, 4);
    address->length = 4;
}

int in_pods(uint32_t ip)
{
    return (ntohl(ip) & world.pods_mask) == world.pods_first;
}

int in_services(uint32_t ip)
{
    return (ntohl(ip) & world.services_mask) == world.services_first;
}

int own_name(int fd, struct address *found)
{
    uint8_t raw[NAME_MAX_LENGTH];
    socklen_t length = sizeof raw;
    memset(found, 0, sizeof *found);
    return !getsockname(fd, (struct sockaddr *)raw, &length) && parse(raw, length, found);
}

int peer_name(int fd, struct address *found)
{
    uint8_t raw[NAME_MAX_LENGTH];
    socklen_t length = sizeof raw;
    if (getpeername(fd, (struct sockaddr *)raw, &length))
        return -errno;
    return parse(raw, length, found);
}

int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(fd, level, name, &value, &length) ? -1 : value;
}

uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t length = sizeof cookie;
    getsockopt(fd, SOL_SOCKET, 57 /* SO_COOKIE */, &cookie, &length);
    return cookie;
}

int is_blocking(int fd)
{
    return !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

double now(void)
{
    struct timespec found;
    clock_gettime(CLOCK_MONOTONIC, &found);
    return found.tv_sec + found.tv_nsec / 1e9;
}
