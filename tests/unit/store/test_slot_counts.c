/* test_slot_counts.c: counts of keys share a connection per node, and none is lost or confused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/config.h"
#include "store/servers/slot_counts.h"

#define COUNTS_MAX 16
#define LINES_PER_COMMAND 7 /* three words, each with its length */

/* A node whose number of keys is twice the number of the slot. */
static struct {
    int listener;
    int peers[COUNTS_MAX];
    ev_io watchers[COUNTS_MAX + 1];
    unsigned connections;
    unsigned lines; /* received of the current command */
    char line[64];
    size_t line_len;
    bool is_silent, is_loading;
} node;

static struct slot_counts *counts;
static struct config config;
static struct {
    long long keys;
    const char *error;
} results[COUNTS_MAX];
static unsigned ended;

static void
reply_to_line(int peer)
{
    char reply[64];

    node.line[node.line_len] = '\0';
    node.line_len = 0;
    if (++node.lines < LINES_PER_COMMAND)
        return;
    node.lines = 0;
    if (node.is_silent)
        return;
    (void)snprintf(reply, sizeof(reply), node.is_loading ? "-LOADING\r\n" : ":%d\r\n",
                   2 * (int)strtol(node.line, NULL, 10));
    assert_int_equal(write(peer, reply, strlen(reply)), (ssize_t)strlen(reply));
}

static void
on_command(struct ev_loop *loop, ev_io *watcher, int events)
{
    char bytes[1024];
    const ssize_t len = read(watcher->fd, bytes, sizeof(bytes));

    (void)events;
    if (len <= 0)
        ev_io_stop(loop, watcher);
    for (ssize_t i = 0; i < len; i++) {
        if (bytes[i] == '\n')
            reply_to_line(watcher->fd);
        else if (node.line_len < sizeof(node.line) - 1)
            node.line[node.line_len++] = bytes[i];
    }
}

static void
on_connection(struct ev_loop *loop, ev_io *watcher, int events)
{
    const int peer = accept(watcher->fd, NULL, NULL);
    ev_io *io = &node.watchers[node.connections];

    (void)events;
    assert_true(peer >= 0 && node.connections < COUNTS_MAX);
    node.peers[node.connections++] = peer;
    ev_io_init(io, on_command, peer, EV_READ);
    ev_io_start(loop, io);
}

static void
start_node(struct url *ret_address)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    ev_io *io = &node.watchers[COUNTS_MAX];

    memset(&node, 0, sizeof(node));
    node.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(node.listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(node.listener, COUNTS_MAX), 0);
    assert_int_equal(getsockname(node.listener, (struct sockaddr *)&address, &len), 0);
    ev_io_init(io, on_connection, node.listener, EV_READ);
    ev_io_start(EV_DEFAULT, io);
    memset(ret_address, 0, sizeof(*ret_address));
    (void)snprintf(ret_address->host, sizeof(ret_address->host), "127.0.0.1");
    ret_address->port = ntohs(address.sin_port);
    memset(results, 0, sizeof(results));
    ended = 0;
    counts = slot_counts_open(EV_DEFAULT, &config);
}

static void
stop_node(void)
{
    slot_counts_close(counts);
    for (unsigned i = 0; i < node.connections; i++) {
        ev_io_stop(EV_DEFAULT, &node.watchers[i]);
        close(node.peers[i]);
    }
    ev_io_stop(EV_DEFAULT, &node.watchers[COUNTS_MAX]);
    close(node.listener);
}

static void
on_counted(void *ctx, long long keys, const char *error)
{
    const unsigned number = *(unsigned *)ctx;

    results[number].keys = keys;
    results[number].error = error == NULL ? NULL : "failed";
    ended++;
}

static unsigned numbers[COUNTS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static struct slot_count *
start_count(const struct url *address, unsigned number)
{
    return slot_count_start(counts, address, 100 + number, on_counted, &numbers[number]);
}

static void
run_until_ended(unsigned count)
{
    while (ended < count)
        ev_run(EV_DEFAULT, EVRUN_ONCE);
}

static void
assert_counted(unsigned number)
{
    assert_null(results[number].error);
    assert_int_equal(results[number].keys, 2 * (100 + number));
}

static void
test_counts_share_a_connection(void **state)
{
    struct url address;

    (void)state;
    start_node(&address);
    for (unsigned i = 0; i < 8; i++)
        (void)start_count(&address, i);
    run_until_ended(8);
    for (unsigned i = 8; i < 10; i++)
        (void)start_count(&address, i); /* while the connection is idle */
    run_until_ended(10);
    for (unsigned i = 0; i < 10; i++)
        assert_counted(i);
    assert_int_equal(node.connections, 1);
    stop_node();
}

static void
test_reply_of_a_stopped_count_is_skipped(void **state)
{
    struct url address;

    (void)state;
    start_node(&address);
    slot_count_stop(start_count(&address, 0));
    (void)start_count(&address, 1);
    slot_count_stop(start_count(&address, 2));
    (void)start_count(&address, 3);
    run_until_ended(2);
    assert_counted(1);
    assert_counted(3);
    stop_node();
}

static void
test_all_counts_fail_with_their_connection(void **state)
{
    struct url address;

    (void)state;
    start_node(&address);
    node.is_loading = true;
    (void)start_count(&address, 0);
    (void)start_count(&address, 1);
    run_until_ended(2);
    assert_string_equal(results[0].error, "failed");
    assert_string_equal(results[1].error, "failed");
    node.is_loading = false;
    (void)start_count(&address, 2);
    run_until_ended(3);
    assert_counted(2);
    assert_int_equal(node.connections, 3); /* the second count was repeated */
    stop_node();
}

static void
test_late_count_is_repeated_on_another_connection(void **state)
{
    struct url address;

    (void)state;
    start_node(&address);
    node.is_silent = true;
    (void)start_count(&address, 0);
    (void)start_count(&address, 1);
    run_until_ended(1);
    assert_string_equal(results[0].error, "failed");
    node.is_silent = false;
    run_until_ended(2);
    assert_counted(1);
    assert_int_equal(node.connections, 2);
    stop_node();
}

static void
test_later_count_without_a_reply_fails(void **state)
{
    struct url address;

    (void)state;
    start_node(&address);
    (void)start_count(&address, 0);
    run_until_ended(1);
    node.is_silent = true;
    (void)start_count(&address, 1);
    run_until_ended(2);
    assert_string_equal(results[1].error, "failed");
    stop_node();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_share_a_connection),
        cmocka_unit_test(test_reply_of_a_stopped_count_is_skipped),
        cmocka_unit_test(test_all_counts_fail_with_their_connection),
        cmocka_unit_test(test_late_count_is_repeated_on_another_connection),
        cmocka_unit_test(test_later_count_without_a_reply_fails),
    };

    alarm(60); /* ends a loop whose count never ends */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
