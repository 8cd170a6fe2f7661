/*
 * tls_head.c: validates each request head over TLS, record by record (struct tls_records), before
 * libwebsockets reads it.
 */
#include "gate/http/tls_head.h"

#include <errno.h>
#include <stdlib.h>

#include <utlist.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/http/response.h"
#include "gate/net/conn_io.h"
#include "gate/net/gate_shared.h"
#include "gate/net/lws_workarounds.h"
#include "gate/net/server.h"
#include "wire/http_head.h"

#define HEADS_MAX 1024 /* maximum connections without a request, 50 kB each */
/* Minimum age for eviction, so that the connections of a burst do not evict each other. */
#define TIMEOUT_US (3 * INT64_C(1000000))
#define PARTIAL_MAX 128 /* each occupies one of LWS_HEADER_TABLES */
#define SEEN_MAX (GATE_HEAD_BYTES_MAX + GATE_RECEIVED_MAX)

/*
 * Until lws has the request, records are peeked at. After a rejection, `is_lingering` is set while
 * the response is sent and further input is discarded.
 */
struct gate_tls_head {
    struct gate *gate;
    struct gate_tls_head *prev; /* link of `first` or `partial`, oldest first */
    struct gate_tls_head *next;
    struct tls_records records;
    struct buffer seen; /* start of a head that spans several records */
    bool is_lingering;
    size_t discarded; /* number of bytes discarded while lingering */
    int64_t since_us;
};

struct tls_heads {
    unknown_method_response *on_unknown_method;
    void (*on_room)(struct gate *gate);
    struct gate_tls_head *first; /* oldest first */
    int count;
    struct gate_tls_head *partial; /* partially received heads */
    int partial_count;
};

void
gate_tls_heads_open(struct gate *gate, unknown_method_response *on_unknown_method,
                    void (*on_room)(struct gate *gate))
{
    gate->tls_heads = memory_new(sizeof(*gate->tls_heads));
    gate->tls_heads->on_unknown_method = on_unknown_method;
    gate->tls_heads->on_room = on_room;
}

void
gate_tls_heads_free(struct gate *gate)
{
    free(gate->tls_heads);
    gate->tls_heads = NULL;
}

static bool
is_partial(const struct gate_tls_head *head)
{
    return head->seen.len > 0;
}

static void
tls_head_free(struct gate_tls_head *head)
{
    struct gate *gate = head->gate;

    tls_records_stop(&head->records);
    if (is_partial(head)) {
        DL_DELETE(gate->tls_heads->partial, head);
        gate->tls_heads->partial_count--;
    } else {
        DL_DELETE(gate->tls_heads->first, head);
        gate->tls_heads->count--;
        gate->tls_heads->on_room(gate);
    }
    buffer_free(&head->seen);
    free(head);
}

void
gate_tls_head_read(struct lws *wsi)
{
    struct gate_tls_head *head = tls_records_owner(wsi);

    if (head != NULL)
        tls_head_free(head);
}

static void
head_kill(struct gate_tls_head *head)
{
    const struct conn_io io = head->records.io;

    tls_head_free(head);
    conn_io_close(&io);
}

static void
tls_head_respond(struct gate_tls_head *head, struct response *response)
{
    struct buffer out;
    ssize_t sent = -1;

    stats_add(head->gate->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
    tls_records_end(&head->records);
    if (response_build(response, &out) == RC_OK)
        sent = conn_io_write(&head->records.io, out.bytes, out.len);
    buffer_free(&out);
    if (sent <= 0 || !conn_io_half_close(&head->records.io)) {
        head_kill(head);
        return;
    }
    head->is_lingering = true;
    head->since_us = clock_monotonic_us();
    if (!is_partial(head)) { /* now the newest: moves it to the end */
        DL_DELETE(head->gate->tls_heads->first, head);
        DL_APPEND(head->gate->tls_heads->first, head);
    }
}

/*
 * Buffers the record, to validate it with the next record. False: the connection was closed.
 */
static bool
buffer_record(struct gate_tls_head *head, size_t len)
{
    struct gate *gate = head->gate;
    bool is_first = !is_partial(head);

    if (is_first && gate->tls_heads->partial_count == PARTIAL_MAX) {
        log_debug("gate", "closing the oldest partial request", LOG_INT("count", PARTIAL_MAX));
        head_kill(gate->tls_heads->partial);
    }
    if (buffer_add(&head->seen, gate->received, len) != RC_OK) {
        head_kill(head);
        return false;
    }
    if (is_first) {
        DL_DELETE(gate->tls_heads->first, head);
        gate->tls_heads->count--;
        DL_APPEND(gate->tls_heads->partial, head);
        gate->tls_heads->partial_count++;
        gate->tls_heads->on_room(gate);
    }
    return true;
}

static void
tls_head_validate(struct gate_tls_head *head, size_t len)
{
    char *bytes = (char *)head->gate->received;
    struct http_head parts;
    struct response rejection;
    const char *problem;
    enum rc rc;

    if (is_partial(head)) {
        if (!buffer_record(head, len))
            return;
        bytes = head->seen.bytes;
        len = head->seen.len;
    }
    rc = gate_head_check(head->gate, head->records.io.fd, bytes, len,
                         head->gate->tls_heads->on_unknown_method, &parts, &rejection);
    problem = rc == RC_OK ? workaround_unedited_problem(bytes, &parts) : NULL;
    if (problem != NULL) {
        response_problem(&rejection, 400, 0, problem);
        rc = RC_BAD;
    }
    if (rc == RC_BAD)
        tls_head_respond(head, &rejection);
    else if (rc == RC_OK || is_partial(head) || buffer_record(head, len))
        tls_records_admit(&head->records);
}

static void
tls_head_peek(struct gate_tls_head *head)
{
    struct gate *gate = head->gate;
    ssize_t got = conn_io_peek(&head->records.io, gate->received, sizeof(gate->received));

    if (got > 0)
        tls_head_validate(head, (size_t)got);
    else if (errno != EAGAIN)
        head_kill(head);
}

static void
tls_head_discard(struct gate_tls_head *head)
{
    struct gate *gate = head->gate;
    ssize_t got = conn_io_discard(&head->records.io, gate->received, sizeof(gate->received));

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0)
        head->discarded += (size_t)got;
    if (got <= 0 || head->discarded > GATE_LINGER_BYTES)
        head_kill(head);
}

static void
on_tls_head_readable(void *owner)
{
    struct gate_tls_head *head = owner;

    if (head->is_lingering)
        tls_head_discard(head);
    else
        tls_head_peek(head);
}

bool
gate_tls_head_has_room(const struct gate *gate)
{
    return gate->tls_heads->count < HEADS_MAX ||
           clock_monotonic_us() - gate->tls_heads->first->since_us > TIMEOUT_US;
}

void
gate_tls_head_begin(struct gate *gate, int fd)
{
    struct gate_tls_head *head;
    struct lws *wsi;

    if (gate->tls_heads->count == HEADS_MAX) {
        log_debug("gate", "closing the oldest TLS connection without a request",
                  LOG_INT("count", HEADS_MAX));
        head_kill(gate->tls_heads->first);
    }
    wsi = server_adopt(gate, fd);
    if (wsi == NULL)
        return;
    head = memory_new(sizeof(*head));
    *head = (struct gate_tls_head){.gate = gate,
                                   .records = {.io = conn_io_of(wsi),
                                               .loop = gate->loop,
                                               .on_readable = on_tls_head_readable,
                                               .owner = head},
                                   .since_us = clock_monotonic_us()};
    buffer_init(&head->seen, SEEN_MAX);
    DL_APPEND(gate->tls_heads->first, head);
    gate->tls_heads->count++;
    tls_records_start(&head->records);
}

static void
sweep(struct gate_tls_head *first, int64_t timeout_us, int64_t now_us)
{
    struct gate_tls_head *head, *next;
    struct response timed_out;

    DL_FOREACH_SAFE (first, head, next) {
        if (now_us - head->since_us <= (head->is_lingering ? GATE_LINGER_US : timeout_us))
            continue;
        if (head->is_lingering || !is_partial(head)) {
            head_kill(head); /* without a request, close without a response */
        } else {
            gate_head_timed_out(&timed_out);
            tls_head_respond(head, &timed_out);
        }
    }
}

void
gate_tls_heads_sweep(struct gate *gate, int64_t now_us)
{
    int64_t timeout_us = gate->config->gate.connect_timeout_ms * 1000;

    sweep(gate->tls_heads->first, timeout_us, now_us);
    sweep(gate->tls_heads->partial, timeout_us, now_us);
}

bool
gate_tls_heads_evict_oldest(struct gate *gate)
{
    struct gate_tls_head *oldest =
        gate->tls_heads->first != NULL ? gate->tls_heads->first : gate->tls_heads->partial;

    if (oldest != NULL)
        head_kill(oldest);
    return oldest != NULL;
}
