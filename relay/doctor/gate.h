/* gate.h: the doctor's checks of the gate: its origins and the running relay. */
#ifndef CLAIRON_DOCTOR_GATE_H
#define CLAIRON_DOCTOR_GATE_H

#include "base/config.h"
#include "doctor/findings.h"

/*
 * Checks that the relay on gate.listen is ready and accepts the origins in the settings. Waits
 * at most 5 s per reply.
 */
void doctor_check_gate(const struct config *config, struct findings *findings);

#endif
