/* postgresql.h: what the doctor asks PostgreSQL. */
#ifndef CLAIRON_DOCTOR_POSTGRESQL_H
#define CLAIRON_DOCTOR_POSTGRESQL_H

#include "base/config.h"
#include "doctor/findings.h"
#include "store/origin.h"

/*
 * Looks at the server of feed.conninfo, and at the primary it follows: of `primary`, a connection
 * string, else of feed.primary_conninfo, else not. Waits for each answer 10 s at most, for name
 * servers as long as the system does. Changes nothing there. *ret_origin is its database, of empty
 * texts where the server did not answer.
 */
void feed_examine(const struct config *config, const char *primary, struct findings *findings,
                  struct origin *ret_origin);

#endif
