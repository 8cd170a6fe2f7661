/* resolve.c: resolves host names in a child process. */
#include "base/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"

#define FOUND_MAX (RESOLVE_HOSTS_MAX * RESOLVE_ADDRESSES_MAX)
#define ERROR_MAX 128
#define CLOSE_MAX (1 << 20)

/* The result, which the child writes to the pipe in one write. */
struct word {
    size_t count;
    struct resolved found[FOUND_MAX];
    char error[ERROR_MAX]; /* reason of the last failed lookup */
};

_Static_assert(sizeof(struct word) <= PIPE_BUF, "a write to the pipe is atomic");

struct resolve {
    struct ev_loop *loop;
    resolve_done *done;
    void *ctx;
    pid_t pid;
    ev_io readable;
    struct word word;
    size_t len; /* bytes received */
};

bool
resolve_is_needed(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];

    /* An IPv6 address may have a zone; host names contain no colon. */
    return host[0] != '\0' && host[0] != '/' && host[0] != '@' && strchr(host, ':') == NULL &&
           inet_pton(AF_INET, host, address) != 1;
}

static void
resolve_host(struct word *word, const char *host, unsigned number)
{
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    int failure = getaddrinfo(host, NULL, &wanted, &all);
    size_t end = word->count + RESOLVE_ADDRESSES_MAX;

    if (failure != 0)
        snprintf(word->error, sizeof(word->error), "%s",
                 failure == EAI_SYSTEM ? strerror(errno) : gai_strerror(failure));
    for (struct addrinfo *one = all; one != NULL && word->count < end; one = one->ai_next) {
        struct resolved *found = &word->found[word->count];

        found->host = number;
        if (getnameinfo(one->ai_addr, one->ai_addrlen, found->address, sizeof(found->address), NULL,
                        0, NI_NUMERICHOST) == 0)
            word->count++;
    }
    if (all != NULL)
        freeaddrinfo(all);
}

/*
 * Closes inherited descriptors: a client's socket must close when the relay closes it. Returns the
 * new number of fd.
 */
static int
close_all_except(int fd)
{
    int first = STDERR_FILENO + 1;
    long end = sysconf(_SC_OPEN_MAX);

    if (fd > first) {
        if (dup2(fd, first) != first)
            _exit(EXIT_FAILURE);
        fd = first;
    }
    if (syscall(SYS_close_range, first + 1, UINT_MAX, 0) == 0)
        return fd;
    for (int i = first + 1; i < (end < CLOSE_MAX ? end : CLOSE_MAX); i++) /* Linux before 5.9 */
        close(i);
    return fd;
}

_Noreturn static void
run(pid_t parent, int fd, const char *const *hosts, size_t count)
{
    struct word word = {.count = 0};
    sigset_t none;

    /* Signals must terminate the child instead of running the relay's handlers. */
    for (int i = 1; i < NSIG; i++)
        (void)signal(i, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(EXIT_FAILURE);
    fd = close_all_except(fd);
    for (size_t i = 0; i < count; i++)
        resolve_host(&word, hosts[i], (unsigned)i);
    if (write(fd, &word, sizeof(word)) != (ssize_t)sizeof(word))
        _exit(EXIT_FAILURE);
    _exit(EXIT_SUCCESS);
}

static void
end(struct resolve *resolve)
{
    ev_io_stop(resolve->loop, &resolve->readable);
    close(resolve->readable.fd);
    kill(resolve->pid, SIGKILL); /* the result was read, or the lookup was stopped */
    while (waitpid(resolve->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    free(resolve);
}

static void
on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct resolve *resolve = watcher->data;
    struct word word;
    resolve_done *done = resolve->done;
    void *ctx = resolve->ctx;
    ssize_t got;

    (void)loop;
    (void)events;
    got = read(watcher->fd, (char *)&resolve->word + resolve->len,
               sizeof(resolve->word) - resolve->len);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0)
        resolve->len += (size_t)got;
    if (got > 0 && resolve->len < sizeof(resolve->word))
        return;
    word = resolve->word;
    if (resolve->len < sizeof(word))
        word = (struct word){.error = "lookup process exited without a result"};
    end(resolve);
    done(ctx, word.found, word.count, word.count > 0 ? "" : word.error);
}

struct resolve *
resolve_start(struct ev_loop *loop, const char *const *hosts, size_t count, resolve_done *done,
              void *ctx)
{
    struct resolve *resolve;
    pid_t parent = getpid(), pid;
    int fds[2];

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return NULL;
    pid = fork();
    if (pid == 0)
        run(parent, fds[1], hosts, count < RESOLVE_HOSTS_MAX ? count : RESOLVE_HOSTS_MAX);
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return NULL;
    }
    resolve = memory_new(sizeof(*resolve));
    resolve->loop = loop;
    resolve->done = done;
    resolve->ctx = ctx;
    resolve->pid = pid;
    ev_io_init(&resolve->readable, on_readable, fds[0], EV_READ);
    resolve->readable.data = resolve;
    ev_io_start(loop, &resolve->readable);
    return resolve;
}

void
resolve_stop(struct resolve *resolve)
{
    if (resolve != NULL)
        end(resolve);
}
