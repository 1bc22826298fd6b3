/* What srun starts for every rank, in place of agent/ranks/starter.py where there was a compiler.
 *
 * Run as `starter <meeting point> <n> <n words that make the container> [<command>]`; it enters the
 * container of its node and becomes a rank there, that of the container's command or of the one it
 * is given, of which each word is behind a mark. It does what the Python module does, in the same
 * order and words, and speaks the language of agent/ranks/wire.py. It has no library, not even C's own:
 * nodes need nothing, and starting it costs next to nothing.
 */

#include "system.h"

#define PATIENCE 120 /* seconds for a node to make its container */
#define PAUSE 3000000 /* nanoseconds */
#define FAILED 127
#define MAX_DESCRIPTORS 8
#define MAX_ANSWER (4 << 20)

/* What Slurm and its PMI tell a task, and what a container is therefore told. */
static const char *const TOLD[] = {"SLURM", "PMI", "OMPI_", "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL", 0};
/* But not the first, where there is the second: Intel MPI would not ask its PMI for the layout. */
#define UNTOLD "SLURM_TASKS_PER_NODE="
#define ASKED "PMI_FD"
/* By which a container would be its user to Slurm. */
#define IS_SECRET(entry) (begins(entry, "SLURM_JWT=") || begins(entry, "SLURM_SACK_KEY="))

/* Before the names of variables that only the container is to see: a caller of srun said them. */
#define SAID "ORLOP_SAID_"

static int line = -1; /* to the door, once there is one */

/* Whoever is behind the door may be gone; that is no reason to die without a word. */
static long say(const char *text, unsigned long length)
{
    return sys(SYS_sendto, line, (long)text, length, MSG_NOSIGNAL, 0);
}

/* What went wrong is said to the door, to srun and so to the log; and is the end. */

static __attribute__((noreturn)) void fail(const char *first, const char *second, const char *third)
{
    static char text[8192];
    struct buffer said = {text, 0, sizeof text};

    put(&said, "!");
    put(&said, first);
    put(&said, second);
    put(&said, third);
    if (line >= 0)
        say(text, said.length);
    said.length = 0;
    put(&said, "orlop agent: ");
    put(&said, first);
    put(&said, second);
    put(&said, third);
    put(&said, "\n");
    sys(SYS_write, 2, (long)text, said.length, 0, 0);
    sys(SYS_exit_group, FAILED, 0, 0, 0, 0);
    __builtin_unreachable();
}

static void must(long result, const char *what)
{
    if (result < 0)
        fail(what, ": ", errno_words(-result));
}

/* What a rank finds as /proc/self/exe

   A command may be a link to that, or a script with it as its interpreter, and is then what the
   process was before: this program, which is a file of the user's, as is the rank. So we run from
   a sealed copy in memory, where that can be had. */

static int runs_from_memory(void)
{
    static char path[16];
    const char *begin = "/memfd:";
    int index;

    if (sys(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path, sizeof path, 0) < 7)
        return 0;
    for (index = 0; begin[index]; index++)
        if (path[index] != begin[index])
            return 0;
    return 1;
}

static void run_from_memory(char **argv, char **env)
{
    static const char name[] = "orlop-starter";
    long flags = MFD_CLOEXEC | MFD_ALLOW_SEALING, to, from, copied;

    if (runs_from_memory())
        return;
    to = sys(SYS_memfd_create, (long)name, flags | MFD_EXEC, 0, 0, 0); /* since Linux 6.3 */
    if (to < 0)
        to = sys(SYS_memfd_create, (long)name, flags, 0, 0, 0);
    from = sys(SYS_openat, AT_FDCWD, (long)"/proc/self/exe", O_CLOEXEC, 0, 0);
    if (to >= 0 && from >= 0) {
        do
            copied = sys(SYS_sendfile, to, from, 0, 1L << 20, 0);
        while (copied > 0);
        if (copied == 0 && sys(SYS_fcntl, to, F_ADD_SEALS, ALL_SEALS, 0, 0) == 0)
            sys(SYS_execveat, to, (long)"", (long)argv, (long)env, AT_EMPTY_PATH);
    }
    if (to >= 0)
        sys(SYS_close, to, 0, 0, 0, 0);
    if (from >= 0)
        sys(SYS_close, from, 0, 0, 0, 0);
}

/* The meeting point */

static void path_of_node(struct buffer *path, const char *meeting, char **env)
{
    static char names[6 * 65]; /* struct utsname */
    const char *node = value_of(env, "SLURMD_NODENAME");

    if (!node || !*node) {
        sys(SYS_uname, (long)names, 0, 0, 0, 0);
        node = names + 65;
    }
    put(path, meeting);
    put(path, "-");
    put(path, node);
}

static void have_it_made(char **words, char **env)
{
    long pid = sys_fork(), second;
    int status = 0;

    must(pid, "fork");
    if (pid > 0) {
        must(sys(SYS_wait4, pid, (long)&status, 0, 0, 0), "wait");
        if (status)
            fail("nothing could be started that makes the container of this node", "", "");
        return;
    }
    second = sys_fork();
    if (second == 0)
        must(sys(SYS_execve, (long)words[0], (long)words, (long)env, 0, 0), words[0]);
    sys(SYS_exit_group, second < 0, 0, 0, 0, 0);
}

static int is_ours(const char *path)
{
    static unsigned int status[64]; /* struct statx: the owner is at 20 */

    must(sys(SYS_statx, AT_FDCWD, (long)path, AT_SYMLINK_NOFOLLOW, STATX_UID, (long)status), path);
    return status[5] == (unsigned int)sys(SYS_getuid, 0, 0, 0, 0, 0);
}

/* Whether the process that listens at the other end is our user's: what was looked at may be
   another by now. */
static int is_with_us(long fd)
{
    static struct { int pid; unsigned int uid, gid; } peer;
    static unsigned int size = sizeof peer;

    return sys(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, (long)&peer, (long)&size) == 0 &&
           peer.uid == (unsigned int)sys(SYS_getuid, 0, 0, 0, 0, 0);
}

static int exists(const char *path)
{
    return sys(SYS_faccessat, AT_FDCWD, (long)path, 0, 0, 0) == 0;
}

static void connect_to(const char *meeting)
{
    static struct { unsigned short family; char path[108]; } address = {1, ""};
    struct buffer path = {address.path, 0, sizeof address.path};
    struct { long seconds, nanoseconds; } pause = {0, PAUSE};
    long tries = PATIENCE * (1000000000L / PAUSE), result = -1;

    put(&path, meeting);
    put(&path, "/door");
    for (; tries > 0; tries--) {
        if (exists(meeting)) {
            if (!is_ours(meeting))
                fail(meeting, " belongs to somebody else", "");
            line = sys(SYS_socket, 1, 1 | SOCK_CLOEXEC, 0, 0, 0);
            result = sys(SYS_connect, line, (long)&address, 2 + path.length + 1, 0, 0);
            if (result == 0 && is_with_us(line))
                return;
            sys(SYS_close, line, 0, 0, 0, 0);
            line = -1;
            if (result == 0)
                fail(meeting, " belongs to somebody else", "");
            if (result != -ENOENT && result != -ECONNREFUSED && result != -EAGAIN)
                must(result, meeting);
        }
        sys(SYS_nanosleep, (long)&pause, 0, 0, 0, 0);
    }
    fail("no container was made on this node", "", "");
}

/* What is said there */

static void put_field(struct buffer *to, const char *text)
{
    put(to, text ? text : "");
    put_byte(to, 0);
}

static int is_folder_of_pmix(const char *entry)
{
    if (begins(entry, "PMIX_SERVER_TMPDIR="))
        return 1;
    if (!begins(entry, "PMIX_DSTORE"))
        return 0;
    for (; *entry && *entry != '='; entry++)
        if (begins(entry, "PATH"))
            return 1;
    return 0;
}

static void say_hello(char **env)
{
    static char text[65536], number[24];
    struct buffer hello = {text, 0, sizeof text};
    const char *tasks = value_of(env, "SLURM_STEP_TASKS_PER_NODE");
    const char *job = value_of(env, "SLURM_JOB_ID"), *step = value_of(env, "SLURM_STEP_ID");

    put_field(&hello, "rank");
    put_field(&hello, value_of(env, "SLURM_PROCID"));
    put_field(&hello, decimal(sys(SYS_getpid, 0, 0, 0, 0, 0), number));
    put(&hello, job ? job : "");
    put(&hello, ".");
    put_field(&hello, step);
    put_field(&hello, tasks && *tasks ? tasks : value_of(env, "SLURM_TASKS_PER_NODE"));
    put_field(&hello, value_of(env, "SLURM_NODEID"));
    for (; *env; env++)
        if (is_folder_of_pmix(*env))
            put_field(&hello, after_equals(*env));
    must(say(text, hello.length), "the door of this node");
}

struct answer {
    char *at, *end; /* of what is still to be read */
    char *filter, *asks; /* the container's own, and that of calls which are asked about */
    unsigned int filter_length, asks_length;
    int descriptors[MAX_DESCRIPTORS];
    int count;
};

static void take_descriptors(struct answer *answer, char *control, unsigned long length)
{
    unsigned long size = *(unsigned long *)control; /* of the one message that there is */
    unsigned long at;

    if (length < 16 || size > length)
        return;
    for (at = 16; at + 4 <= size && answer->count < MAX_DESCRIPTORS; at += 4)
        answer->descriptors[answer->count++] = *(int *)(control + at);
}

static void hear(struct answer *answer)
{
    static char data[MAX_ANSWER];
    static long control[16];
    struct { void *base; unsigned long length; } part = {data, sizeof data};
    struct {
        void *name; unsigned int name_length; void *parts; unsigned long count;
        void *control; unsigned long control_length; int flags;
    } message = {0, 0, &part, 1, control, sizeof control, 0};
    long got = sys(SYS_recvmsg, line, (long)&message, MSG_CMSG_CLOEXEC, 0, 0);
    unsigned long length = got > 0 ? got : 0;

    if (message.control_length)
        take_descriptors(answer, (char *)control, message.control_length);
    while (got > 0 && (length < 12 || length < 4UL + *(unsigned int *)data)) {
        got = sys(SYS_read, line, (long)(data + length), sizeof data - length, 0, 0);
        length += got > 0 ? got : 0;
    }
    if (got <= 0)
        fail("the container of this node is gone", "", "");
    answer->filter_length = *(unsigned int *)(data + 4);
    answer->filter = data + 8;
    answer->asks = answer->filter + answer->filter_length + 4;
    answer->asks_length = *(unsigned int *)(answer->asks - 4);
    answer->at = answer->asks + answer->asks_length;
    answer->end = data + 4 + *(unsigned int *)data;
}

static char *next(struct answer *answer)
{
    char *text = answer->at;

    if (text >= answer->end)
        fail("the container of this node is gone", "", "");
    while (answer->at < answer->end && *answer->at)
        answer->at++;
    answer->at++;
    return text;
}

/* Becoming it */

static void take_ids(char *text)
{
    static unsigned int ids[1024];
    int count = 0;

    while (*text && count < 1024)
        ids[count++] = number_in(&text);
    if (count > 2)
        must(sys(SYS_setgroups, count - 2, (long)(ids + 2), 0, 0, 0), "setgroups");
    must(sys(SYS_setresgid, ids[1], ids[1], ids[1], 0, 0), "setresgid");
    must(sys(SYS_setresuid, ids[0], ids[0], ids[0], 0, 0), "setresuid");
}

/* The sandbox first: rights over the other namespaces are had in its user namespace. */
static void enter(struct answer *answer, int has_user, char *ids, char *dropped)
{
    int last = answer->count - (has_user ? 1 : 0), index;

    if (!answer->count)
        return;
    for (index = 1; index < last; index++)
        must(sys(SYS_setns, answer->descriptors[index], 0, 0, 0, 0), "setns");
    must(sys(SYS_fchdir, answer->descriptors[0], 0, 0, 0, 0), "fchdir");
    must(sys(SYS_chroot, (long)".", 0, 0, 0, 0), "chroot");
    while (*dropped)
        if (sys(SYS_prctl, PR_CAPBSET_DROP, number_in(&dropped), 0, 0, 0) < 0)
            break;
    if (has_user)
        must(sys(SYS_setns, answer->descriptors[last], 0, 0, 0, 0), "setns");
    else if (*ids)
        take_ids(ids);
}

/* Who answers gets the listener, and the number of the process; a rank runs without that, too. */
static void hand_over(struct answer *answer)
{
    struct { unsigned short length; char *code; } program;
    static char text[32], number[24];
    struct buffer said = {text, 0, sizeof text};
    struct { unsigned long length; int level, kind, descriptor, unused; } rights = {20, 1, 1, 0, 0};
    struct { void *base; unsigned long length; } part = {text, 0};
    struct {
        void *name; unsigned int name_length; void *parts; unsigned long count;
        void *control; unsigned long control_length; int flags;
    } message = {0, 0, &part, 1, &rights, sizeof rights, 0};
    long listener;

    program.length = answer->asks_length / 8;
    program.code = answer->asks;
    listener = sys(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_NEW_LISTENER | SECCOMP_SPEC_ALLOW,
        (long)&program, 0, 0);
    if (listener < 0) {
        static char words[128];
        struct buffer why = {words, 0, sizeof words};

        put(&why, "orlop agent: no names of the cluster: seccomp user notification: ");
        put(&why, errno_words(-listener));
        put(&why, "\n");
        sys(SYS_write, 2, (long)words, why.length, 0, 0);
        return;
    }
    put(&said, "?");
    put(&said, decimal(sys(SYS_getpid, 0, 0, 0, 0, 0), number));
    part.length = said.length;
    rights.descriptor = listener;
    must(sys(SYS_sendmsg, line, (long)&message, MSG_NOSIGNAL, 0, 0), "the door of this node");
    sys(SYS_close, listener, 0, 0, 0, 0);
}

static void confine(struct answer *answer)
{
    struct { unsigned short length; char *code; } program;

    if (answer->count || answer->filter_length || answer->asks_length)
        must(sys(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    if (answer->asks_length)
        hand_over(answer);
    if (!answer->filter_length)
        return;
    program.length = answer->filter_length / 8;
    program.code = answer->filter;
    must(sys(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program, 0, 0), "seccomp");
}

static int is_told(const char *entry, int is_asked)
{
    const char *const *prefix;

    if (IS_SECRET(entry) || (is_asked && begins(entry, UNTOLD)))
        return 0;
    for (prefix = TOLD; *prefix; prefix++)
        if (begins(entry, *prefix))
            return 1;
    return 0;
}

static char *merged[65536];

/* Adds a variable, unless the first `count` have it; how many there are then. */
static int add(int size, int count, char *entry)
{
    int index;

    for (index = 0; index < count; index++)
        if (same_name(merged[index], entry))
            return size;
    if (size < 65000)
        merged[size++] = entry;
    return size;
}

/* What the container says, under what a caller of srun said, under what Slurm tells this task. */
static char **environment(struct answer *answer, char **env)
{
    int told = 0, is_asked = value_of(env, ASKED) != 0, said, size;
    char **entry;

    for (entry = env; *entry; entry++)
        if (is_told(*entry, is_asked))
            told = add(told, 0, *entry);
    for (said = told, entry = env; *entry; entry++)
        if (begins(*entry, SAID))
            said = add(said, told, *entry + sizeof SAID - 1);
    for (size = said; answer->at < answer->end;)
        size = add(size, said, next(answer));
    merged[size] = 0;
    return merged;
}

/* As execvpe; the error that says most is the one that is told. */
static void execute(char **argv, char **env)
{
    static char path[8192];
    const char *folders = value_of(env, "PATH"), *why;
    struct buffer tried = {path, 0, sizeof path};
    long result;

    why = "executable file not found in $PATH";
    if (has(argv[0], '/')) {
        folders = "";
        why = "no such file or directory";
    } else if (!folders)
        folders = "/bin:/usr/bin";
    for (;;) {
        tried.length = 0;
        while (*folders && *folders != ':')
            put_byte(&tried, *folders++);
        if (tried.length)
            put(&tried, "/");
        put_field(&tried, argv[0]);
        result = sys(SYS_execve, (long)path, (long)argv, (long)env, 0, 0);
        if (result != -ENOENT && result != -ENOTDIR)
            why = errno_words(-result);
        if (!*folders++)
            break;
    }
    tried.length = 0;
    put(&tried, "exec: \"");
    put(&tried, argv[0]);
    put_field(&tried, "\": ");
    fail(path, why, "");
}

static char **command_of(struct answer *answer, char **own)
{
    static char *argv[65536];
    char *text = next(answer);
    int count = number_in(&text), index;

    for (index = 0; index < count; index++)
        text = next(answer), argv[index < 65000 ? index : 65000] = text;
    for (index = 0; own[index]; index++)
        if (*own[index]) /* a lone colon would be srun's, hence the mark */
            own[index]++;
    return own[0] ? own : argv;
}

int start(int argc, char **argv, char **env)
{
    static char path[4096];
    struct buffer meeting = {path, 0, sizeof path};
    static struct answer answer;
    static char *no_env[1];
    const char *local = value_of(env, "SLURM_LOCALID");
    char *text, *ids, *dropped, *folder, **made, **command;
    int count, has_user, is_told;
    long result;

    if (argc < 3)
        fail("usage: starter MEETING N WORDS...", "", "");
    run_from_memory(argv, env);
    path_of_node(&meeting, argv[1], env);
    put_byte(&meeting, 0);
    text = argv[2];
    count = number_in(&text);
    if (count > argc - 3)
        fail("usage: starter MEETING N WORDS...", "", "");
    made = argv + 3;
    command = made + count;
    if (local && equal(local, "0") && count && !exists(path)) {
        static char *words[64];
        int index;

        for (index = 0; index < count && index < 63; index++)
            words[index] = made[index];
        have_it_made(words, env);
    }
    connect_to(path);
    say_hello(env);
    hear(&answer);
    text = next(&answer);
    if (*text)
        fail(text, "", "");
    text = next(&answer);
    has_user = text[0] == '1';
    is_told = text[0] && text[1] == '1';
    ids = next(&answer);
    dropped = next(&answer);
    folder = next(&answer);
    command = command_of(&answer, command);
    enter(&answer, has_user, ids, dropped);
    sys(SYS_umask, 022, 0, 0, 0, 0);
    result = -ENOENT; /* the caller's folder, which may be on its node alone */
    if ((text = (char *)value_of(env, "ORLOP_CWD")))
        result = sys(SYS_chdir, (long)text, 0, 0, 0, 0);
    if (result < 0)
        result = sys(SYS_chdir, (long)folder, 0, 0, 0, 0);
    if (result < 0) {
        static char words[4096];
        struct buffer said = {words, 0, sizeof words};

        put(&said, "chdir to cwd (\"");
        put(&said, folder);
        put_field(&said, "\"): ");
        fail(words, errno_words(-result), "");
    }
    env = environment(&answer, is_told ? env : no_env);
    confine(&answer);
    execute(command, env);
    return FAILED;
}
