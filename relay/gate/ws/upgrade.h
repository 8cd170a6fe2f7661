/* upgrade.h: refuses upgrades to a WebSocket before they happen. */
#ifndef CLAIRON_GATE_WS_UPGRADE_H
#define CLAIRON_GATE_WS_UPGRADE_H

struct gate;
struct response;
struct lws;

/* To lws. 0: the upgrade may proceed; -1: refused, with a response. */
int gate_ws_check_upgrade(struct gate *gate, struct lws *wsi);
/* The response of /v1/ws to a request without an upgrade. */
void gate_ws_upgrade_required(struct gate *gate, struct response *ret_response);

#endif
