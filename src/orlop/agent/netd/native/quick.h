/* netd's quick path: connect, accept, getsockname and getpeername of TCP, answered without Python.
 *
 * Compiled by `orlop up` where there is a C compiler, and loaded by netd where it can be; what it
 * does not know it hands to Python, which does the same, and teaches it. What both decide is written
 * in Python, and translated. Addresses of IPv4 are kept as the kernel has them (network order), ports
 * as numbers. One library serves one pod.
 */
#ifndef QUICK_H
#define QUICK_H

#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "from_python.h" /* made of layout.py and tcp/decisions.py when this is compiled */

#define API __attribute__((visibility("default")))
#define NAME_MAX_LENGTH 128

enum { DONE, TO_PYTHON }; /* what became of a call */

struct call {
    struct notification asked;
    int listener;
};

#define PIDFDS 256
struct desk { /* of one thread that answers */
    struct {
        uint32_t pid;
        int fd;
    } known[PIDFDS];
};

struct attempt { /* one connect of one caller */
    struct address to, own; /* own: before the first try */
    struct place places[TRIES];
    int count, next, is_blocking, has_more; /* more endpoints, that only Python can find */
    uint64_t cookie;
    int is_asked, is_acknowledged; /* whether a netd elsewhere has to say, and has said, that it knows */
    int again, error;
    int was_held; /* whether one of ours listened at the present place on this node, just before */
    double began, made; /* when it was set going, and when the kernel had connected it */
    double said, pause; /* when a notice was sent, 0: none, and how long until it is sent again */
    double left;        /* when its caller was interrupted, 0: it waits */
    uint8_t notice[NOTICE_LENGTH];
};

struct taking { /* one accept of one caller */
    struct address own;
    int flags, is_blocking, connection, was_in_vain;
    int room;   /* where the connection is, too, or -1 */
    int number; /* of a connection that was kept: what the caller may have it by already */
    uint16_t port;
    struct address peer;
    double give_up_at, doubt_until;
};

struct names { /* of a connection's two ends */
    struct address peer, own; /* own: of this very pod, the name of ours that it asked for */
};

extern struct world world;
extern volatile int ingress_free, egress_free; /* whether no NetworkPolicy restricts the pod */

/* addresses.c */
int parse(const void *raw, unsigned length, struct address *found);
unsigned pack(const struct address *address, void *raw);
int is_any(const struct address *address);
int is_loopback(const struct address *address);
int is4(const struct address *address, uint32_t ip);
uint32_t ip4(const struct address *address);
void set4(struct address *address, uint32_t ip);
int in_pods(uint32_t ip);
int in_services(uint32_t ip);
int own_name(int fd, struct address *found);
int peer_name(int fd, struct address *found);
int option(int fd, int level, int name);
uint64_t cookie_of(int fd);
int is_blocking(int fd);
double now(void);

/* caller.c */
int grab(struct desk *desk, const struct call *call, int number);
int read_caller(const struct call *call, uint64_t at, void *into, unsigned length);
int write_name(const struct call *call, uint64_t at, uint64_t length_at, const struct address *name);
int is_waiting(const struct call *call);
int answer(const struct call *call, int64_t value);
int go_on(const struct call *call);
int give(const struct call *call, int fd, int flags);
int answer_given(const struct call *call, int number, int fd, int flags);
int has(const struct call *call, int number, int fd);

/* signature.c */
void set_key(const uint8_t *key, unsigned length);
void sign(const uint8_t *body, unsigned length, uint8_t signature[16]);

/* notices.c */
void make_notice(const struct address *real, uint16_t port, const struct place *place,
                 uint64_t cookie, uint64_t child, uint8_t raw[NOTICE_LENGTH]);
void send_notice(const uint8_t raw[NOTICE_LENGTH], const struct place *place);
int is_answer(const uint8_t notice[NOTICE_LENGTH], const uint8_t raw[NOTICE_LENGTH]);
void read_notices(void);
void await_notice(double seconds);
int start_notices(void);

/* tables.c */
enum { FOUND, OUTSIDE, UNKNOWN };
int find_places(const struct address *to, struct attempt *attempt);
int given_to(int protocol, const struct address *real, struct address *given);

/* names.c */
void remember(uint64_t cookie, const struct address *peer, const struct address *own);
void forget(uint64_t cookie);
int neighbour(const struct address *real, struct address *found);
void shown(int protocol, const struct address *real, int is_connected, struct address *found);
void towards(const struct address *peer, struct address *shown);
void named(const struct address *to, uint16_t port, struct address *found);
int vouched(uint64_t cookie, int family, struct names *found);
int sibling(uint64_t cookie, const struct address *real, uint16_t port, struct names *found);
int do_getsockname(struct desk *desk, const struct call *call);
int do_getpeername(struct desk *desk, const struct call *call);

/* owners.c: 1, 0, or -1 when nobody can tell; `cookie`: the socket's, 0 when it is not known */
int is_ours(int protocol, const struct address *peer, const struct address *own, uint64_t *cookie);
uint64_t child_of(const struct address *server, const struct address *client);
int holds(int protocol, const struct address *server);

/* lent.c */
int connect_lent(const struct call *call, int fd, const void *raw, unsigned length, uint64_t cookie);

/* handover.c */
int deposit(const struct call *call, uint64_t listening, int connection);
void collect(int room);

/* connecting.c, accepting.c */
enum { WAIT = 2 }; /* beside DONE and TO_PYTHON: for the socket, as long as `seconds` says */
int do_connect(struct desk *desk, const struct call *call);
int resume_connect(const struct call *call, int fd, struct attempt *attempt, int is_ready);
uint32_t awaits(const struct attempt *attempt, double *seconds);
int leave_connect(const struct call *call, int fd, struct attempt *attempt);
int do_accept(struct desk *desk, const struct call *call, int flags);
int resume_accept(const struct call *call, int fd, struct taking *taking, double *seconds,
                  int *is_for_socket);
void turn_away(struct taking *taking);
int leave_accept(const struct call *call, int fd, struct taking *taking);

/* pending.c */
void wait_connect(const struct call *call, int fd, const struct attempt *attempt);
void wait_accept(const struct call *call, int fd, const struct taking *taking, double seconds,
                 int is_for_socket);
int take_up_connect(const struct call *call, int fd);
void await_acknowledgement(struct attempt *attempt);
int acknowledged(uint64_t cookie, const uint8_t raw[NOTICE_LENGTH]);
void look_for_kept(void);
int start_pending(void);

#endif
