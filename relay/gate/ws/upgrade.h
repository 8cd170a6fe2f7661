/* upgrade.h: validates WebSocket upgrade requests. */
#ifndef CLAIRON_GATE_WS_UPGRADE_H
#define CLAIRON_GATE_WS_UPGRADE_H

struct gate;
struct response;
struct lws;

/* Returns the lws callback result. 0: accept the upgrade; -1: rejected with a response. */
int gate_ws_check_upgrade(struct gate *gate, struct lws *wsi);
/* Builds the response to a request for /v1/ws without an upgrade. */
void gate_ws_upgrade_required(struct gate *gate, struct lws *wsi, struct response *ret_response);

#endif
