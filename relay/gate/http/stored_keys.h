/*
 * stored_keys.h: the last keys of issuers with a URL, in the store: for relays that start while a
 * provider is away.
 */
#ifndef CLAIRON_GATE_HTTP_STORED_KEYS_H
#define CLAIRON_GATE_HTTP_STORED_KEYS_H

#include <stddef.h>

#include "wire/bytes.h"

struct ev_loop;
struct store;
struct stored_keys;

/* Called once for each issuer, unless the store has no keys of it. Valid during the callback. */
typedef void stored_keys_read(void *ctx, size_t issuer, struct bytes text);

/* Reads the keys of the issuers that are added, as soon as the store is up. */
struct stored_keys *stored_keys_open(struct ev_loop *loop, struct store *store, size_t count,
                                     stored_keys_read *read, void *ctx);
void stored_keys_close(struct stored_keys *stored); /* accepts NULL */

/*
 * `issuer`: a number below `count`. The keys are stored under a hash of its name and URL: keys of
 * another URL are not those of the issuer.
 */
void stored_keys_add(struct stored_keys *stored, size_t issuer, const char *name, const char *url);

/* Stores the keys that were fetched, as soon as the store is up. The text is copied. */
void stored_keys_save(struct stored_keys *stored, size_t issuer, const char *text, size_t len);

#endif
