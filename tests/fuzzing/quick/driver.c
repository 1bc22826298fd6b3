/* Ways into the C part of netd for the fuzzer: what hostile pods and other users can hand to it.
 *
 * Compiled with it and with the sanitizers; see ../native.py. An answer to a call goes nowhere, as
 * there is no listener: `listener` is -1. */
#include "quick.h"

#include <stdio.h>
#include <stdlib.h>

/* An address as a program of the pod writes it, through all that becomes of one. */
API int fuzz_address(const uint8_t *raw, unsigned length)
{
    struct address to, again, found;
    struct attempt attempt;
    struct names names;
    uint8_t packed[NAME_MAX_LENGTH];
    if (!parse(raw, length, &to))
        return 0;
    unsigned size = pack(&to, packed);
    if (!parse(packed, size, &again) || again.family != to.family || again.port != to.port)
        abort();
    /* Nowhere, mapped, goes back as nowhere of IPv6. */
    if (is_any(&to) ? !is_any(&again)
                    : again.length != to.length || memcmp(again.ip, to.ip, to.length))
        abort();
    memset(&attempt, 0, sizeof attempt);
    find_places(&to, &attempt);
    shown(TCP, &to, 1, &found);
    shown(UDP, &to, 0, &found);
    towards(&to, &found);
    named(&to, to.port, &found);
    neighbour(&to, &found);
    uint64_t cookie = to.port * 2654435761u;
    remember(cookie, &to, &found);
    if (!vouched(cookie, to.family, &names) || names.peer.port != to.port)
        abort();
    sibling(cookie, &to, to.port, &names);
    forget(cookie);
    return 1;
}

/* A call with whatever arguments, on a socket of ours; memory it names is mostly ours, too. */
API int fuzz_call(struct desk *desk, const uint8_t *raw, unsigned length, int fd, uint64_t memory)
{
    struct call call = {.listener = -1};
    uint8_t head[28] = {0};
    memcpy(head, raw, length < sizeof head ? length : sizeof head);
    call.asked.pid = (uint32_t)getpid();
    call.asked.args[0] = (uint64_t)fd | (head[1] & 1 ? 0xffffffff00000000 : 0);
    memcpy(&call.asked.args[1], head + 4, 8);
    memcpy(&call.asked.args[2], head + 12, 8);
    memcpy(&call.asked.args[3], head + 20, 8);
    if (head[1] & 2)
        call.asked.args[1] = memory + (call.asked.args[1] & 0x7f);
    if (head[1] & 4)
        call.asked.args[2] &= 0xff;
    if (head[1] & 8)
        call.asked.args[2] = memory + (call.asked.args[2] & 0x7f);
    switch (head[0] % 4) {
    case 0:
        return do_connect(desk, &call);
    case 1:
        return do_getsockname(desk, &call);
    case 2:
        return do_getpeername(desk, &call);
    default:
        return do_accept(desk, &call, (int)call.asked.args[3] & SOCK_NONBLOCK);
    }
}

API void fuzz_read_notices(void)
{
    read_notices();
}

/* A fault by which the sanitizers are tried. */
API int fuzz_planted(const uint8_t *raw, unsigned length)
{
    uint8_t *room = calloc(16, 1);
    if (length > 4 && raw[0] == 'x')
        room[raw[1]] = 1;
    int found = room[0];
    free(room);
    return found;
}
