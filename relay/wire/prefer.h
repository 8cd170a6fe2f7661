/* prefer.h: the request header Prefer (RFC 7240). Pure. */
#ifndef CLAIRON_WIRE_PREFER_H
#define CLAIRON_WIRE_PREFER_H

#define PREFER_WAIT_MAX_S 3600

/*
 * Returns the seconds of "wait=10" among the preferences, or default_s without seconds; 0: absent,
 * invalid, or more than PREFER_WAIT_MAX_S. The first of duplicate preferences is used.
 */
int prefer_wait_s(const char *value, int default_s);

#endif
