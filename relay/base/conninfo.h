/* conninfo.h: checks a libpq connection string. */
#ifndef CLAIRON_BASE_CONNINFO_H
#define CLAIRON_BASE_CONNINFO_H

/*
 * NULL: libpq can parse it. Else "must be ..", with libpq's own message; without any part of the
 * text, which may be of a password. It is valid until the next call.
 */
const char *conninfo_fault(const char *text);

/* The password file that it names; NULL: none. The caller frees it. */
char *conninfo_passfile(const char *text);

#endif
