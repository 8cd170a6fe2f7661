/* send.h: sends a session's frames. */
#ifndef CLAIRON_GATE_WS_SEND_H
#define CLAIRON_GATE_WS_SEND_H

#include "gate/ws/conn.h"

struct session_pieces;
struct session_transport;

const struct session_transport *gate_transport(const struct websocket *ws);

/* Keeps the unsent bytes of the frame in which `sent` ends. Returns their number. */
size_t gate_send_rest(struct out *out, const struct session_pieces *pieces, size_t sent);

#endif
