/*
 * funnel.h: the newest idempotency keys of each asker, in front of the store that knows them all.
 *
 * It answers most repeats without a round trip, also while the store is away. What it does not
 * hold, the store decides: a key is kept here only once the store said what became of it.
 */
#ifndef CLAIRON_HUB_FUNNEL_H
#define CLAIRON_HUB_FUNNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/frame.h"

#define FUNNEL_KEYS 50       /* of an asker; then the oldest goes */
#define FUNNEL_ASKERS 1000   /* then whoever has asked longest ago goes */
#define FUNNEL_DIGEST_MAX 64 /* bytes of the request's digest */

struct funnel;

struct funnel *funnel_new(void);
void funnel_free(struct funnel *funnel); /* accepts NULL */

/*
 * True when `key` of `asker` is known and not older than `kept_us`: ret_id is then the id it
 * stands for, ret_is_same whether the digest is that of the first time. `epoch` is the store's:
 * another than before forgets all. Times are monotonic, in us.
 */
bool funnel_find(struct funnel *funnel, const char *epoch, const char *asker, const char *key,
                 const char *digest, int64_t now_us, int64_t kept_us, bool *ret_is_same,
                 char ret_id[FRAME_UUID_TEXT + 1]);

/* The store has lost what this key stands for. */
void funnel_forget(struct funnel *funnel, const char *asker, const char *key);

/*
 * The store holds `key` for this digest and id since `now_us`, at the latest. Texts are copied;
 * a digest or id that is too long is not kept.
 */
void funnel_keep(struct funnel *funnel, const char *epoch, const char *asker, const char *key,
                 const char *digest, const char *id, int64_t now_us);

#endif
