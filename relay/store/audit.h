/*
 * audit.h: the acts of operators, in a stream of shard 0 (KEY_AUDIT).
 *
 * The stream contains hashes of names. The keys KEY_AUDIT_NAME contain the names, until
 * `clairon forget` removes them: a removed user is then named by the hash, also in older acts.
 */
#ifndef CLAIRON_STORE_AUDIT_H
#define CLAIRON_STORE_AUDIT_H

#include <stdint.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/stats.h"
#include "store/entry.h"
#include "store/store.h"

#define AUDIT_QUEUE_MAX 1000 /* acts that wait for the store */
#define AUDIT_PAGE_MAX 1000  /* acts in a page */
#define AUDIT_PAGE_BYTES_MAX ((size_t)16 * 1024 * 1024)

#define AUDIT_HASH_TEXT 43 /* base64url characters of a SHA-256 */
void audit_hash(const char *name, char ret_hash[AUDIT_HASH_TEXT + 1]);

/*
 * Stores the acts of this process (log_audit_listen). While the store is down, up to
 * AUDIT_QUEUE_MAX acts wait; further ones are only in the log, and counted.
 */
struct audit;
struct audit *audit_open(struct ev_loop *loop, struct store *store, struct stats *stats);
/* Adds an act of another process. */
void audit_add(struct audit *audit, const struct log_act *act, int64_t at_us);
/* Call it before store_close. Accepts NULL. */
void audit_close(struct audit *audit);
void audit_free(struct audit *audit); /* call it after store_close; accepts NULL */

/*
 * Reads up to `limit` acts after the stream entry `after` ("": the oldest), oldest first. `json`:
 * an array; `next`: the last stream entry that was read. Valid during the callback. RC_OK and
 * RC_AGAIN have the same meaning as in store.h.
 */
typedef void store_audit_read_done(void *ctx, enum rc rc, struct buffer *json, const char *next);
MUST_CHECK enum rc store_audit_read(struct store *store, const char *after, unsigned limit,
                                    store_audit_read_done *done, void *ctx);

#endif
