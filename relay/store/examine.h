/* examine.h: what the doctor asks the store. */
#ifndef CLAIRON_STORE_EXAMINE_H
#define CLAIRON_STORE_EXAMINE_H

#include "base/config.h"
#include "base/findings.h"

/*
 * Looks at the servers of store.url. Waits for each answer 10 s at most, for name servers as long
 * as the system does. Writes nothing there.
 */
void store_examine(const struct config *config, struct findings *findings);

#endif
