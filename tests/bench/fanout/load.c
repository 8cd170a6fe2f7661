/*
 * load.c: many WebSocket clients in one process, which also publishes and counts.
 *
 * Publishing is closed-loop: a burst is published while fewer than `window` bursts are in flight.
 * This prevents overload and makes each server's queue visible.
 * Prints one line: deliveries per second, and the CPU seconds of the server per million deliveries.
 */
#include "load.h"

#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void
fail(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, errno != 0 ? strerror(errno) : "failed");
    exit(1);
}

double
now_s(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

int64_t
wall_us(void)
{
    struct timespec at;

    clock_gettime(CLOCK_REALTIME, &at);
    return (int64_t)at.tv_sec * 1000000 + at.tv_nsec / 1000;
}

int
tcp_connect(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;

    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        fail("could not connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

void
write_all(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

        if (n < 0)
            fail("could not send");
        at += n;
        len -= (size_t)n;
    }
}

/* CPU time of all threads of a process, in seconds. */
static double
cpu_seconds(int pid)
{
    char path[64];
    double sum = 0;
    DIR *tasks;
    struct dirent *task;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    tasks = opendir(path);
    while (tasks != NULL && (task = readdir(tasks)) != NULL) {
        char file[400];
        unsigned long long ns = 0;
        FILE *stat;

        snprintf(file, sizeof(file), "%s/%s/schedstat", path, task->d_name);
        stat = task->d_name[0] != '.' ? fopen(file, "r") : NULL;
        if (stat != NULL && fscanf(stat, "%llu", &ns) == 1)
            sum += (double)ns / 1e9;
        if (stat != NULL)
            fclose(stat);
    }
    if (tasks != NULL)
        closedir(tasks);
    return sum;
}

static long
rss_kb(int pid)
{
    char path[64], line[256];
    long kb = 0;
    FILE *status;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    status = fopen(path, "r");
    while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0)
            kb = strtol(line + 6, NULL, 10);
    }
    if (status != NULL)
        fclose(status);
    return kb;
}

static void
read_some(int epoll, int timeout_ms)
{
    static struct epoll_event events[1024];
    int count = epoll_wait(epoll, events, 1024, timeout_ms);

    for (int i = 0; i < count; i++) {
        if (client_read(events[i].data.ptr) != 0) {
            errno = 0;
            fail("the server closed a connection");
        }
    }
}

/* Keeps `window` bursts in flight for `seconds`; returns the number of messages. */
static uint64_t
run(const struct options *options, int epoll, double seconds)
{
    uint64_t per_burst = (uint64_t)options->burst * (uint64_t)options->clients;
    uint64_t published = 0;
    uint64_t before = messages_seen;
    double until = now_s() + seconds;

    while (now_s() < until) {
        uint64_t under_way = (published - (messages_seen - before) + per_burst - 1) / per_burst;

        if (!options->listen && !options->idle && under_way < (uint64_t)options->window) {
            publish(options, options->window - (int)under_way);
            published += per_burst * ((uint64_t)options->window - under_way);
        }
        read_some(epoll, 20);
    }
    /* The total includes bursts that are still in flight. */
    until += 10;
    while (!options->listen && messages_seen - before < published) {
        read_some(epoll, 100);
        if (now_s() > until) {
            errno = 0;
            fail("messages were lost");
        }
    }
    return messages_seen - before;
}

static int
by_age(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static void
print_ages(void)
{
    if (age_count == 0) {
        printf(" p50_us=0 p99_us=0");
        return;
    }
    qsort(ages, age_count, sizeof(*ages), by_age);
    printf(" p50_us=%u p99_us=%u max_us=%u", ages[age_count / 2],
           ages[(size_t)((double)age_count * 0.99)], ages[age_count - 1]);
}

static void
measure(const struct options *options, int epoll)
{
    double cpu[4];
    double began, elapsed;
    uint64_t count;

    if (!options->listen)
        run(options, epoll, options->seconds / 5);
    age_count = 0;
    for (int i = 0; i < options->pid_count; i++)
        cpu[i] = cpu_seconds(options->pids[i]);
    began = now_s();
    count = run(options, epoll, options->seconds);
    elapsed = now_s() - began;
    printf("deliveries=%llu rate=%.0f", (unsigned long long)count, (double)count / elapsed);
    for (int i = 0; i < options->pid_count; i++)
        printf(" cpu%d=%.3f", i, (cpu_seconds(options->pids[i]) - cpu[i]) / (double)count * 1e6);
    if (options->latency)
        print_ages();
    printf("\n");
}

/* Opens the clients from the given one on, up to `end`. */
static void
open_clients(const struct options *options, struct client *clients, int from, int end, int epoll)
{
    if (options->simultaneous && from < end)
        clients_open_at_once(clients, options);
    for (int i = from; i < end; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};

        if (!options->simultaneous)
            client_open(&clients[i], options, i);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &event) != 0)
            fail("epoll_ctl");
    }
}

static void
add_pids(struct options *options, const char *text)
{
    char *end = NULL;

    for (; *text != '\0' && options->pid_count < 4; text = *end == ',' ? end + 1 : end)
        options->pids[options->pid_count++] = (int)strtol(text, &end, 10);
}

static void
parse_option(struct options *options, int name)
{
    switch (name) {
    case 'k':
        options->kind = optarg;
        break;
    case 'p':
        options->port = (int)strtol(optarg, NULL, 10);
        break;
    case 'c':
        options->control_port = (int)strtol(optarg, NULL, 10);
        break;
    case 's':
        options->store = optarg;
        break;
    case 'x':
        options->secret = optarg;
        break;
    case 'n':
        options->clients = (int)strtol(optarg, NULL, 10);
        break;
    case 'b':
        options->bytes = strtoul(optarg, NULL, 10);
        break;
    case 'u':
        options->burst = (int)strtol(optarg, NULL, 10);
        break;
    case 'w':
        options->window = (int)strtol(optarg, NULL, 10);
        break;
    case 't':
        options->seconds = strtod(optarg, NULL);
        break;
    case 'i':
        add_pids(options, optarg);
        break;
    case 'e':
        options->each = true;
        break;
    case 'l':
        options->listen = true;
        break;
    case 'd':
        options->idle = true;
        break;
    case 'a':
        options->latency = true;
        break;
    case 'o':
        options->simultaneous = true;
        break;
    case 'g':
        options->patient = true;
        break;
    default:
        exit(2);
    }
}

static struct options
read_options(int argc, char **argv)
{
    static const struct option names[] = {
        {"kind", 1, NULL, 'k'},    {"port", 1, NULL, 'p'},         {"control", 1, NULL, 'c'},
        {"store", 1, NULL, 's'},   {"secret", 1, NULL, 'x'},       {"clients", 1, NULL, 'n'},
        {"bytes", 1, NULL, 'b'},   {"burst", 1, NULL, 'u'},        {"window", 1, NULL, 'w'},
        {"seconds", 1, NULL, 't'}, {"pids", 1, NULL, 'i'},         {"each", 0, NULL, 'e'},
        {"listen", 0, NULL, 'l'},  {"idle", 0, NULL, 'd'},         {"latency", 0, NULL, 'a'},
        {"patient", 0, NULL, 'g'}, {"simultaneous", 0, NULL, 'o'}, {NULL, 0, NULL, 0}};
    struct options options = {
        .kind = "floor", .clients = 1, .bytes = 1024, .burst = 1, .window = 1, .seconds = 2};
    int name;

    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1)
        parse_option(&options, name);
    return options;
}

int
main(int argc, char **argv)
{
    struct options options = read_options(argc, argv);
    struct client *clients = calloc((size_t)options.clients, sizeof(*clients));
    struct rlimit limit;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    long before_kb;
    int first;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    message_min = options.listen ? 200 : options.bytes / 2;
    if (options.latency)
        ages = malloc(AGES_MAX * sizeof(*ages));
    /* The first client makes the server load what all of them share, such as code of libcrypto. */
    first = options.idle && !options.simultaneous ? 1 : 0;
    open_clients(&options, clients, 0, first, epoll);
    before_kb = options.pid_count > 0 ? rss_kb(options.pids[0]) : 0;
    open_clients(&options, clients, first, options.clients, epoll);
    if (options.idle) {
        run(&options, epoll, options.seconds);
        printf("rss_before_kb=%ld rss_after_kb=%ld bytes_per_connection=%.0f\n", before_kb,
               rss_kb(options.pids[0]),
               (double)(rss_kb(options.pids[0]) - before_kb) * 1024 / (options.clients - first));
        return 0;
    }
    if (!options.listen)
        publish_open(&options);
    if (options.listen) {
        printf("ready\n"); /* all clients are connected: the writer can start */
        fflush(stdout);
    }
    measure(&options, epoll);
    return 0;
}
