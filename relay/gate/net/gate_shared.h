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
#include "base/throttle.h"
#include "wire/token.h"

#define GATE_PROTOCOL "clairon.v1.json"
#define GATE_RECEIVED_MAX (16 * 1024)
#define GATE_HEAD_BYTES_MAX                                                                        \
    (TOKEN_BYTES_MAX + 4096) /* maximum bytes of a request head: a token and the other headers */

struct acceptor;
struct gate_conns;
struct gate_process;
struct heads;
struct hub;
struct limits;
struct publisher;
struct requests;
struct server;
struct sweep;
struct tls_heads;

struct gate {
    struct ev_loop *loop;
    const struct config *config;
    struct hub *hub; /* NULL: a process without the role gate */
    struct stats *stats;
    const struct gate_process *process; /* api/process.h */
    struct token_rules rules;
    struct server *server;       /* net/server.c */
    struct acceptor *acceptor;   /* net/accept.c */
    struct limits *limits;       /* net/limits.c */
    struct heads *heads;         /* http/head.c: connections without a complete request head */
    struct tls_heads *tls_heads; /* http/tls_head.c: the same over TLS */
    struct requests *requests;   /* http/request.h: HTTP requests */
    struct gate_conns *conns;    /* ws/conn.h: WebSockets */
    struct publisher *publisher; /* api/publish_response.h: publications in progress */
    struct sweep *sweep;         /* sweep.c */
    struct throttle origin_rejected;
    struct throttle token_rejected;
    int64_t opened_us; /* monotonic */
    bool is_push_off;
    bool draining;
    unsigned char received[GATE_RECEIVED_MAX]; /* buffer for reads */
};

#endif
