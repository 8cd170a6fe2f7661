/* postgresql.h: the checks of PostgreSQL. */
#ifndef CLAIRON_DOCTOR_POSTGRESQL_H
#define CLAIRON_DOCTOR_POSTGRESQL_H

#include "base/config.h"
#include "doctor/findings.h"
#include "store/origin.h"

/*
 * Checks the server of feed.conninfo, and the primary that it follows: that of `primary`, a
 * connection string, else of feed.primary_conninfo, else none. Waits for each reply 10 s at most,
 * for name servers as long as the system does. Changes nothing. *ret_origin is its database, with
 * empty texts if the server did not reply.
 */
void doctor_check_postgresql(const struct config *config, const char *primary,
                             struct findings *findings, struct origin *ret_origin);

#endif
