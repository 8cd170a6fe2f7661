/* host.h: the checks that need no server: the settings, their files, limits of this machine. */
#ifndef CLAIRON_DOCTOR_HOST_H
#define CLAIRON_DOCTOR_HOST_H

#include "base/config.h"
#include "doctor/findings.h"

/* Checks the files named by the settings, the auth key and the certificates. `path` may be NULL. */
void doctor_check_settings(const struct config *config, const char *path,
                           struct findings *findings);

/* Checks the limits of this machine. */
void doctor_check_limits(const struct config *config, struct findings *findings);

#endif
