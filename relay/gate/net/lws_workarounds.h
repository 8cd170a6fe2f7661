/*
 * lws_workarounds.h: what libwebsockets does that this relay must not depend on, one function each.
 *
 * All are needed for 4.1.6 (Debian 12) to 4.3.5 (Debian 13): the sources of both were read. With a
 * newer version, read the named source again. Everything else that the gate asks of the library
 * stands in server.c, conn_io.c and request_field.c.
 */
#ifndef CLAIRON_GATE_NET_LWS_WORKAROUNDS_H
#define CLAIRON_GATE_NET_LWS_WORKAROUNDS_H

#include <stdbool.h>
#include <stddef.h>

struct conn_io;
struct http_head;
struct lws;
struct lws_retry_bo;

#define LWS_HEADER_TABLES 1024 /* requests whose head the library holds at a time */

/* parsers.c: a header takes some bytes more than in the head, and a full table is an error. */
#define LWS_HEADER_TABLE_SLACK 2048

/* server-ws.c: a longer Sec-WebSocket-Protocol ends the connection without a response. */
#define LWS_PROTOCOLS_MAX 128

/*
 * sorted-usec-list.c: its timers are one sorted list, so that its keepalive walks past all
 * connections at each accept; and it would close clients that answer its pings, for the answers do
 * not pass it (workaround_read_past). The policy of a vhost that never pings.
 */
const struct lws_retry_bo *workaround_no_pings(void);

/*
 * parsers.c: header tables are allocated and freed with each crowd of connections, which leaves
 * holes in the heap. They get an arena. After lws_create_context, whose large tables stay.
 */
void workaround_set_allocator(void);

/*
 * ops-ws.c, server.c: it accepts frames that RFC 6455 forbids, takes bytes behind a body for the
 * next request, and takes a client that half-closes for gone. From here on it reads nothing.
 */
void workaround_read_past(const struct conn_io *io);
/*
 * parsers.c: it keeps a request's head to the end of the request, though it has tables for so many
 * only. Frees the table, and the timer that would close the socket.
 */
void workaround_release_head(const struct conn_io *io);
/* server.c: after each piece of a body it starts a timer of its own again. */
void workaround_clear_timer(const struct conn_io *io);

/*
 * server.c: a head that it cannot read ends the connection without a response. Over TLS the socket
 * cannot be peeked at, so the library reads nothing until _admit, one record each. The owner, which
 * hears when the library has the whole head, is attached to the socket.
 */
void workaround_hold_head(const struct conn_io *io);
void workaround_admit_head(const struct conn_io *io);
void workaround_set_head_owner(struct lws *wsi, void *owner);
void *workaround_head_owner(struct lws *wsi);

/*
 * wsi-timeout.c: to end a socket in the next turn of the loop walks past the timers of all
 * connections. So the socket is shut down, and on_writable returns -1 for the event.
 */
void workaround_kill(const struct conn_io *io);
/* The event did not end it. */
void workaround_kill_again(const struct conn_io *io);

/*
 * server.c, CVE-2025-11677: at an upgrade that it does not know, the callback's argument points
 * into a table that is freed already. Then there is no head to read, and the connection must end.
 */
bool workaround_head_is_freed(struct lws *wsi);

/* parsers.c: it ends a connection with a method that it does not know, without a response. */
bool workaround_is_unknown_method(const struct http_head *head);

/*
 * parsers.c: it takes what follows a header name that is the beginning of one it knows ("A", of
 * "Accept") for more of that name, up to the next colon: the next header, or the end of the head,
 * which is then never seen. Does this head of `len` bytes, which is valid, hide a header that is
 * read, or its end, so? `edit` makes it another name.
 */
bool workaround_has_header_prefix(char *bytes, size_t len, bool edit);
/*
 * Likewise; and server.c: it answers an Upgrade that it does not know with 403, takes h2c for one,
 * and ends the connection where Connection does not name it. An edit gives it another name too.
 */
bool workaround_needs_edit(char *bytes, const struct http_head *head);
void workaround_edit_head(char *bytes, const struct http_head *head);

/*
 * parsers.c: the length of an argument of the query does not distinguish the last one from an empty
 * one ("?&pos=.."). False: there is no `nth` argument; else the caller frees *ret_text.
 */
bool workaround_copy_argument(struct lws *wsi, int nth, char **ret_text);

#endif
