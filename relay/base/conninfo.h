/* conninfo.h: checks a libpq connection string. */
#ifndef CLAIRON_BASE_CONNINFO_H
#define CLAIRON_BASE_CONNINFO_H

/*
 * Returns NULL if libpq can parse it, otherwise "must be ..." with libpq's message. The message
 * quotes no part of the string, which may be a password. Valid until the next call.
 */
const char *conninfo_error(const char *text);

/* Returns the path in the keyword passfile, or NULL if absent. The caller frees it. */
char *conninfo_passfile(const char *text);

#endif
