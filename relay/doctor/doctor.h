/* doctor.h: `clairon doctor`. */
#ifndef CLAIRON_DOCTOR_DOCTOR_H
#define CLAIRON_DOCTOR_DOCTOR_H

/*
 * Checks the settings, this machine, the gate, PostgreSQL and the store, and prints the findings.
 * Returns the exit status: 0 if no check failed, 1 if a check failed or the output could not be
 * written, 2 for wrong usage or invalid settings.
 */
int doctor_command(int argc, char **argv);

#endif
