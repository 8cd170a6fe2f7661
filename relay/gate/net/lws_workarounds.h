/*
 * lws_workarounds.h: one function for each behaviour of libwebsockets that the gate works around.
 *
 * All are needed for 4.1.6 (Debian 12) to 4.3.5 (Debian 13); both sources were read. Before using a
 * newer version, read the named source file again. The other calls to the library are in server.c,
 * conn_io.c and request_field.c.
 */
#ifndef CLAIRON_GATE_NET_LWS_WORKAROUNDS_H
#define CLAIRON_GATE_NET_LWS_WORKAROUNDS_H

#include <stdbool.h>
#include <stddef.h>

struct conn_io;
struct http_head;
struct lws;
struct lws_retry_bo;

#define LWS_HEADER_TABLES 1024 /* maximum request heads in the library at a time */

/*
 * parsers.c: a header needs more bytes in its table than in the head, and a full table is an error.
 */
#define LWS_HEADER_TABLE_SLACK 2048

/* server-ws.c: a longer Sec-WebSocket-Protocol closes the connection without a response. */
#define LWS_PROTOCOLS_MAX 128

/*
 * sorted-usec-list.c: its timers are one sorted list, so its keepalive would walk all connections
 * at each accept. It would also miss the pongs, which bypass it (workaround_read_past), and close
 * live clients. Returns the policy of a vhost that never pings.
 */
const struct lws_retry_bo *workaround_no_pings(void);

/*
 * parsers.c: header tables are allocated and freed with each burst of connections and fragment the
 * heap. They get an arena. Call it after lws_create_context: its large tables are permanent.
 */
void workaround_set_allocator(void);

/*
 * ops-ws.c, server.c: the library accepts frames that RFC 6455 forbids, parses bytes after a body
 * as the next request, and closes a client that half-closed. After this call it reads nothing.
 */
void workaround_read_past(const struct conn_io *io);
/*
 * parsers.c: the library keeps a head until the request ends, but has few tables. Frees the table
 * and stops the timer that would close the socket.
 */
void workaround_release_head(const struct conn_io *io);
/* server.c: the library restarts its own timer after each part of a body. */
void workaround_clear_timer(const struct conn_io *io);

/*
 * server.c: the library closes without a response on a head that it cannot parse. Over TLS the
 * socket cannot be peeked, so the library may read one record per call of workaround_admit_head
 * only. The owner of the head is attached to the socket.
 */
void workaround_hold_head(const struct conn_io *io);
void workaround_admit_head(const struct conn_io *io);
void workaround_set_head_owner(struct lws *wsi, void *owner);
void *workaround_head_owner(struct lws *wsi);

/*
 * wsi-timeout.c: an asynchronous close walks the timers of all connections. Shuts the socket down
 * instead; on_writable then returns -1 and the library closes it.
 */
void workaround_kill(const struct conn_io *io);
/* Closes it with the timer, if the event did not. */
void workaround_kill_again(const struct conn_io *io);

/*
 * server.c, CVE-2025-11677: at an unknown upgrade, the callback's argument points into a freed
 * table. True: there is no head to read, and the connection must be closed.
 */
bool workaround_head_is_freed(struct lws *wsi);

/* parsers.c: the library closes without a response on an unknown method. */
bool workaround_is_unknown_method(const struct http_head *head);

/*
 * parsers.c: a header name that is a prefix of a known name ("A" of "Accept") swallows the text up
 * to the next colon: the next header, or the end of the head. Does this valid head of `len` bytes
 * hide a header that the gate reads, or its own end? `edit` renames such a header.
 */
bool workaround_has_header_prefix(char *bytes, size_t len, bool edit);
/*
 * Also server.c: the library rejects an unknown Upgrade with 403, accepts h2c, and closes if
 * Connection does not name the upgrade. workaround_edit_head renames that header too.
 */
bool workaround_needs_edit(char *bytes, const struct http_head *head);
void workaround_edit_head(char *bytes, const struct http_head *head);

/*
 * parsers.c: the library reports length 0 both for an empty query argument ("?&pos=..") and after
 * the last one. False: there is no `nth` argument. The caller frees *ret_text.
 */
bool workaround_copy_argument(struct lws *wsi, int nth, char **ret_text);

#endif
