/* lws_workarounds.c: the header gives the reasons and versions. */
#include "gate/net/lws_workarounds.h"

#include <libwebsockets.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/memory.h"
#include "wire/http_head.h"

#define BLOCK_BYTES (16 * 1024)
#define BLOCK_BYTES_MIN (8 * 1024) /* smaller blocks do not fragment the heap */

#define BEFORE_LWS 1 /* priority; the library's watchers have 0 */
#define NUDGE_S 0.01 /* poll(2) does not report bytes in OpenSSL's buffer */

/* The library has one allocator per process. */
static struct arena blocks = {.item_bytes = BLOCK_BYTES, .max = LWS_HEADER_TABLES + 8};

static void
on_log(int level, const char *line)
{
    size_t len = strlen(line);

    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == ' '))
        len--;
    log_debug("gate", "libwebsockets notice", LOG_INT("lws_level", level),
              LOG_BYTES("notice", line, len));
}

void
workaround_log_as_debug(void)
{
    lws_set_log_level(LLL_ERR | LLL_WARN, on_log);
}

const struct lws_retry_bo *
workaround_no_pings(void)
{
    static const lws_retry_bo_t NO_PINGS;

    return &NO_PINGS;
}

/* realloc(3) and free(3) of a block. */
static void *
resize_block(void *block, size_t size)
{
    void *new = size > 0 ? malloc(size) : NULL;

    if (new != NULL)
        memcpy(new, block, size < BLOCK_BYTES ? size : BLOCK_BYTES);
    if (new != NULL || size == 0)
        arena_release(&blocks, block);
    return new;
}

/* The library's allocator. Size 0 frees the block. */
static void *
resize(void *memory, size_t size, const char *what)
{
    void *block = NULL;

    (void)what;
    if (arena_contains(&blocks, memory))
        return resize_block(memory, size);
    if (size == 0) {
        free(memory);
        return NULL;
    }
    if (memory == NULL && size >= BLOCK_BYTES_MIN && size <= BLOCK_BYTES)
        block = arena_alloc(&blocks);
    return block != NULL ? block : realloc(memory, size);
}

void
workaround_set_allocator(void)
{
    lws_set_allocator(resize);
}

void
workaround_read_past(const struct conn_io *io)
{
    lws_rx_flow_control(io->wsi, 0);
}

void
workaround_release_head(const struct conn_io *io)
{
    lws_http_headers_detach(io->wsi);
    workaround_clear_timer(io);
}

void
workaround_clear_timer(const struct conn_io *io)
{
    lws_set_timeout(io->wsi, NO_PENDING_TIMEOUT, 0);
}

/*
 * Receives an event before the library, because of the higher priority. Then the library receives
 * it, unless lws_rx_flow_control stops it.
 */
static void
on_records_readable(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct tls_records *records = io->data;

    (void)loop;
    (void)events;
    if (!records->has_ended) {
        /* the library does the handshake, and reads validated bytes */
        if (!conn_io_is_handshaken(&records->io) || conn_io_has_buffered(&records->io))
            return;
        lws_rx_flow_control(records->io.wsi, 0);
    }
    records->on_readable(records->owner);
}

/* Retries the read: the library may have had no free header table. */
static void
on_nudge(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct tls_records *records = timer->data;

    (void)events;
    if (conn_io_has_buffered(&records->io))
        ev_feed_fd_event(loop, records->io.fd, EV_READ);
    else
        ev_timer_stop(loop, timer);
}

void
tls_records_start(struct tls_records *records)
{
    ev_io_init(&records->readable, on_records_readable, records->io.fd, EV_READ);
    ev_set_priority(&records->readable, BEFORE_LWS);
    ev_init(&records->nudge, on_nudge);
    records->nudge.repeat = NUDGE_S;
    records->readable.data = records->nudge.data = records;
    lws_set_opaque_user_data(records->io.wsi, records);
    ev_io_start(records->loop, &records->readable);
}

void
tls_records_stop(struct tls_records *records)
{
    lws_set_opaque_user_data(records->io.wsi, NULL);
    ev_io_stop(records->loop, &records->readable);
    ev_timer_stop(records->loop, &records->nudge);
}

void
tls_records_admit(struct tls_records *records)
{
    lws_rx_flow_control(records->io.wsi, 1);
    ev_feed_fd_event(records->loop, records->io.fd, EV_READ);
    ev_timer_again(records->loop, &records->nudge);
}

void
tls_records_end(struct tls_records *records)
{
    records->has_ended = true;
    lws_rx_flow_control(records->io.wsi, 0);
    ev_timer_stop(records->loop, &records->nudge);
}

void *
tls_records_owner(struct lws *wsi)
{
    const struct tls_records *records = lws_get_opaque_user_data(wsi);

    return records != NULL ? records->owner : NULL;
}

void
workaround_kill(const struct conn_io *io)
{
    (void)shutdown(io->fd, SHUT_RDWR);
    lws_callback_on_writable(io->wsi);
}

void
workaround_kill_again(const struct conn_io *io)
{
    lws_set_timeout(io->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_ASYNC);
}

bool
workaround_head_is_freed(struct lws *wsi)
{
    return lws_hdr_total_length(wsi, WSI_TOKEN_UPGRADE) <= 0;
}

bool
workaround_is_unknown_method(const struct http_head *head)
{
    static const char *const KNOWN[] = {"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE"};

    for (size_t i = 0; i < sizeof(KNOWN) / sizeof(KNOWN[0]); i++) {
        if (strlen(KNOWN[i]) == head->method_len &&
            memcmp(KNOWN[i], head->method, head->method_len) == 0)
            return false;
    }
    return true;
}

/* Whether lws parses this header. *ret_is_begin: it is only a prefix of such a header's name. */
static bool
is_known(const char *name, size_t len, bool *ret_is_begin)
{
    *ret_is_begin = false;
    for (int i = 0; i < WSI_TOKEN_COUNT; i++) {
        const char *known = (const char *)lws_token_to_string((enum lws_token_indexes)i);

        if (known == NULL || strncasecmp(known, name, len) != 0)
            continue;
        if (known[len] == ':')
            return true;
        *ret_is_begin = true;
    }
    return false;
}

/* Whether the gate or lws reads this header. */
static bool
is_read(const char *name, size_t len)
{
    static const char *const OURS[] = {"idempotency-key", "last-event-id", "traceparent"};
    bool is_begin;

    for (size_t i = 0; i < sizeof(OURS) / sizeof(OURS[0]); i++) {
        if (strlen(OURS[i]) == len && strncasecmp(OURS[i], name, len) == 0)
            return true;
    }
    return is_known(name, len, &is_begin);
}

bool
workaround_has_header_prefix(char *bytes, size_t len, bool edit)
{
    const char *end = bytes + len - strlen("\r\n");
    char *line = (char *)memchr(bytes, '\n', len) + 1;
    bool hides = false;

    while (line < end) {
        const char *colon = memchr(line, ':', (size_t)(end - line));
        char *next = (char *)memchr(line, '\n', (size_t)(end - line)) + 1;
        bool is_begin, is_hidden;

        if (is_known(line, (size_t)(colon - line), &is_begin) || !is_begin ||
            memchr(colon + 1, ':', (size_t)(next - colon - 1)) != NULL) {
            line = next;
            continue;
        }
        colon = memchr(next, ':', (size_t)(end - next));
        is_hidden = next == end || is_read(next, (size_t)(colon - next));
        hides |= is_hidden;
        if (is_hidden && edit)
            *line = '~';
        /* lws continues after the name in the next line: hiding an unread header is harmless */
        line =
            is_hidden || next == end ? next : (char *)memchr(next, '\n', (size_t)(end - next)) + 1;
    }
    return hides;
}

bool
workaround_needs_edit(char *bytes, const struct http_head *head)
{
    return head->idle_upgrade != NULL || workaround_has_header_prefix(bytes, head->len, false);
}

void
workaround_edit_head(char *bytes, const struct http_head *head)
{
    if (head->idle_upgrade != NULL)
        bytes[head->idle_upgrade - bytes] = 'X';
    (void)workaround_has_header_prefix(bytes, head->len, true);
}

enum rc
workaround_adopt_edited(struct lws_vhost *vhost, const struct conn_io *io, char *bytes,
                        const struct http_head *head)
{
    const size_t len = head->len - 1;

    if (conn_io_read(io, bytes, len) != (ssize_t)len) {
        conn_io_close(io);
        return RC_IO;
    }
    workaround_edit_head(bytes, head);
    return lws_adopt_socket_vhost_readbuf(vhost, io->fd, bytes, len) != NULL ? RC_OK : RC_BAD;
}

const char *
workaround_unedited_problem(char *bytes, const struct http_head *head)
{
    if (head->idle_upgrade != NULL)
        return "unsupported Upgrade or missing Connection: upgrade";
    if (workaround_has_header_prefix(bytes, head->len, false))
        return "ambiguous header name: prefix of a known header";
    return NULL;
}

bool
workaround_copy_argument(struct lws *wsi, int nth, char **ret_text)
{
    int len = lws_hdr_fragment_length(wsi, WSI_TOKEN_HTTP_URI_ARGS, nth);
    char *text = memory_new((size_t)len + 1);

    if (lws_hdr_copy_fragment(wsi, text, len + 1, WSI_TOKEN_HTTP_URI_ARGS, nth) >= 0) {
        *ret_text = text;
        return true;
    }
    free(text);
    return false;
}
