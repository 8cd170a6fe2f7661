/* store.h: the checks of the store. */
#ifndef CLAIRON_DOCTOR_STORE_H
#define CLAIRON_DOCTOR_STORE_H

#include "base/config.h"
#include "doctor/findings.h"
#include "store/store.h"

/*
 * Checks the servers of store.url. Waits at most 10 s per reply; the system limits the wait for
 * name servers. Writes nothing. `origin` is the database that the relay reads, with empty strings
 * if unknown.
 */
void doctor_check_store(const struct config *config, const struct origin *origin,
                        struct findings *findings);

#endif
