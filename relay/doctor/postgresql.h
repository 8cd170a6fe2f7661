/* postgresql.h: the checks of PostgreSQL. */
#ifndef CLAIRON_DOCTOR_POSTGRESQL_H
#define CLAIRON_DOCTOR_POSTGRESQL_H

#include "base/config.h"
#include "doctor/findings.h"
#include "store/origin.h"

/*
 * Checks the server of feed.conninfo and its primary: the connection string `primary`, else
 * feed.primary_conninfo, else none. Waits at most 10 s per reply, and for name servers as long as
 * the system does. Changes nothing. *ret_origin is the database, with empty texts if the server
 * did not reply.
 */
void doctor_check_postgresql(const struct config *config, const char *primary,
                             struct findings *findings, struct origin *ret_origin);

#endif
