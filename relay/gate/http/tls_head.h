/* tls_head.h: TLS connections from the handshake to the end of the request head. */
#ifndef CLAIRON_GATE_HTTP_TLS_HEAD_H
#define CLAIRON_GATE_HTTP_TLS_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "gate/http/head_check.h"

struct lws;

/* on_room: called when a slot is free. */
void gate_tls_heads_open(struct gate *gate, unknown_method_response *on_unknown_method,
                         void (*on_room)(struct gate *gate));
void gate_tls_heads_free(struct gate *gate);

bool gate_tls_head_has_room(const struct gate *gate);
/* Starts a connection. Requires a free slot. lws reads only validated bytes of the head. */
void gate_tls_head_begin(struct gate *gate, int fd);
/* lws has the request, or the socket is closed. Accepts any socket of lws. */
void gate_tls_head_read(struct lws *wsi);
void gate_tls_heads_sweep(struct gate *gate, int64_t now_us);
bool gate_tls_heads_evict_oldest(struct gate *gate);

#endif
