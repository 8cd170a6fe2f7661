/* limits.h: how many connections and requests, from where, how fast. */
#ifndef CLAIRON_GATE_NET_LIMITS_H
#define CLAIRON_GATE_NET_LIMITS_H

#include <stdbool.h>

struct gate;
struct gate_peer; /* an address with connections */
struct lws;

#define GATE_RETRY_AFTER_S 5
#define GATE_RETRY_SOON "Retry-After: 1"

/* Why a connection or request is refused. */
struct gate_refusal {
    int status;         /* of HTTP */
    int code;           /* enum gate_err; 0: none */
    const char *header; /* a line without its \r\n; NULL: none */
    const char *detail;
};

/* A connection, which may be evicted until it leaves the list: it has not sent "connect". */
struct waiting_client {
    struct waiting_client *prev; /* the longest waiting first */
    struct waiting_client *next;
    struct gate_peer *peer;
    void *owner; /* for `evict` */
    bool is_waiting;
    bool is_evicted;
};

/* `evict` ends a waiting connection, later in this turn of the loop. */
void gate_limits_open(struct gate *gate, void (*evict)(void *owner));
void gate_limits_free(struct gate *gate); /* after the last connection */

/* Connections, and with them streams (SSE and polls). */
int gate_limits_conns(const struct gate *gate);
int gate_limits_clients(const struct gate *gate);

/* Counts a connection or stream, and of its address; while lws has the request's headers. */
void gate_limits_add_conn(struct gate *gate, struct waiting_client *client, struct lws *wsi);
void gate_limits_remove_conn(struct gate *gate, struct waiting_client *client);
struct gate_peer *gate_limits_add_stream(struct gate *gate, struct lws *wsi);
void gate_limits_remove_stream(struct gate *gate, struct gate_peer *peer);
/* It sent "connect", or ends. Accepts one that has left. */
void gate_waiting_remove(struct gate *gate, struct waiting_client *client);

/* Are streams (is_push: those that push) served? False: *ret_refusal holds the reason. */
bool gate_serves(const struct gate *gate, bool is_push, struct gate_refusal *ret_refusal);
/* And is one more admitted? Likewise; while lws has the request's headers. */
bool gate_admits(struct gate *gate, struct lws *wsi, bool is_push,
                 struct gate_refusal *ret_refusal);
bool gate_admits_user(const struct gate *gate, const char *user);

/*
 * gate.request_rate: counts one more HTTP request of this address, or of this user, whose it is
 * once the token was verified: the address gets it back. False: one too many, counted as such.
 */
bool gate_admits_request(struct gate *gate, struct lws *wsi);
bool gate_admits_user_request(struct gate *gate, struct lws *wsi, const char *user);
/* The token of an upgraded connection was valid: its address gets the upgrade back. */
void gate_refund_upgrade(struct gate *gate, const struct gate_peer *peer);
#define GATE_RATE_EXCEEDED "request_rate is reached"

#endif
