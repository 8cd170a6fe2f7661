/*
 * gate_shared.h: the gate object: settings that all files use, and a pointer to the private state
 * of each part.
 */
#ifndef CLAIRON_GATE_NET_GATE_SHARED_H
#define CLAIRON_GATE_NET_GATE_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include <ev.h>

#include "base/config.h"
#include "base/stats.h"
#include "base/rates.h"
#include "wire/token.h"

#define GATE_PROTOCOL "clairon.v1.json"
#define GATE_RECEIVED_MAX (16 * 1024) /* bytes of one read */
#define GATE_HEAD_BYTES_MAX                                                                        \
    (TOKEN_BYTES_MAX + 4096) /* maximum bytes of a request head: a token and the other headers */

struct acceptor;
struct carrier;
struct conn;
struct conns;
struct websockets;
struct gate_cutoffs;
struct gate_keys;
struct gate_process;
struct hub;
struct limits;
struct publisher;
struct requests;
struct sweep;
struct token_waits;
struct verified_token;
struct web_push;

/* The states of a gate, in this order. Without notice: OPEN, DRAINING. */
enum gate_state {
    GATE_OPEN,
    GATE_NOTICE,   /* not ready, so that gateways use other relays; clients are still served */
    GATE_DRAINING, /* accepts no clients, and closes those that it has */
};

struct gate {
    struct ev_loop *loop;
    const struct config *config;
    struct hub *hub; /* NULL: a process without the role gate */
    struct stats *stats;
    const struct gate_process *process; /* gate.h */
    struct gate_keys *keys;             /* http/token_keys.c: what verifies tokens */
    struct gate_cutoffs *cutoffs;       /* http/cutoffs.c: which tokens are rejected; NULL: none */
    struct token_waits *token_waits;    /* http/auth.c: requests that wait for keys */
    struct verified_token *verified;    /* http/auth.c */
    struct carrier *carrier;            /* net/carrier.c */
    struct conns *conns;                /* net/conn.h: all connections */
    struct acceptor *acceptor;          /* net/listen.c */
    struct limits *limits;              /* net/client_limits.c */
    struct requests *requests;          /* http/request.h: HTTP requests */
    struct websockets *websockets;      /* ws/websocket.h */
    struct publisher *publisher;        /* publish.c: publications in progress */
    struct web_push *web_push;          /* web_push_routes.c: NULL without webpush.vapid_key_file */
    struct sweep *sweep;                /* gate.c */
    /* serves the request of conn->head, after which conn is in another phase (routes.c) */
    void (*serve)(struct conn *conn);
    struct throttle adoption_failed;
    struct throttle origin_rejected;
    struct throttle token_rejected;
    struct throttle signature_rejected;
    struct throttle groups_missing;
    int64_t opened_us; /* monotonic */
    bool is_realtime_off;
    enum gate_state state;
};

#endif
