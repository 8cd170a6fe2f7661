/* store.h: what the doctor asks the store. */
#ifndef CLAIRON_DOCTOR_STORE_H
#define CLAIRON_DOCTOR_STORE_H

#include "base/config.h"
#include "doctor/findings.h"
#include "store/origin.h"

/*
 * Looks at the servers of store.url. Waits for each answer 10 s at most, for name servers as long
 * as the system does. Writes nothing there. `origin` is the database that the relay would read; of
 * empty texts where that is not known.
 */
void store_examine(const struct config *config, const struct origin *origin,
                   struct findings *findings);

#endif
