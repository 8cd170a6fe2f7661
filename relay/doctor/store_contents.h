/* store_contents.h: checks that the stored data belongs to the relay's settings and database. */
#ifndef CLAIRON_DOCTOR_STORE_CONTENTS_H
#define CLAIRON_DOCTOR_STORE_CONTENTS_H

#include "base/config.h"
#include "doctor/findings.h"
#include "store/store.h"

/* `origin` is the database that the relay reads, with empty strings if unknown. */
void store_contents_check(const struct config *config, const struct origin *origin,
                          struct findings *findings);

#endif
