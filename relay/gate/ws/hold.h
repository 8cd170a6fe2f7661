/* hold.h: pauses reading from clients that send too fast. */
#ifndef CLAIRON_GATE_WS_HOLD_H
#define CLAIRON_GATE_WS_HOLD_H

#include "gate/ws/conn.h"

#define GATE_PREPAID_US INT64_C(1000000) /* a client may be ahead of its rate by so much */

void gate_hold_open(struct gate *gate);
void gate_hold_close(struct gate *gate);
/* Until inflow.paid_until_us is near again. */
void gate_hold(struct gate_conn *conn);
/* For good. */
void gate_stop_reading(struct gate_conn *conn);

#endif
