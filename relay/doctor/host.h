/* host.h: what the doctor sees without asking a server. */
#ifndef CLAIRON_DOCTOR_HOST_H
#define CLAIRON_DOCTOR_HOST_H

#include "base/config.h"
#include "doctor/findings.h"

/* Files that the settings name, the key of tokens, certificates. `path` may be NULL. */
void host_examine_settings(const struct config *config, const char *path,
                           struct findings *findings);

/* Limits of this machine. */
void host_examine_limits(const struct config *config, struct findings *findings);

#endif
