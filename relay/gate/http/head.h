/* head.h: new connections: validates the request head before libwebsockets reads it. */
#ifndef CLAIRON_GATE_HTTP_HEAD_H
#define CLAIRON_GATE_HTTP_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "gate/http/head_check.h"

void gate_heads_open(struct gate *gate, unknown_method_response *on_unknown_method);
void gate_heads_close(struct gate *gate); /* after server_close */
void gate_head_begin(struct gate *gate, int fd);
void gate_heads_sweep(struct gate *gate, int64_t now_us);
/* Closes the oldest connection that has no request, or whose response was sent. False: none. */
bool gate_heads_evict_oldest(struct gate *gate);

#endif
