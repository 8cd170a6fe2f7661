/*
 * lws_workarounds.h: one function for each behavior of libwebsockets that the gate works around.
 *
 * Each comment starts with the library's source file and the versions that were read: 4.1.6
 * (Debian 12) and 4.3.5 (Debian 13). Before using a newer version, check that file again. Other
 * calls to the library are in server.c, conn_io.c and request_field.c.
 *
 * Some parts of the gate replace the library's code. They need no function in this file, and their
 * comments refer to this list:
 *
 * ws/receive.c, ws/send.c (ops-ws.c, 4.1.6 and 4.3.5): the library accepts frames that RFC 6455
 * forbids, closes on invalid UTF-8 without a bye, and needs a callback for each frame sent, which
 * would double the cost of a send.
 *
 * http/request_body.c, http/response_writer.c (server.c, close.c, 4.1.6 and 4.3.5): the library
 * closes the connection of a client that half-closed, although the client may wait for its
 * response. It also closes without reading the input, which may cause a reset that destroys the
 * response.
 *
 * wire/http_head.c, http/head_check.c (parsers.c, 4.1.6 and 4.3.5): the library closes the
 * connection or responds with 403 to an invalid request target, and keeps bytes that follow an
 * upgrade request.
 *
 * net/server.c (openssl-server.c, 4.1.6 and 4.3.5): the library has no function that returns the
 * TLS context of a vhost, and returns no reason if a certificate cannot be used.
 *
 * daemon/daemon.c (context.c, 4.1.6 and 4.3.5): the library allocates tables for each descriptor
 * that the process may open, so the limit is raised only as far as needed.
 */
#ifndef CLAIRON_GATE_NET_LWS_WORKAROUNDS_H
#define CLAIRON_GATE_NET_LWS_WORKAROUNDS_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "gate/net/conn_io.h"

struct http_head;
struct lws;
struct lws_retry_bo;
struct lws_vhost;

#define LWS_HEADER_TABLES 1024 /* maximum request heads in the library at the same time */

/*
 * parsers.c, 4.1.6 and 4.3.5: a header needs more bytes in its table than in the head, and a full
 * table is an error.
 */
#define LWS_HEADER_TABLE_SLACK 2048

/*
 * server-ws.c, 4.1.6 and 4.3.5: a longer Sec-WebSocket-Protocol closes the connection without a
 * response.
 */
#define LWS_PROTOCOLS_MAX 128

/*
 * logs.c, 4.1.6 and 4.3.5: the library logs client errors as library errors, to stderr. In the
 * relay they are debug events. Call it before lws_create_context.
 */
void workaround_log_as_debug(void);

/*
 * sorted-usec-list.c, 4.1.6 and 4.3.5: the library's timers are one sorted list, so its keepalive
 * would walk all connections at each accept. The keepalive would also miss pongs, which bypass the
 * library (workaround_read_past), and close live clients. Returns the policy of a vhost that never
 * pings.
 */
const struct lws_retry_bo *workaround_no_pings(void);

/*
 * parsers.c, 4.1.6 and 4.3.5: header tables are allocated and freed with each burst of connections,
 * which fragments the heap. They are allocated in an arena. Call it after lws_create_context, whose
 * large tables are permanent.
 */
void workaround_set_allocator(void);

/*
 * ops-ws.c, server.c, 4.1.6 and 4.3.5: the library accepts frames that RFC 6455 forbids, parses
 * bytes after a body as the next request, and closes a client that half-closed. After this call the
 * library reads nothing.
 */
void workaround_read_past(const struct conn_io *io);
/*
 * parsers.c, 4.1.6 and 4.3.5: the library keeps a head until the request ends, but has few tables.
 * Frees the table and stops the timer that would close the socket.
 */
void workaround_release_head(const struct conn_io *io);
/* server.c, 4.1.6 and 4.3.5: the library restarts its timer after each part of a body. */
void workaround_clear_timer(const struct conn_io *io);

/*
 * server.c, 4.1.6 and 4.3.5: the library closes without a response on a head that it cannot parse,
 * so the gate validates each head first. The bytes of a plain socket can be peeked at. TLS allows
 * this only for the decrypted bytes of one record. So the library is prevented from reading until a
 * record was validated together with all earlier records.
 *
 * `on_readable` is called for each record before the library reads it: conn_io_peek then returns
 * the bytes of that record, and tls_records_admit makes the library read them. After
 * tls_records_end the library reads nothing, and `on_readable` is called for all input.
 */
struct tls_records {
    struct conn_io io;
    struct ev_loop *loop;
    struct ev_io readable;
    struct ev_timer nudge; /* active while the library reads a record */
    bool has_ended;
    void (*on_readable)(void *owner);
    void *owner;
};

/* Starts in place; set io, loop, on_readable and owner first. */
void tls_records_start(struct tls_records *records);
void tls_records_stop(struct tls_records *records);
void tls_records_admit(struct tls_records *records);
void tls_records_end(struct tls_records *records);
/* Returns the owner of a socket's records; NULL: stopped, or never started. */
void *tls_records_owner(struct lws *wsi);

/*
 * wsi-timeout.c, 4.1.6 and 4.3.5: an asynchronous close walks the timers of all connections. Shuts
 * the socket down instead; on_writable then returns -1 and the library closes the socket.
 */
void workaround_kill(const struct conn_io *io);
/* Closes the socket with a timer, if the writable event has not closed it. */
void workaround_kill_again(const struct conn_io *io);

/*
 * server.c, 4.1.6 and 4.3.5, fixed in 4.3.7 and 4.4.2, CVE-2025-11677: at an unknown upgrade, the
 * callback's argument points into a freed table. True: the head cannot be read, and the connection
 * must be closed.
 */
bool workaround_head_is_freed(struct lws *wsi);

/*
 * parsers.c, 4.1.6 and 4.3.5: the library closes without a response on an unknown method.
 */
bool workaround_is_unknown_method(const struct http_head *head);

/*
 * parsers.c, 4.1.6 and 4.3.5: a header name that is a prefix of a known name ("A" of "Accept")
 * swallows the text up to the next colon: the next header, or the end of the head. Returns whether
 * this valid head of `len` bytes hides a header that the gate reads, or its own end. `edit` renames
 * such a header.
 */
bool workaround_has_header_prefix(char *bytes, size_t len, bool edit);
/*
 * Also server.c, 4.1.6 and 4.3.5: the library rejects an unknown Upgrade with 403, accepts h2c, and
 * closes if Connection does not name the upgrade. workaround_edit_head also renames that header.
 */
bool workaround_needs_edit(char *bytes, const struct http_head *head);
void workaround_edit_head(char *bytes, const struct http_head *head);
/*
 * Reads the head in `bytes` from the socket, edits it, and adopts the socket with it. The last byte
 * stays in the socket for the library, which would parse a complete head again, as a body. RC_IO:
 * the socket failed and is closed. RC_BAD: the library rejected and closed it.
 */
MUST_CHECK enum rc workaround_adopt_edited(struct lws_vhost *vhost, const struct conn_io *io,
                                           char *bytes, const struct http_head *head);
/*
 * A head over TLS cannot be edited. Returns the reason for rejecting it; NULL: no edit is needed.
 */
const char *workaround_unedited_problem(char *bytes, const struct http_head *head);

/*
 * parsers.c, 4.1.6 and 4.3.5: the library reports length 0 both for an empty query argument
 * ("?&pos=...") and after the last argument. False: the `nth` argument does not exist. The caller
 * frees *ret_text.
 */
bool workaround_copy_argument(struct lws *wsi, int nth, char **ret_text);

#endif
