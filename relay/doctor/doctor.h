/* doctor.h: `clairon doctor`. */
#ifndef CLAIRON_DOCTOR_DOCTOR_H
#define CLAIRON_DOCTOR_DOCTOR_H

/*
 * Runs the checks of the settings, this machine, the gate, PostgreSQL and the store, and prints the
 * findings. Returns the exit code: 0 when no check failed, 1 when one failed, 2 for wrong usage or
 * invalid settings.
 */
int doctor_command(int argc, char **argv);

#endif
