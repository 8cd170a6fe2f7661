/*
 * constants.h: constants of the scripts and of C. In scripts the build replaces the names of these
 * macros, and of the macros in keys.h, frame_format.h and envelope.h, by their values, which must
 * be numbers or strings without expressions.
 */
#ifndef CLAIRON_STORE_CONSTANTS_H
#define CLAIRON_STORE_CONSTANTS_H

#include "decoder/protocol/envelope.h"
#include "store/scripts/keys.h"
#include "wire/frame.h"

#define STORE_SHARDS_MAX                                                                           \
    16 /* [store] shards; the shard is in the ids of the error log, modulo it */

/*
 * Number of a stream's generation (struct history): how many servers the stream has had, times
 * TAGS, and a tag of the server, which distinguishes generations that two servers began
 * independently.
 */
#define STORE_GENERATIONS 1024
#define STORE_GENERATION_TAGS 1024
#define STORE_HISTORY_WORDS 125 /* 62 earlier generations and their ends, and the current one */

/* A stream entry id as the score of a sorted set: the number of scores per millisecond. */
#define STORE_SCORES_PER_MS 1024

/* Transactions that rows of live rules must contain, when a relay starts to read a shard. */
#define STORE_NEWEST_NOTIFIED 256 /* with a notification in the shard */
#define STORE_NEWEST_CHANGES 32   /* with a membership change or reload */

/* lifetime of a notification to an open-ended audience without expiration */
#define STORE_OPEN_MS 86400000

/*
 * Maximum number of rows in a reply of a console script, and in the merged replies of the shards.
 */
#define STORE_OVERVIEW_ROWS 10
#define STORE_ERRORS_ROWS 20
#define STORE_LATEST_ROWS 50
#define STORE_PENDING_ROWS 20

/*
 * Pairs of users and notifications that one call of a script adds. A larger audience is written in
 * steps, by stage.lua, before its notification is added.
 */
#define STORE_PAIRS_MAX 4000

/*
 * Presence, in ms. Relays send a heartbeat every STORE_PRESENCE_EVERY_MS. The users of a relay
 * without one for STORE_PRESENCE_MS have disconnected; after STORE_PRESENCE_REMOVED_MS it is
 * removed. When a user was last seen is kept for STORE_LAST_SEEN_MS, the maximum webpush.delay.
 */
#define STORE_PRESENCE_EVERY_MS 2000
#define STORE_PRESENCE_MS 10000
#define STORE_PRESENCE_REMOVED_MS 60000
#define STORE_LAST_SEEN_MS 3600000

/*
 * Users of a notification whose due times are this close share a retry; at most a quarter of the
 * ack timeout.
 */
#define STORE_RETRY_SLACK_MS 500

/* Bytes of a field of KEY_ENDED. */
#define STORE_ENDED_BYTES_MAX 2048

/* Bytes of the text of a Web Push. */
#define STORE_WEB_PUSH_MAX 8192
_Static_assert(STORE_WEB_PUSH_MAX == LIMIT_WEB_PUSH, "a script uses the limit of the decoder");

/* A stream entry with this number of bytes is large: KEY_LARGE contains its size. */
#define STORE_LARGE_BYTES 65536

/* Scripts read no larger values of retries and the error log: commands outside of scripts do. */
#define STORE_COPIED_BYTES_MAX 1048576

/* After this number of receipts, a script begins another stream entry. */
#define STORE_ENTRY_RECEIPTS 32

/* Entries of the control stream, each with up to 100 changes. */
#define STORE_CONTROL_MAX 10000

/* Cut-offs: beyond it, the one that ends first is removed. */
#define STORE_CUTOFFS_MAX 100000

/* Acts of operators in the audit stream, and how long they are kept: 90 days. */
#define STORE_AUDIT_MAX 100000
#define STORE_AUDIT_KEPT_MS 7776000000

/* Limits of the error log of a shard; see parts/error_log.lua. */
#define STORE_ERRORS_MAX 100000
#define STORE_ERRORS_BYTES_MAX 268435456

/* A letter for each enum frame_backoff, in its order. */
#define STORE_BACKOFF_LETTERS "ELF"
_Static_assert(FRAME_BACKOFF_EXPONENTIAL == 0 && FRAME_BACKOFF_LINEAR == 1 &&
                   FRAME_BACKOFF_FIXED == 2,
               "STORE_BACKOFF_LETTERS follows enum frame_backoff");

#endif
