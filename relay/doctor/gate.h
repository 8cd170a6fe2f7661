/* gate.h: the doctor's checks of the gate: its origins, and the relay that runs. */
#ifndef CLAIRON_DOCTOR_GATE_H
#define CLAIRON_DOCTOR_GATE_H

#include "base/config.h"
#include "doctor/findings.h"

/*
 * Asks the relay that listens on gate.listen whether it is ready, and whether it admits the origins
 * of these settings. Waits 5 s at most for each reply.
 */
void doctor_check_gate(const struct config *config, struct findings *findings);

#endif
