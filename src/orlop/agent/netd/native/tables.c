/* Where everything is, as far as Python has taught us: services, pods, the pod's own ports.
 * Filled from routes.py and sockets/bind.py; what is told anew by the control plane is dropped here and
 * learnt again. A lesson from before a drop is refused by its generation. */
#include "quick.h"

#include <stdlib.h>

enum { BUCKETS = 4096, MOST = 65536 };

struct service {
    struct service *next;
    uint32_t ip, count;
    uint16_t port;
    struct end ends[];
};

struct known { /* a port of a pod, or of our own */
    struct known *next;
    struct address to; /* as one names it; family is of no matter */
    struct place place;
};

struct bound { /* what a program asked for whose socket is at a real address */
    struct bound *next;
    int protocol;
    struct address real, given;
};

volatile int ingress_free, egress_free;
static struct service *services[BUCKETS];
static struct known *pods[BUCKETS], *own_ports[BUCKETS];
static struct bound *bindings[BUCKETS];
static unsigned counted;
static uint64_t generation;
static unsigned seed = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned bucket(uint32_t ip)
{
    return (ip * 2654435761u) >> 20;
}

static unsigned bucket_of(const struct address *address)
{
    uint32_t mixed = ip4(address);
    if (address->length == 16)
        for (int i = 4; i < 16; i += 4) {
            uint32_t part;
            memcpy(&part, address->ip + i, 4);
            mixed ^= part;
        }
    return bucket(mixed);
}

static int is_same(const struct address *one, const struct address *other)
{
    return one->port == other->port && one->length == other->length &&
           !memcmp(one->ip, other->ip, one->length);
}

static struct known *find_known(struct known **table, const struct address *to)
{
    struct known *found = table[bucket_of(to)];
    while (found && !is_same(&found->to, to))
        found = found->next;
    return found;
}

static int add_place(struct attempt *attempt, struct known *known)
{
    if (!known)
        return UNKNOWN;
    struct place *place = &attempt->places[attempt->count++];
    *place = known->place;
    place->real.family = attempt->to.family;
    return FOUND;
}

static int find_endpoint(struct attempt *attempt, const struct end *end)
{
    struct address to = {attempt->to.family, (uint16_t)end->port, 4, {0}};
    memcpy(to.ip, &end->ip, 4);
    if (end->ip == world.pod)
        return add_place(attempt, find_known(own_ports, &to));
    if (in_pods(end->ip))
        return add_place(attempt, find_known(pods, &to));
    struct place *place = &attempt->places[attempt->count++];
    memset(place, 0, sizeof *place);
    place->real = to;
    return FOUND;
}

static int find_service(const struct address *to, struct attempt *attempt)
{
    struct service *found = services[bucket(ip4(to))];
    while (found && !(found->ip == ip4(to) && found->port == to->port))
        found = found->next;
    if (!found || !found->count)
        return UNKNOWN;
    uint32_t start = (uint32_t)rand_r(&seed) % found->count;
    for (uint32_t i = 0; i < found->count && i < TRIES; i++)
        if (find_endpoint(attempt, &found->ends[(start + i) % found->count]) != FOUND) {
            attempt->has_more = 1;
            break;
        }
    return attempt->count ? FOUND : UNKNOWN;
}

/* As Routes.find: the places to try; OUTSIDE: none of the cluster's; UNKNOWN: ask Python. */
int find_places(const struct address *to, struct attempt *attempt)
{
    int result;
    attempt->to = *to;
    attempt->count = attempt->next = attempt->has_more = 0;
    int is_own = is_loopback(to) || is_any(to) || is4(to, world.pod);
    if (!egress_free) /* nothing is left to the kernel then, which would read the address once more */
        return UNKNOWN;
    if (!is_own && to->length == 16)
        return OUTSIDE;
    pthread_mutex_lock(&lock);
    if (is_own)
        result = add_place(attempt, find_known(own_ports, to));
    else if (in_services(ip4(to)))
        result = find_service(to, attempt);
    else if (in_pods(ip4(to)))
        result = add_place(attempt, find_known(pods, to));
    else
        result = OUTSIDE;
    pthread_mutex_unlock(&lock);
    return result;
}

int given_to(int protocol, const struct address *real, struct address *given)
{
    pthread_mutex_lock(&lock);
    struct bound *found = bindings[real->port % BUCKETS];
    /* By its address, or as one at all addresses of the node. */
    while (found && !(found->protocol == protocol && found->real.port == real->port &&
                      (is_any(&found->real) || is_same(&found->real, real))))
        found = found->next;
    if (found)
        *given = found->given;
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

/* Lessons */

API uint64_t quick_generation(void)
{
    return __atomic_load_n(&generation, __ATOMIC_SEQ_CST);
}

static void learn(struct known **table, uint64_t as_of, const struct address *to,
                  const struct place *place)
{
    pthread_mutex_lock(&lock);
    if (as_of == generation && counted < MOST) {
        struct known *known = find_known(table, to);
        if (!known && (known = malloc(sizeof *known))) {
            unsigned at = bucket_of(to);
            known->to = *to;
            known->next = table[at];
            table[at] = known;
            counted++;
        }
        if (known)
            known->place = *place;
    }
    pthread_mutex_unlock(&lock);
}

API void quick_learn_pod(uint64_t as_of, const struct address *to, const struct place *place)
{
    learn(pods, as_of, to, place);
}

API void quick_learn_own(uint64_t as_of, const struct address *to, const struct place *place)
{
    learn(own_ports, as_of, to, place);
}

static void drop_service(uint32_t ip)
{
    struct service **at = &services[bucket(ip)];
    while (*at) {
        struct service *found = *at;
        if (found->ip == ip) {
            *at = found->next;
            free(found);
            counted--;
        } else {
            at = &found->next;
        }
    }
}

/* `ends` is pairs of an address and a port. Whether it is known now. */
API int quick_learn_service(uint64_t as_of, uint32_t ip, int port, uint32_t count,
                            const struct end *ends)
{
    int is_known = 0;
    struct service *made = malloc(sizeof *made + count * sizeof *ends);
    if (!made)
        return 0;
    made->ip = ip;
    made->port = (uint16_t)port;
    made->count = count;
    memcpy(made->ends, ends, count * sizeof *ends);
    pthread_mutex_lock(&lock);
    struct service *known = services[bucket(ip)];
    while (known && !(known->ip == ip && known->port == made->port))
        known = known->next;
    if (as_of == generation && counted < MOST && !known) {
        made->next = services[bucket(ip)];
        services[bucket(ip)] = made;
        counted++;
        made = NULL;
    }
    is_known = known || !made;
    pthread_mutex_unlock(&lock);
    free(made);
    return is_known;
}

static void drop_from(struct known **at, uint32_t ip, int is_all)
{
    while (*at) {
        struct known *found = *at;
        if (is_all || is4(&found->to, ip)) {
            *at = found->next;
            free(found);
            counted--;
        } else {
            at = &found->next;
        }
    }
}

/* What was told of an address, a service's or a pod's, counts no more. */
API void quick_drop(uint32_t ip)
{
    pthread_mutex_lock(&lock);
    __atomic_add_fetch(&generation, 1, __ATOMIC_SEQ_CST);
    drop_service(ip);
    drop_from(&pods[bucket(ip)], ip, 0);
    pthread_mutex_unlock(&lock);
}

API void quick_drop_own(void)
{
    pthread_mutex_lock(&lock);
    __atomic_add_fetch(&generation, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < BUCKETS; i++)
        drop_from(&own_ports[i], 0, 1);
    pthread_mutex_unlock(&lock);
}

API void quick_policy(int is_ingress_free, int is_egress_free)
{
    ingress_free = is_ingress_free;
    egress_free = is_egress_free;
}

/* A binding of the pod's; `given` NULL: it is forgotten. */
API void quick_bound(int protocol, const struct address *real, const struct address *given)
{
    pthread_mutex_lock(&lock);
    struct bound **at = &bindings[real->port % BUCKETS];
    while (*at && !((*at)->protocol == protocol && is_same(&(*at)->real, real)))
        at = &(*at)->next;
    if (*at && !given) {
        struct bound *gone = *at;
        *at = gone->next;
        free(gone);
    } else if (given && (*at || (*at = calloc(1, sizeof **at)))) {
        (*at)->protocol = protocol;
        (*at)->real = *real;
        (*at)->given = *given;
    }
    pthread_mutex_unlock(&lock);
}
