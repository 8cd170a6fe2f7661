/* tls_head.h: new connections over TLS, from the handshake to the head of their request. */
#ifndef CLAIRON_GATE_HTTP_TLS_HEAD_H
#define CLAIRON_GATE_HTTP_TLS_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "gate/http/head_check.h"

struct lws;

/* on_room: one more may begin. */
void gate_tls_heads_open(struct gate *gate, unknown_method_response *on_unknown_method,
                         void (*on_room)(struct gate *gate));
void gate_tls_heads_free(struct gate *gate);

bool gate_tls_head_has_room(const struct gate *gate);
/* When it has room. lws reads nothing that was not validated, until it has the whole head. */
void gate_tls_head_begin(struct gate *gate, int fd);
/* lws has the request, or the connection is gone. Accepts any of its sockets. */
void gate_tls_head_read(struct lws *wsi);
void gate_tls_heads_sweep(struct gate *gate, int64_t now_us);
bool gate_tls_heads_evict_oldest(struct gate *gate);

#endif
