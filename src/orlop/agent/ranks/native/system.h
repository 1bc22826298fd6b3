/* The kernel's own calls and a few strings, for programs without a C library (starter.c).
 *
 * Numbers and layouts are those of x86-64 and aarch64; another machine does not compile, and then
 * ranks are started by Python.
 */

#include <asm/unistd.h>

#if defined(__x86_64__)
#define SYS_ARCH_FORK() sys(__NR_fork, 0, 0, 0, 0, 0)
#elif defined(__aarch64__)
#define SYS_ARCH_FORK() sys(__NR_clone, 17 /* SIGCHLD */, 0, 0, 0, 0)
#else
#error "only x86-64 and aarch64"
#endif

#define SYS_write __NR_write
#define SYS_read __NR_read
#define SYS_close __NR_close
#define SYS_exit_group __NR_exit_group
#define SYS_uname __NR_uname
#define SYS_wait4 __NR_wait4
#define SYS_execve __NR_execve
#define SYS_statx __NR_statx
#define SYS_getuid __NR_getuid
#define SYS_getpid __NR_getpid
#define SYS_faccessat __NR_faccessat
#define SYS_socket __NR_socket
#define SYS_connect __NR_connect
#define SYS_getsockopt __NR_getsockopt
#define SYS_nanosleep __NR_nanosleep
#define SYS_recvmsg __NR_recvmsg
#define SYS_sendto __NR_sendto
#define SYS_sendmsg __NR_sendmsg
#define SYS_seccomp __NR_seccomp
#define SYS_setgroups __NR_setgroups
#define SYS_setresgid __NR_setresgid
#define SYS_setresuid __NR_setresuid
#define SYS_setns __NR_setns
#define SYS_fchdir __NR_fchdir
#define SYS_chdir __NR_chdir
#define SYS_chroot __NR_chroot
#define SYS_prctl __NR_prctl
#define SYS_umask __NR_umask
#define SYS_readlinkat __NR_readlinkat
#define SYS_memfd_create __NR_memfd_create
#define SYS_openat __NR_openat
#define SYS_sendfile __NR_sendfile
#define SYS_fcntl __NR_fcntl
#define SYS_execveat __NR_execveat

#define AT_FDCWD -100
#define AT_SYMLINK_NOFOLLOW 0x100
#define AT_EMPTY_PATH 0x1000
#define O_CLOEXEC 02000000
#define MFD_CLOEXEC 0x1
#define MFD_ALLOW_SEALING 0x2
#define MFD_EXEC 0x10
#define F_ADD_SEALS 1033
#define ALL_SEALS 0xF
#define SOL_SOCKET 1
#define SO_PEERCRED 17
#define STATX_UID 0x8
#define SOCK_CLOEXEC 02000000
#define MSG_CMSG_CLOEXEC 0x40000000
#define MSG_NOSIGNAL 0x4000
#define PR_SET_SECCOMP 22
#define SECCOMP_MODE_FILTER 2
#define SECCOMP_SET_MODE_FILTER 1
#define SECCOMP_NEW_LISTENER 8
#define SECCOMP_SPEC_ALLOW 4
#define PR_CAPBSET_DROP 24
#define PR_SET_NO_NEW_PRIVS 38
#define ENOENT 2
#define EACCES 13
#define EAGAIN 11
#define ENOTDIR 20
#define ECONNREFUSED 111

#if defined(__x86_64__)
static long sys(long number, long a, long b, long c, long d, long e)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

__asm__(".globl _start\n_start:\n"
        "mov (%rsp), %edi\nlea 8(%rsp), %rsi\nlea 16(%rsp,%rdi,8), %rdx\n"
        "and $-16, %rsp\ncall start\nhlt\n");
#else
static long sys(long number, long a, long b, long c, long d, long e)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;

    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                     : "memory");
    return x0;
}

__asm__(".globl _start\n_start:\n"
        "ldr w0, [sp]\nadd x1, sp, #8\nadd x2, x1, x0, lsl #3\nadd x2, x2, #8\nbl start\n");
#endif

static long sys_fork(void)
{
    return SYS_ARCH_FORK();
}

/* Compilers put these where a loop does the same. */

void *memcpy(void *to, const void *from, unsigned long length)
{
    char *target = to;
    const char *source = from;

    while (length--)
        *target++ = *source++;
    return to;
}

void *memset(void *to, int byte, unsigned long length)
{
    char *target = to;

    while (length--)
        *target++ = byte;
    return to;
}

/* Strings; what does not fit is cut. */

struct buffer {
    char *text;
    unsigned long length, size;
};

static void put_byte(struct buffer *to, char byte)
{
    if (to->length < to->size)
        to->text[to->length++] = byte;
    else
        to->text[to->size - 1] = 0;
}

static void put(struct buffer *to, const char *text)
{
    while (*text)
        put_byte(to, *text++);
}

static int begins(const char *text, const char *prefix)
{
    for (; *prefix; prefix++, text++)
        if (*text != *prefix)
            return 0;
    return 1;
}

static int equal(const char *one, const char *other)
{
    for (; *one && *one == *other; one++, other++)
        ;
    return *one == *other;
}

static int has(const char *text, char byte)
{
    for (; *text; text++)
        if (*text == byte)
            return 1;
    return 0;
}

/* Of entries `NAME=value` of an environment. */

static int same_name(const char *one, const char *other)
{
    for (; *one && *one != '=' && *one == *other; one++, other++)
        ;
    return *one == '=' && *other == '=';
}

static const char *after_equals(const char *entry)
{
    while (*entry && *entry != '=')
        entry++;
    return *entry ? entry + 1 : entry;
}

static const char *value_of(char **env, const char *name)
{
    const char *rest, *entry;

    for (; *env; env++) {
        for (entry = *env, rest = name; *rest && *entry == *rest; entry++, rest++)
            ;
        if (!*rest && *entry == '=')
            return entry + 1;
    }
    return 0;
}

/* Numbers, parted by blanks. */

static unsigned int number_in(char **text)
{
    unsigned int number = 0;

    while (**text >= '0' && **text <= '9')
        number = number * 10 + (*(*text)++ - '0');
    if (**text)
        (*text)++;
    return number;
}

static const char *decimal(long number, char *room)
{
    char *at = room + 23;

    *at = 0;
    do
        *--at = '0' + number % 10;
    while (number /= 10);
    return at;
}

/* As the C library puts them, for those that a rank may well meet. */
static const char *errno_words(long number)
{
    static char room[24], text[40];
    struct buffer said = {text, 0, sizeof text - 1};

    switch (number) {
    case 1: return "operation not permitted";
    case ENOENT: return "no such file or directory";
    case 7: return "argument list too long";
    case 8: return "exec format error";
    case 12: return "cannot allocate memory";
    case EACCES: return "permission denied";
    case ENOTDIR: return "not a directory";
    case 40: return "too many levels of symbolic links";
    }
    put(&said, "error ");
    put(&said, decimal(number, room));
    put_byte(&said, 0);
    return text;
}
