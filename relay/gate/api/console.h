/* console.h: the console's API; served only with gate.console. */
#ifndef CLAIRON_GATE_API_CONSOLE_H
#define CLAIRON_GATE_API_CONSOLE_H

#include "gate/http/request.h"

/* request->route_state of gate_console_user */
struct gate_console_user {
    size_t sessions; /* sessions of the user on this process */
};

void gate_console_overview(struct gate_request *request);
void gate_console_errors(struct gate_request *request);
void gate_console_latest(struct gate_request *request);
void gate_console_user(struct gate_request *request);
void gate_console_rules(struct gate_request *request);
void gate_console_redrive(struct gate_request *request);
void gate_console_drop(struct gate_request *request);

#endif
