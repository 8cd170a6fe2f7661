/* redrive.h: a message of the error log as it is to be sent anew. Pure: no I/O, no clock. */
#ifndef CLAIRON_STORE_REDRIVE_H
#define CLAIRON_STORE_REDRIVE_H

#include <stddef.h>
#include <stdint.h>

#include "store/error_entry.h"

/* Both texts are its own: free them with redrive_free. */
struct redrive {
    unsigned char *route;
    size_t route_len;
    unsigned char *data;
    size_t data_len;
    int64_t ends_ms; /* its new expiration; 0: none */
    char ends[24];   /* the same, as redrive.lua is told */
    char place[ENTRY_ID_TEXT_MAX];
};

/*
 * Renews the lifetime of a message as of `now_us`: it gets as long as it had at its commit, in the
 * route and in the JSON line; what expired without saying when was for whoever is shown it, and
 * gets its day again. RC_BAD: the route is no note's head.
 */
MUST_CHECK enum rc redrive_prepare(const struct error_entry *entry, int64_t now_us,
                                   struct redrive *ret_redrive);
void redrive_free(struct redrive *redrive);

/* Adds what redrive.lua is told, but for users; all must outlive the call. */
struct arguments;
void redrive_arguments(struct arguments *arguments, const char *stream, const char *prefix,
                       const char *retention, const struct error_entry *entry,
                       const struct redrive *redrive);

#endif
