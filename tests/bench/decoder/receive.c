/*
 * receive.c: reads WAL through one output plugin, discards it, and reports the cost.
 *
 *   receive CONNINFO SLOT PLUGIN END_LSN [OPTIONS]
 *
 * CONNINFO contains replication=database. SLOT is copied to a temporary slot of PLUGIN, so the same
 * WAL can be read any number of times. OPTIONS is the string between the parentheses of
 * START_REPLICATION. Prints one line for the WAL up to END_LSN: CPU of the walsender in ns, wall
 * time in ns, peak RSS of the walsender in kB, messages, and the bytes of messages.
 */
#include <endian.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libpq-fe.h>

#define FEEDBACK_NS (10 * INT64_C(1000000000))
#define HEADER_LEN 25    /* 'w', start, end, time */
#define KEEPALIVE_LEN 18 /* 'k', end, time, reply requested */

struct receiver {
    PGconn *connection;
    uint64_t end_lsn;
    uint64_t received_lsn;
    int64_t feedback_ns; /* time of the last status update */
    uint64_t messages;
    uint64_t bytes;
    bool done;
};

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void
die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    exit(1);
}

static int64_t
now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static uint64_t
load_u64(const char *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return be64toh(value);
}

static void
store_u64(char *at, uint64_t value)
{
    value = htobe64(value);
    memcpy(at, &value, sizeof(value));
}

/* Returns the number that follows `key` in a file of /proc/PID. */
static uint64_t
proc_number(int pid, const char *file, const char *key)
{
    char path[64], text[4096];
    const char *at;
    size_t len;
    FILE *stream;

    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    stream = fopen(path, "r");
    if (stream == NULL)
        die("could not read %s: this bench needs Linux and a private server\n", path);
    len = fread(text, 1, sizeof(text) - 1, stream);
    fclose(stream);
    text[len] = '\0';
    at = strstr(text, key);
    if (at == NULL)
        die("%s has no \"%s\"\n", path, key);
    return strtoull(at + strlen(key), NULL, 10);
}

/* The first number of schedstat is the time on a CPU, user and system, in ns. */
static uint64_t
cpu_ns(int pid)
{
    return proc_number(pid, "schedstat", "");
}

/* The status update confirms no WAL; it only shows that the client is alive. */
static void
send_feedback(struct receiver *receiver)
{
    char message[34] = {'r'};

    store_u64(message + 1, receiver->received_lsn);
    if (PQputCopyData(receiver->connection, message, sizeof(message)) != 1 ||
        PQflush(receiver->connection) < 0)
        die("%s", PQerrorMessage(receiver->connection));
    receiver->feedback_ns = now_ns();
}

/* Before a keepalive, the server has decoded and sent everything up to the keepalive's LSN. */
static void
handle_message(struct receiver *receiver, const char *message, size_t len)
{
    if (len >= HEADER_LEN && message[0] == 'w') {
        receiver->messages++;
        receiver->bytes += len - HEADER_LEN;
        return;
    }
    if (len < KEEPALIVE_LEN || message[0] != 'k')
        die("the server sent a message that is not a replication message\n");
    receiver->received_lsn = load_u64(message + 1);
    if (receiver->received_lsn >= receiver->end_lsn)
        receiver->done = true;
    else if (message[KEEPALIVE_LEN - 1] != 0)
        send_feedback(receiver);
}

static void
wait_for_bytes(struct receiver *receiver)
{
    struct pollfd socket = {.fd = PQsocket(receiver->connection), .events = POLLIN};

    if (now_ns() - receiver->feedback_ns > FEEDBACK_NS)
        send_feedback(receiver);
    poll(&socket, 1, (int)(FEEDBACK_NS / 1000000));
    if (PQconsumeInput(receiver->connection) == 0)
        die("%s", PQerrorMessage(receiver->connection));
}

static void
receive_all(struct receiver *receiver)
{
    while (!receiver->done) {
        char *message = NULL;
        int len = PQgetCopyData(receiver->connection, &message, 1);

        if (len > 0)
            handle_message(receiver, message, (size_t)len);
        else if (len == 0)
            wait_for_bytes(receiver);
        else
            die("%s", PQerrorMessage(receiver->connection));
        PQfreemem(message);
    }
}

static void
command(PGconn *connection, ExecStatusType expected, const char *format, ...)
{
    char text[1024];
    va_list args;
    PGresult *result;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    result = PQexec(connection, text);
    if (PQresultStatus(result) != expected)
        die("%s", PQerrorMessage(connection));
    PQclear(result);
}

static uint64_t
parse_lsn(const char *text)
{
    char *end;
    uint64_t high = strtoull(text, &end, 16);

    if (*end != '/')
        die("\"%s\" is not a WAL position\n", text);
    return high << 32 | strtoull(end + 1, NULL, 16);
}

int
main(int argc, char **argv)
{
    struct receiver receiver = {0};
    const char *options = argc == 6 ? argv[5] : "";
    int64_t wall;
    uint64_t cpu;
    int pid;

    if (argc < 5 || argc > 6)
        die("usage: receive CONNINFO SLOT PLUGIN END_LSN [OPTIONS]\n");
    receiver.end_lsn = parse_lsn(argv[4]);
    receiver.connection = PQconnectdb(argv[1]);
    if (PQstatus(receiver.connection) != CONNECTION_OK)
        die("%s", PQerrorMessage(receiver.connection));
    command(receiver.connection, PGRES_TUPLES_OK,
            "SELECT pg_copy_logical_replication_slot('%s', 'bench_run', true, '%s')", argv[2],
            argv[3]);

    pid = PQbackendPID(receiver.connection);
    cpu = cpu_ns(pid);
    wall = receiver.feedback_ns = now_ns();
    command(receiver.connection, PGRES_COPY_BOTH,
            "START_REPLICATION SLOT bench_run LOGICAL 0/0%s%s%s", *options == '\0' ? "" : " (",
            options, *options == '\0' ? "" : ")");
    receive_all(&receiver);
    wall = now_ns() - wall;
    cpu = cpu_ns(pid) - cpu;
    printf("%" PRIu64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", cpu, wall,
           proc_number(pid, "status", "VmHWM:"), receiver.messages, receiver.bytes);
    PQfinish(receiver.connection);
    return 0;
}
