/*
 * head.c: validates each request head before libwebsockets reads it (lws_workarounds.h).
 *
 * The head is only peeked at, so it needs no memory in the gate, and libwebsockets reads it from
 * the socket as usual. tls_head.c takes over a TLS connection once the ClientHello is complete and
 * a slot is free. Before that, a TLS connection costs no more than a plain one.
 */
#include "gate/http/head.h"

#include <errno.h>
#include <stdlib.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/arena.h"
#include "gate/http/response.h"
#include "gate/http/tls_head.h"
#include "gate/net/accept.h"
#include "gate/net/conn_io.h"
#include "gate/net/gate_shared.h"
#include "gate/net/server.h"
#include "wire/http_head.h"

#define TLS_HANDSHAKE 0x16
#define TLS_RECORD_HEAD 5
#define TLS_HELLO_MAX 4096 /* bytes; enough for any ClientHello */
#define PEEK_RETRY_S 0.01
#define HELLOS_PER_TURN 16

/*
 * The states of a new connection. Only head_set_state changes the state. The struct is freed when
 * lws adopts the connection, or when the connection is closed.
 *
 * PEEKING: waits for a complete valid request head, or a complete ClientHello. Next: QUEUED (TLS),
 * LINGERING (plain).
 *
 * QUEUED: the ClientHello has arrived; waits for a slot of tls_head.c. In heads->hellos.
 *
 * LINGERING: the request was rejected, and the response is sent. Further input is discarded.
 */
enum head_state { HEAD_PEEKING, HEAD_QUEUED, HEAD_LINGERING };

struct gate_head {
    struct gate *gate;
    struct gate_head *prev; /* link of heads->first or, if QUEUED, of heads->hellos; oldest first */
    struct gate_head *next;
    struct ev_io readable;
    struct ev_timer again; /* retries a peek when poll(2) cannot report new bytes */
    struct conn_io io;
    enum head_state state;
    size_t len; /* number of bytes peeked at or discarded */
    int64_t since_us;
};

struct heads {
    unknown_method_response *on_unknown_method;
    struct gate_head *first;  /* oldest first */
    struct gate_head *hellos; /* TLS clients waiting for a slot, oldest first */
    struct arena arena;
};

_Static_assert(GATE_HEAD_BYTES_MAX <= GATE_RECEIVED_MAX, "a head fits the scratch buffer");

/*
 * Resumes the oldest queued clients in the next loop iteration. Their number is limited, because
 * each handshake costs a signature.
 */
static void
resume_waiting(struct gate *gate)
{
    struct gate_head *head;
    int left = HELLOS_PER_TURN;

    if (!gate_tls_head_has_room(gate))
        return;
    DL_FOREACH (gate->heads->hellos, head) {
        if (left-- == 0)
            return;
        ev_io_start(gate->loop, &head->readable);
    }
}

static void
head_set_state(struct gate_head *head, enum head_state state)
{
    if (head->state != HEAD_PEEKING || state == HEAD_PEEKING)
        abort();
    head->state = state;
}

/* Does not close the descriptor. */
static void
head_free(struct gate_head *head)
{
    struct gate *gate = head->gate;

    ev_io_stop(gate->loop, &head->readable);
    ev_timer_stop(gate->loop, &head->again);
    if (head->state == HEAD_QUEUED) {
        DL_DELETE(gate->heads->hellos, head);
        resume_waiting(gate);
    } else {
        DL_DELETE(gate->heads->first, head);
    }
    arena_release(&gate->heads->arena, head);
}

static void
head_close(struct gate_head *head)
{
    conn_io_close(&head->io);
    head_free(head);
}

/*
 * Lingers after the response: a close with unread bytes would send a reset, which may destroy the
 * response.
 */
static void
head_respond(struct gate_head *head, struct response *response)
{
    struct buffer out;
    ssize_t sent = -1;

    stats_add(head->gate->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
    if (response_build(response, &out) == RC_OK)
        sent = conn_io_write(&head->io, out.bytes, out.len);
    buffer_free(&out);
    if (sent < 0 || !conn_io_half_close(&head->io)) {
        head_close(head);
        return;
    }
    head_set_state(head, HEAD_LINGERING);
    head->len = 0;
    head->since_us = clock_monotonic_us();
    ev_timer_stop(head->gate->loop, &head->again);
    ev_io_start(head->gate->loop, &head->readable);
}

static void
adopt_head(struct gate_head *head, const struct http_head *parts)
{
    struct gate *gate = head->gate;
    const struct conn_io io = head->io;

    (void)conn_io_set_low_water(&io, 1);
    head_free(head);
    server_adopt_head(gate, &io, (char *)gate->received, parts);
}

static void
enqueue_hello(struct gate_head *head)
{
    struct gate *gate = head->gate;

    (void)conn_io_set_low_water(&head->io, 1);
    ev_io_stop(gate->loop, &head->readable);
    ev_timer_stop(gate->loop, &head->again);
    DL_DELETE(gate->heads->first, head);
    head_set_state(head, HEAD_QUEUED);
    DL_APPEND(gate->heads->hellos, head);
    resume_waiting(gate);
}

static void
adopt_hello(struct gate_head *head)
{
    struct gate *gate = head->gate;
    const int fd = head->io.fd;

    if (head->state == HEAD_PEEKING) {
        enqueue_hello(head);
    } else if (conn_io_is_half_closed(&head->io)) {
        head_close(head); /* the client has disconnected: no signature is needed */
    } else if (gate_tls_head_has_room(gate)) {
        head_free(head);
        gate_tls_head_begin(gate, fd);
    } else {
        ev_io_stop(gate->loop, &head->readable);
    }
}

/*
 * Waits with a low-water mark. A timer replaces the mark where it has no effect: on a Unix socket,
 * and under memory pressure.
 */
static void
wait_for_more(struct gate_head *head, size_t len)
{
    bool is_longer = len > head->len;

    head->len = len;
    /* After a half-close, no more bytes will arrive. */
    if (conn_io_is_half_closed(&head->io)) {
        if (is_longer)
            ev_feed_event(head->gate->loop, &head->readable, EV_READ);
        else
            head_close(head);
        return;
    }
    if (is_longer && !gate_fd_is_unix(head->gate, head->io.fd) &&
        conn_io_set_low_water(&head->io, len + 1))
        return;
    ev_io_stop(head->gate->loop, &head->readable);
    ev_timer_again(head->gate->loop, &head->again);
}

/* RC_OK: the first TLS record has arrived, or TLS_HELLO_MAX bytes of it. */
static enum rc
check_hello(const unsigned char *bytes, size_t len)
{
    size_t whole;

    if (bytes[0] != TLS_HANDSHAKE)
        return RC_BAD;
    if (len < TLS_RECORD_HEAD)
        return RC_AGAIN;
    whole = TLS_RECORD_HEAD + ((size_t)bytes[3] << 8 | bytes[4]);
    return len < whole && len < TLS_HELLO_MAX ? RC_AGAIN : RC_OK;
}

static void
check_tls(struct gate_head *head, size_t len)
{
    switch (check_hello(head->gate->received, len)) {
    case RC_OK:
        adopt_hello(head);
        break;
    case RC_AGAIN:
        wait_for_more(head, len);
        break;
    default:
        log_debug("gate", "connection closed: not a TLS handshake");
        stats_add(head->gate->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
        head_close(head);
        break;
    }
}

static void
head_validate(struct gate_head *head, size_t len)
{
    struct response rejection;
    struct http_head parts;

    switch (gate_head_check(head->gate, head->io.fd, (const char *)head->gate->received, len,
                            head->gate->heads->on_unknown_method, &parts, &rejection)) {
    case RC_OK:
        adopt_head(head, &parts);
        break;
    case RC_AGAIN:
        wait_for_more(head, len);
        break;
    default:
        head_respond(head, &rejection);
        break;
    }
}

static void
head_peek(struct gate_head *head)
{
    struct gate *gate = head->gate;
    ssize_t got = conn_io_peek(&head->io, gate->received, sizeof(gate->received));

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0)
        head_close(head);
    else if (server_tls(gate) != NULL)
        check_tls(head, (size_t)got);
    else
        head_validate(head, (size_t)got);
}

static void
head_discard(struct gate_head *head)
{
    struct gate *gate = head->gate;
    ssize_t got = conn_io_discard(&head->io, gate->received, sizeof(gate->received));

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0)
        head->len += (size_t)got;
    if (got <= 0 || head->len > GATE_LINGER_BYTES)
        head_close(head);
}

static void
on_head_readable(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct gate_head *head = io->data;

    (void)loop;
    (void)events;
    if (head->state == HEAD_LINGERING)
        head_discard(head);
    else
        head_peek(head);
}

static void
on_peek_retry(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    head_peek(timer->data);
}

void
gate_heads_open(struct gate *gate, unknown_method_response *on_unknown_method)
{
    gate->heads = memory_new(sizeof(*gate->heads));
    *gate->heads = (struct heads){
        .on_unknown_method = on_unknown_method,
        .arena = {.item_bytes = sizeof(struct gate_head),
                  .max = (size_t)gate->config->gate.max_connections + GATE_DESCRIPTORS_PASSING},
    };
    gate_tls_heads_open(gate, on_unknown_method, resume_waiting);
}

static struct gate_head *
oldest_head(const struct gate *gate)
{
    struct gate_head *head = gate->heads->first, *hello = gate->heads->hellos;

    if (head == NULL || hello == NULL)
        return head != NULL ? head : hello;
    return head->since_us < hello->since_us ? head : hello;
}

/*
 * If the arena is full, closes the oldest connection: newer clients of a burst may not have sent
 * their requests yet.
 */
static struct gate_head *
head_new(struct gate *gate)
{
    struct gate_head *head = arena_alloc(&gate->heads->arena);

    if (head == NULL) {
        log_debug("gate", "closing the oldest connection without a request",
                  LOG_UINT("count", gate->heads->arena.in_use));
        head_close(oldest_head(gate));
        head = arena_alloc(&gate->heads->arena);
    }
    return head;
}

void
gate_head_begin(struct gate *gate, int fd)
{
    struct gate_head *head = head_new(gate);

    *head =
        (struct gate_head){.gate = gate, .io = conn_io_of_fd(fd), .since_us = clock_monotonic_us()};
    ev_io_init(&head->readable, on_head_readable, fd, EV_READ);
    ev_init(&head->again, on_peek_retry);
    head->again.repeat = PEEK_RETRY_S;
    head->readable.data = head->again.data = head;
    DL_APPEND(gate->heads->first, head);
    ev_io_start(gate->loop, &head->readable);
}

void
gate_heads_sweep(struct gate *gate, int64_t now_us)
{
    int64_t timeout_us = gate->config->gate.connect_timeout_ms * 1000;
    struct gate_head *head, *next;
    struct response timed_out;

    DL_FOREACH_SAFE (gate->heads->first, head, next) {
        if (head->state == HEAD_LINGERING && now_us - head->since_us > GATE_LINGER_US)
            head_close(head);
        else if (head->state == HEAD_PEEKING && now_us - head->since_us > timeout_us &&
                 (head->len == 0 || server_tls(gate) != NULL))
            head_close(head); /* without a request, close without a response */
        else if (head->state == HEAD_PEEKING && now_us - head->since_us > timeout_us) {
            gate_head_timed_out(&timed_out);
            head_respond(head, &timed_out);
        }
    }
    resume_waiting(gate);
    gate_tls_heads_sweep(gate, now_us);
}

void
gate_heads_close(struct gate *gate)
{
    while (gate->heads->first != NULL)
        head_close(gate->heads->first);
    while (gate->heads->hellos != NULL)
        head_close(gate->heads->hellos);
    arena_free(&gate->heads->arena);
    free(gate->heads);
    gate->heads = NULL;
    gate_tls_heads_free(gate);
}

bool
gate_heads_evict_oldest(struct gate *gate)
{
    struct gate_head *oldest = oldest_head(gate);

    if (oldest == NULL)
        return gate_tls_heads_evict_oldest(gate);
    head_close(oldest);
    return true;
}
