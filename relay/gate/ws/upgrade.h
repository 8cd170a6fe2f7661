/* upgrade.h: accepts or rejects WebSocket upgrade requests. */
#ifndef CLAIRON_GATE_WS_UPGRADE_H
#define CLAIRON_GATE_WS_UPGRADE_H

struct conn;
struct response;

/* conn becomes a WebSocket, or receives a response. Call it while conn->head is set. */
void gate_ws_upgrade(struct conn *conn);
/* Builds the response to a request for /v1/ws without an upgrade. */
void gate_ws_upgrade_required(struct conn *conn, struct response *ret_response);

#endif
