/* redrive.h: renews a dead letter so that it can be sent again. Pure: no I/O, no clock. */
#ifndef CLAIRON_STORE_REDRIVE_H
#define CLAIRON_STORE_REDRIVE_H

#include <stddef.h>
#include <stdint.h>

#include "store/error_entry.h"

/* Owns route and data. Free it with redrive_free. */
struct redrive {
    unsigned char *route;
    size_t route_len;
    unsigned char *data;
    size_t data_len;
    int64_t expires_ms; /* new expiration; 0: does not expire */
    char expires[24];   /* expires_ms as a string */
    char entry[ENTRY_ID_TEXT_MAX];
};

/*
 * Renews the lifetime of a notification, in the route and in the JSON document: it is as long as
 * the original lifetime, and starts at `now_us`. An expired notification without an expiration
 * belonged to an open-ended audience, whose lifetime is one day. RC_BAD: invalid route.
 */
MUST_CHECK enum rc redrive_prepare(const struct error_entry *entry, int64_t now_us,
                                   struct redrive *ret_redrive);
void redrive_free(struct redrive *redrive);

/*
 * Adds the ARGV of redrive.lua, except the users. They point into the arguments of this call, which
 * must outlive them.
 */
struct arguments;
void redrive_arguments(struct arguments *arguments, const char *prefix, const char *retention,
                       const struct error_entry *entry, const struct redrive *redrive);

#endif
