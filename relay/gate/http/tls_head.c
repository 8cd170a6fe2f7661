/*
 * tls_head.c: looks at the head of each request that comes over TLS before libwebsockets does.
 *
 * Decrypted bytes can be peeked at, but only those of one record. So lws, which is kept from
 * reading, is let to each record once it was judged together with those before it. Our watcher has
 * the higher priority: of one event it learns first, and lws not at all if it is stopped by then.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/gate_request.h"

#define BEFORE_LWS 1   /* its watchers have priority 0 */
#define NUDGE_S 0.01   /* poll does not see what OpenSSL has read already */
#define HEADS_MAX 1024 /* that shake hands, or have yet to ask: some 50 kB each */
/* For its place: who has it shorter is not to lose it to others of the same crowd. */
#define PATIENCE_US (3 * INT64_C(1000000))
#define PARTIAL_MAX 128 /* of which lws has a part, and a place for headers: few of its places */
#define SEEN_MAX (GATE_HEAD_BYTES_MAX + GATE_RECEIVED_MAX)

/*
 * PEEKING -> done, when lws has the request; or LINGERING: answered, what still comes is thrown
 * away.
 */
struct gate_tls_head {
    struct gate *gate;
    struct gate_tls_head *prev; /* in one of the gate's lists, the oldest first */
    struct gate_tls_head *next;
    struct ev_io readable;
    struct ev_timer nudge; /* while lws is to read */
    struct lws *wsi;
    struct buffer seen; /* of a head that takes more than one record */
    bool is_lingering;
    size_t thrown; /* bytes */
    int64_t since_us;
};

static bool
is_partial(const struct gate_tls_head *head)
{
    return head->seen.len > 0;
}

static void
head_free(struct gate_tls_head *head)
{
    struct gate *gate = head->gate;

    lws_set_opaque_user_data(head->wsi, NULL);
    ev_io_stop(gate->loop, &head->readable);
    ev_timer_stop(gate->loop, &head->nudge);
    if (is_partial(head)) {
        DL_DELETE(gate->tls_partial, head);
        gate->tls_partial_count--;
    } else {
        DL_DELETE(gate->tls_heads, head);
        gate->tls_head_count--;
        gate_heads_go_on(gate);
    }
    buffer_free(&head->seen);
    free(head);
}

void
gate_head_tls_done(struct lws *wsi)
{
    struct gate_tls_head *head = lws_get_opaque_user_data(wsi);

    if (head != NULL)
        head_free(head);
}

static void
head_kill(struct gate_tls_head *head)
{
    struct lws *wsi = head->wsi;

    head_free(head);
    lws_set_timeout(wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_SYNC);
}

static void
answer(struct gate_tls_head *head, struct gate_answer *answer)
{
    SSL *ssl = lws_get_ssl(head->wsi);
    struct buffer out;
    int sent = -1;

    stats_add(head->gate->stats, STAT_GATE_PROTOCOL_ERRORS, 1);
    lws_rx_flow_control(head->wsi, 0);
    ERR_clear_error();
    if (gate_answer_build(answer, &out) == RC_OK)
        sent = SSL_write(ssl, out.bytes + LWS_PRE, (int)(out.len - LWS_PRE));
    buffer_free(&out);
    if (sent <= 0 || !gate_say_no_more(head->wsi)) {
        head_kill(head);
        return;
    }
    head->is_lingering = true;
    head->since_us = clock_monotonic_us();
    if (!is_partial(head)) { /* and it is the newest now */
        DL_DELETE(head->gate->tls_heads, head);
        DL_APPEND(head->gate->tls_heads, head);
    }
    ev_timer_stop(head->gate->loop, &head->nudge);
}

static void
let_lws_read(struct gate_tls_head *head)
{
    lws_rx_flow_control(head->wsi, 1);
    ev_feed_fd_event(head->gate->loop, head->readable.fd, EV_READ);
    ev_timer_again(head->gate->loop, &head->nudge);
}

/* lws may have been without a place for headers. */
static void
on_nudge(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct gate_tls_head *head = timer->data;

    (void)events;
    if (SSL_pending(lws_get_ssl(head->wsi)) > 0)
        ev_feed_fd_event(loop, head->readable.fd, EV_READ);
    else
        ev_timer_stop(loop, timer);
}

/* What is judged next is judged with these bytes. False: there is no room, the connection ends. */
static bool
keep(struct gate_tls_head *head, size_t len)
{
    struct gate *gate = head->gate;
    bool is_first = !is_partial(head);

    if (is_first && gate->tls_partial_count == PARTIAL_MAX) {
        log_debug("gate", "%d requests came in part: the oldest is not waited for", PARTIAL_MAX);
        head_kill(gate->tls_partial);
    }
    if (buffer_add(&head->seen, gate->received, len) != RC_OK) {
        head_kill(head);
        return false;
    }
    if (is_first) {
        DL_DELETE(gate->tls_heads, head);
        gate->tls_head_count--;
        DL_APPEND(gate->tls_partial, head);
        gate->tls_partial_count++;
        gate_heads_go_on(gate);
    }
    return true;
}

static void
judge(struct gate_tls_head *head, size_t len)
{
    char *bytes = (char *)head->gate->received;
    struct http_head parts;
    struct gate_answer wrong;
    enum rc rc;

    if (is_partial(head)) {
        if (!keep(head, len))
            return;
        bytes = head->seen.bytes;
        len = head->seen.len;
    }
    rc = gate_head_judge(head->gate, lws_get_socket_fd(head->wsi), bytes, len, &parts, &wrong);
    /* head.c hides them from lws, which is not possible here. */
    if (rc == RC_OK && parts.idle_upgrade != NULL) {
        gate_answer_problem(&wrong, 400, 0,
                            "Upgrade must be websocket here, and Connection must name it");
        rc = RC_BAD;
    } else if (rc == RC_OK && gate_head_hides(bytes, parts.len, false)) {
        gate_answer_problem(&wrong, 400, 0,
                            "the name of a header is only the beginning of another's: it would "
                            "hide what follows");
        rc = RC_BAD;
    }
    if (rc == RC_BAD)
        answer(head, &wrong);
    else if (rc == RC_OK || is_partial(head) || keep(head, len))
        let_lws_read(head);
}

static void
peek(struct gate_tls_head *head, SSL *ssl)
{
    struct gate *gate = head->gate;
    int got;

    ERR_clear_error();
    got = SSL_peek(ssl, gate->received, sizeof(gate->received));
    if (got > 0)
        judge(head, (size_t)got);
    else if (gate_tls_errno(ssl, got) != EAGAIN)
        head_kill(head);
}

static void
throw_away(struct gate_tls_head *head)
{
    struct gate *gate = head->gate;
    ssize_t got = recv(head->readable.fd, gate->received, sizeof(gate->received), 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0)
        head->thrown += (size_t)got;
    if (got <= 0 || head->thrown > GATE_LINGER_BYTES)
        head_kill(head);
}

static void
on_readable(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct gate_tls_head *head = io->data;
    SSL *ssl = lws_get_ssl(head->wsi);

    (void)loop;
    (void)events;
    if (head->is_lingering) {
        throw_away(head);
        return;
    }
    /* The handshake is lws's; so is what was judged and is not read yet. */
    if (!SSL_is_init_finished(ssl) || SSL_pending(ssl) > 0)
        return;
    lws_rx_flow_control(head->wsi, 0);
    peek(head, ssl);
}

bool
gate_head_tls_has_room(const struct gate *gate)
{
    return gate->tls_head_count < HEADS_MAX ||
           clock_monotonic_us() - gate->tls_heads->since_us > PATIENCE_US;
}

void
gate_head_tls_begin(struct gate *gate, int fd)
{
    struct gate_tls_head *head;
    struct lws *wsi;

    if (gate->tls_head_count == HEADS_MAX) {
        log_debug("gate", "%d clients of TLS have yet to ask: the oldest is not waited for",
                  HEADS_MAX);
        head_kill(gate->tls_heads);
    }
    wsi = gate_accept_adopt(gate, fd);
    if (wsi == NULL)
        return;
    head = memory_new(sizeof(*head));
    *head = (struct gate_tls_head){.gate = gate, .wsi = wsi, .since_us = clock_monotonic_us()};
    buffer_init(&head->seen, SEEN_MAX);
    ev_io_init(&head->readable, on_readable, fd, EV_READ);
    ev_set_priority(&head->readable, BEFORE_LWS);
    ev_init(&head->nudge, on_nudge);
    head->nudge.repeat = NUDGE_S;
    head->readable.data = head->nudge.data = head;
    lws_set_opaque_user_data(wsi, head);
    DL_APPEND(gate->tls_heads, head);
    gate->tls_head_count++;
    ev_io_start(gate->loop, &head->readable);
}

static void
sweep(struct gate_tls_head *first, int64_t patience_us, int64_t now_us)
{
    struct gate_tls_head *head, *next;
    struct gate_answer late;

    DL_FOREACH_SAFE (first, head, next) {
        if (now_us - head->since_us <= (head->is_lingering ? GATE_LINGER_US : patience_us))
            continue;
        if (head->is_lingering || !is_partial(head)) {
            head_kill(head); /* who said nothing is told nothing */
        } else {
            gate_head_too_late(&late);
            answer(head, &late);
        }
    }
}

void
gate_heads_tls_sweep(struct gate *gate, int64_t now_us)
{
    int64_t patience_us = gate->config->gate.connect_timeout_ms * 1000;

    sweep(gate->tls_heads, patience_us, now_us);
    sweep(gate->tls_partial, patience_us, now_us);
}

bool
gate_heads_tls_give_way(struct gate *gate)
{
    struct gate_tls_head *oldest = gate->tls_heads != NULL ? gate->tls_heads : gate->tls_partial;

    if (oldest != NULL)
        head_kill(oldest);
    return oldest != NULL;
}
