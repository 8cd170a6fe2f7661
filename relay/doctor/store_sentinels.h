/* store_sentinels.h: the checks of a store with replicas and sentinels. */
#ifndef CLAIRON_DOCTOR_STORE_SENTINELS_H
#define CLAIRON_DOCTOR_STORE_SENTINELS_H

#include "base/config.h"
#include "doctor/findings.h"

/* Checks the sentinels, the primary and its replicas. Returns false if no primary replies. */
bool store_sentinels_check(const struct config *config, struct findings *findings);

#endif
