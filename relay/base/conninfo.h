/* conninfo.h: checks a libpq connection string. */
#ifndef CLAIRON_BASE_CONNINFO_H
#define CLAIRON_BASE_CONNINFO_H

/*
 * Returns NULL if libpq can parse it, otherwise "must be ..." with libpq's message. The message
 * contains no part of the string, which may be a password. Valid until the next call.
 */
const char *conninfo_error(const char *text);

/* Returns the password file that it names; NULL: none. The caller frees it. */
char *conninfo_passfile(const char *text);

#endif
