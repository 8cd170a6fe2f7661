/* addresses.c: resolves host names in a child process; matches addresses against networks. */
#include "base/addresses.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <signal.h>
#include <stddef.h>
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

/* ---- networks */

#define ITEM_MAX 64

struct network {
    bool is_unix;
    unsigned bits; /* prefix length in 128 bits */
    unsigned char address[16];
};

_Static_assert(NETWORKS_ADDRESS_MAX >= INET6_ADDRSTRLEN, "an address fits");

static const unsigned char MAPPED[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* IPv4 is mapped into IPv6, so that both compare equal, even on dual-stack sockets. */
static bool
read_ip_address(const char *text, unsigned char address[16], bool *ret_is_ipv4)
{
    memcpy(address, MAPPED, sizeof(MAPPED));
    *ret_is_ipv4 = inet_pton(AF_INET, text, address + sizeof(MAPPED)) == 1;
    return *ret_is_ipv4 || inet_pton(AF_INET6, text, address) == 1;
}

/* Reads a decimal of 1 to 3 digits, at most `max`. */
static bool
read_bits(const char *text, unsigned max, unsigned *ret_bits)
{
    unsigned bits = 0;
    size_t len = strlen(text);

    if (len == 0 || len > 3 || strspn(text, "0123456789") != len)
        return false;
    for (; *text != '\0'; text++)
        bits = bits * 10 + (unsigned)(*text - '0');
    *ret_bits = bits;
    return bits <= max;
}

static bool
read_network(const char *at, size_t len, struct network *ret_network)
{
    struct network network = {.bits = 128};
    char text[ITEM_MAX];
    char *slash;
    bool is_ipv4;

    if (len == 0 || len >= sizeof(text))
        return false;
    memcpy(text, at, len);
    text[len] = '\0';
    slash = strchr(text, '/');
    if (slash != NULL)
        *slash++ = '\0';
    network.is_unix = strcmp(text, NETWORKS_UNIX) == 0 && slash == NULL;
    if (!network.is_unix && !read_ip_address(text, network.address, &is_ipv4))
        return false;
    if (slash != NULL) {
        if (!read_bits(slash, is_ipv4 ? 32 : 128, &network.bits))
            return false;
        network.bits += is_ipv4 ? 96 : 0;
    }
    *ret_network = network;
    return true;
}

static bool
network_contains(const struct network *network, const unsigned char address[16])
{
    unsigned bytes = network->bits / 8;
    unsigned rest = network->bits % 8;

    if (memcmp(network->address, address, bytes) != 0)
        return false;
    return rest == 0 || ((network->address[bytes] ^ address[bytes]) >> (8 - rest)) == 0;
}

/* Returns the next item of the list, NULL at the end. */
static const char *
next_item(const char **list, size_t *ret_len)
{
    const char *at = *list;

    at += strspn(at, ", \t");
    *ret_len = strcspn(at, ", \t");
    *list = at + *ret_len;
    return *ret_len > 0 ? at : NULL;
}

bool
networks_are_valid(const char *list)
{
    struct network network;
    const char *item;
    size_t len;

    while ((item = next_item(&list, &len)) != NULL) {
        if (!read_network(item, len, &network))
            return false;
    }
    return true;
}

bool
networks_contain(const char *list, const char *address)
{
    unsigned char bytes[16];
    bool is_unix = strcmp(address, NETWORKS_UNIX) == 0;
    bool is_ipv4;
    const char *item;
    size_t len;

    if (list == NULL || (!is_unix && !read_ip_address(address, bytes, &is_ipv4)))
        return false;
    while ((item = next_item(&list, &len)) != NULL) {
        struct network network;

        if (!read_network(item, len, &network))
            continue;
        if (is_unix ? network.is_unix : !network.is_unix && network_contains(&network, bytes))
            return true;
    }
    return false;
}

bool
networks_is_address(const char *text)
{
    unsigned char bytes[16];
    bool is_ipv4;

    return read_ip_address(text, bytes, &is_ipv4);
}

/* IANA's registries of special-purpose addresses, and class D and E. */
static const char SPECIAL_IPV4[] =
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 "
    "192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 "
    "224.0.0.0/3";
/* Outside of these, only the IPv6 addresses in GLOBAL_IPV6 are assigned to hosts. */
static const char SPECIAL_IPV6[] = "2001::/23 2001:db8::/32 3fff::/20";
static const char GLOBAL_IPV6[] = "2000::/3";

/* Networks of IPv6 addresses that reach the IPv4 address which they contain. */
static const struct {
    const char *network;
    unsigned at; /* first byte of the IPv4 address */
} embedding[] = {{"::ffff:0.0.0.0/96", 12}, {"64:ff9b::/96", 12}, {"2002::/16", 2}};

bool
networks_is_public(const char *address)
{
    unsigned char bytes[16];
    char text[NETWORKS_ADDRESS_MAX];
    bool is_ipv4;

    if (!read_ip_address(address, bytes, &is_ipv4))
        return false;
    for (size_t i = 0; i < sizeof(embedding) / sizeof(embedding[0]); i++)
        if (networks_contain(embedding[i].network, address))
            return inet_ntop(AF_INET, bytes + embedding[i].at, text, sizeof(text)) != NULL &&
                   !networks_contain(SPECIAL_IPV4, text);
    return networks_contain(GLOBAL_IPV6, address) && !networks_contain(SPECIAL_IPV6, address);
}

void
networks_aggregate(char address[NETWORKS_ADDRESS_MAX])
{
    unsigned char bytes[16];
    bool is_ipv4;

    if (!read_ip_address(address, bytes, &is_ipv4))
        return;
    if (memcmp(bytes, MAPPED, sizeof(MAPPED)) == 0) {
        (void)inet_ntop(AF_INET, bytes + sizeof(MAPPED), address, NETWORKS_ADDRESS_MAX);
        return;
    }
    memset(bytes + 8, 0, 8);
    (void)inet_ntop(AF_INET6, bytes, address, NETWORKS_ADDRESS_MAX);
}
