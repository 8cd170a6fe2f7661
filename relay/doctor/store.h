/* store.h: the checks of the store. */
#ifndef CLAIRON_DOCTOR_STORE_H
#define CLAIRON_DOCTOR_STORE_H

#include "base/config.h"
#include "doctor/findings.h"
#include "store/origin.h"

/*
 * Checks the servers of store.url. Waits for each reply 10 s at most, for name servers as long
 * as the system does. Writes nothing. `origin` is the database that the relay would read, with
 * empty texts if that is unknown.
 */
void doctor_check_store(const struct config *config, const struct origin *origin,
                        struct findings *findings);

#endif
