/* client_limits.h: limits connections and requests, by address, by user and in total. */
#ifndef CLAIRON_GATE_NET_CLIENT_LIMITS_H
#define CLAIRON_GATE_NET_CLIENT_LIMITS_H

#include <stdbool.h>

struct gate;
struct gate_peer; /* the connections and streams of one address */
struct conn;

#define GATE_RETRY_AFTER_S 5
#define GATE_RETRY_SOON "Retry-After: 1"

/* The reason for rejecting a connection or request. */
struct gate_rejection {
    int status;         /* HTTP status */
    int code;           /* enum gate_err; 0: none */
    const char *header; /* a line without \r\n; NULL: none */
    const char *detail;
};

/* A connection that has not sent "connect". It may be evicted. */
struct waiting_client {
    struct waiting_client *prev; /* oldest first; NULL: not waiting */
    struct waiting_client *next;
    struct gate_peer *peer;
    void *owner; /* for `evict` */
};

/* `evict` closes a waiting connection in the next loop iteration. */
void gate_limits_open(struct gate *gate, void (*evict)(void *owner));
void gate_limits_free(struct gate *gate); /* call it after the last connection has closed */

/* The number of WebSockets, and of WebSockets plus streams (SSE and polls). */
int gate_limits_conns(const struct gate *gate);
int gate_limits_clients(const struct gate *gate);

/* Counts a WebSocket or stream, in total and for its address. Call it while conn->head is set. */
struct gate_peer *gate_limits_add_conn(struct conn *conn, struct waiting_client *client);
void gate_limits_remove_conn(struct gate *gate, struct gate_peer *peer, bool is_evicted);
struct gate_peer *gate_limits_add_stream(struct conn *conn);
void gate_limits_remove_stream(struct gate *gate, struct gate_peer *peer);
/*
 * Removes a connection that has sent "connect" or is closing. No effect if it was already removed.
 */
void gate_waiting_remove(struct gate *gate, struct waiting_client *client);

/* A connection waits for its next request: the oldest of them yields if there are too many. */
void gate_limit_kept(struct gate *gate);

/*
 * Whether streams are served now. is_realtime: WebSocket or SSE. False: *ret_rejection is the
 * reason.
 */
bool gate_serves(const struct gate *gate, bool is_realtime, struct gate_rejection *ret_rejection);
/* Like gate_serves, and checks the limits for a further client. Call it while conn->head is set. */
bool gate_admits(struct conn *conn, bool is_realtime, struct gate_rejection *ret_rejection);
bool gate_admits_user(const struct gate *gate, const char *user);

/*
 * Applies gate.request_rate: charges an HTTP request to its address. After token verification it is
 * charged to the user instead. False: the rate is exceeded. Call both while conn->head is set.
 */
bool gate_admits_request(struct conn *conn);
bool gate_admits_user_request(struct conn *conn, const char *user);
/* Refunds the upgrade request to the address after its token was verified. */
void gate_refund_upgrade(struct gate *gate, const struct gate_peer *peer);
#define GATE_RATE_EXCEEDED "request_rate exceeded"

#endif
