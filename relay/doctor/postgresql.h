/* postgresql.h: the checks of PostgreSQL. */
#ifndef CLAIRON_DOCTOR_POSTGRESQL_H
#define CLAIRON_DOCTOR_POSTGRESQL_H

#include "base/config.h"
#include "doctor/findings.h"
#include "store/store.h"

/*
 * Checks the server of feed.conninfo. If it is a standby, also checks its primary: `primary` is the
 * connection string, NULL for feed.primary_conninfo. Waits at most 10 s per reply; the system
 * limits the wait for name servers. Changes nothing. *ret_origin is the database, with empty
 * strings if the server did not reply.
 */
void doctor_check_postgresql(const struct config *config, const char *primary,
                             struct findings *findings, struct origin *ret_origin);

#endif
