/*
 * keys.h: the names of all keys in the store. The build also inserts them into the scripts.
 *
 * A key consists of its shard's prefix and one of the kinds below. If a kind ends in a colon, a
 * name follows: a slot, user, notification, target, relay, ticket, endpoint or idempotency key.
 */
#ifndef CLAIRON_STORE_KEYS_H
#define CLAIRON_STORE_KEYS_H

#include <stddef.h>
#include <stdio.h>

#include "base/text.h"

#define STORE_KEY_MAX 192 /* a key that contains no user-defined name */
#define STORE_PREFIX_MAX (STORE_KEY_MAX / 2)

/*
 * With several shards, and in a cluster, the shard's number in braces follows store.prefix: a
 * cluster selects the slot of a key by the text in its first braces.
 */
#define KEY_SHARD_BEGIN ":{"
#define KEY_SHARD_END "}"

#define KEY_STREAM ":stream"      /* stream: an entry for each notification and retry */
#define KEY_LARGE ":large"        /* sorted set: the large entries of the stream, and their bytes */
#define KEY_META ":meta"          /* hash: the fields META_* below */
#define KEY_PROGRESS ":progress:" /* hash of a slot: stored WAL position, owner, database */
#define KEY_CONTROL ":control"    /* stream: memberships, reloads and cut-offs, for readers */
#define KEY_COVERED ":covered"    /* stream: the newest read LSN of the progress, for readers */
#define KEY_MEMBERS ":members:"   /* set of an audience and target: its users */
#define KEY_GROUPS ":groups:"     /* set of a user: audiences and targets */
/* hash of table owners: the pairs that their rules may add, and when they were refilled */
#define KEY_OWNER_PAIRS ":owner_pairs"
/* hash of table owners: the next free time of their retries, and when it was last used (in ms) */
#define KEY_OWNER_RETRIES ":owner_retries"
#define KEY_RELOADS ":reloads" /* hash: live rules to reload, and a transaction */

#define KEY_PENDING ":pending" /* hash: notifications with a pending acknowledgement */
#define KEY_ACK ":ack:"        /* hash of a notification: users, and 0 or the ack time */
#define KEY_ACKED ":acked:"    /* hash of a completed notification: users and ack times */
#define KEY_UNREPORTED_ACKS ":unreported_acks:" /* hash of a notification: acks before its report */
#define KEY_RETRIES ":retries:" /* hash of a notification: the retries of each user */
#define KEY_COPIES ":copies:"   /* list of a notification: the stream entries of its retries */
#define KEY_RETRIED ":retried"  /* sorted set: notifications with a retry, by commit time */
#define KEY_DUE ":due"          /* sorted set: pairs of notification and user, by time */
#define KEY_RETRY_LEASE ":retry_lease"    /* string: the relay that calls due.lua; expires */
#define KEY_PENDING_LIST ":pending_list:" /* sorted set: a user's pending list, by stream entry */
#define KEY_ENDED ":ended" /* hash of users: the pairs that ended most recently, by stream entry */
#define KEY_SHARED_PENDING_LIST                                                                    \
    ":shared_pending_list"    /* sorted set: notifications to large audiences, by stream entry */
#define KEY_STAGED ":staged:" /* hash of a notification that is not yet added: its users, and 0 */
#define KEY_ACK_EVENTS ":ack_events" /* stream: pairs that ended, for sessions */
/* hash of a notification: counts and deliveries, for its receipts */
#define KEY_RECEIPT_STATE ":receipt_state:"
#define KEY_ESCALATIONS ":escalations" /* sorted set: notifications and redriven pairs, by time */
#define KEY_RECEIPTS ":receipts"       /* stream: receipts, for the sinks */
#define KEY_TRACE ":trace:"            /* list of a notification: its events */
#define KEY_GAPS ":gaps:"              /* list of a user: the newest announced gaps */
#define KEY_ERRORS ":errors"           /* stream: the error log */
#define KEY_ERROR_PARTS                                                                            \
    ":error_parts:" /* hash of a notification with several entries in the error log */
/* sorted set: table owners, by the bytes of their entries in the error log */
#define KEY_ERROR_OWNERS ":error_owners"
#define KEY_ERROR_INDEX ":error_index:" /* stream of a table owner: its entries of the error log */
/* hash: trimmed entries (e) and denied notifications (p) of each owner, and dropped pairs (d) */
#define KEY_DENIED ":denied"
#define KEY_DENIED_READ ":denied_read" /* hash: those that a feed has read, until it confirms */

#define KEY_AUDIT ":audit" /* stream: acts of operators, with hashes of names */
/* string of a hash in it: the name, or empty after clairon forget */
#define KEY_AUDIT_NAME ":audit_name:"

/* sorted set: entries that name a forgotten user, by the time at which they are deleted */
#define KEY_FORGOTTEN ":forgotten"

/* hash: heartbeats of the sinks' consumers, and how far their databases were written */
#define KEY_SINKS ":sinks"

#define KEY_RELAYS ":relays"       /* sorted set: relays, by the time of the last heartbeat */
#define KEY_PRESENCE ":presence:"  /* set of a relay: the users connected to it */
#define KEY_HEARTBEAT ":heartbeat" /* stream: heartbeats, which wake readers */
#define KEY_IDEMPOTENCY                                                                            \
    ":idempotency:"           /* string of an idempotency key: a digest and the notification */
#define KEY_TICKET ":ticket:" /* string of a ticket: the claims of a token */
#define KEY_ISSUER_KEYS ":issuer_keys:" /* string of an issuer: its last JWK Set, in shard 0 */
#define KEY_CUTOFFS ":cutoffs"          /* hash of digests: cut-offs (wire/cutoff.h), in shard 0 */
#define KEY_CUTOFF_ENDS ":cutoff_ends"  /* sorted set: these digests, by the end of the cut-off */
#define KEY_PUSH_TICKET                                                                            \
    ":push_ticket:"                 /* string of a ticket in a Web Push: notification and user */
#define KEY_WEB_PUSH_DUE ":webpush" /* sorted set: notification and user, by time */
#define KEY_WEB_PUSH ":webpush:"    /* hash of a notification: its Web Pushes */
/* set of a notification: users of a large audience whose Web Pushes are not in the queue yet */
#define KEY_WEB_PUSH_USERS ":webpush_users:"
#define KEY_WEB_PUSH_LARGE ":webpush_large" /* sorted set: notifications with them, by time */
/* sorted set: notifications with Web Pushes, by the time of their commit */
#define KEY_WEB_PUSH_COMMITS ":webpush_commits"
#define KEY_LAST_SEEN ":last_seen" /* sorted set: users, by the end of their last session */
#define KEY_SUBSCRIPTIONS ":subscriptions:" /* hash of a user: the Web Push subscriptions */
#define KEY_ENDPOINT ":endpoint:"           /* string of the endpoint of a subscription: its user */
#define KEY_PUSH_FAILURE ":push_failure:"   /* string of an endpoint: its last failure */
/*
 * This key never exists, and each script and transaction declares it. While a cluster moves the
 * shard's slot, a request with a missing key is rejected before it runs. Without such a key, a
 * script would run on the former server with only some of its keys.
 */
#define KEY_NONE ":none"
#define KEY_DOCTOR ":doctor" /* never written: clairon doctor checks permissions on it */

/* The fields of KEY_META. */
#define META_EPOCH "epoch"     /* identity of the shard's data; a new one announces a gap */
#define META_SHARDS "shards"   /* number of shards that the store was created with */
#define META_PLACE "place"     /* ID of the node that has all keys of the shard (shard.h) */
#define META_WITHOUT "without" /* IDs of lost nodes whose keys are abandoned (shard.h) */
#define META_FIRST "first"     /* the first stream entry ever */
/* the newest stream entry that trim.lua removed, and the oldest after it, or - */
#define META_TRIMMED "trimmed"
#define META_RUN "run"           /* run ID of the server that began the current generation */
#define META_HISTORY "history"   /* generations of the stream (entry.h) */
#define META_GAP_TO "gap_to"     /* end of the range of ids that this generation skipped */
#define META_PROGRESS "progress" /* KEY_PROGRESS of the slot that was acquired last */
#define META_TOPIC_PREFIX "topic_prefix" /* the prefix of all topics, in shard 0 */
/* exists until the memberships are copied; `delete`: those of before must be deleted first */
#define META_COPYING "copying"
#define META_UNDONE "undone"             /* which transactions were undone (parts/undone.lua) */
#define META_UNDONE_COUNT "undone_count" /* how often */
#define META_DENIED "denied"             /* number of the denials in KEY_DENIED_READ */
/* the entry that was the oldest before forget_stream.lua, and the oldest one since */
#define META_FORGOTTEN "forgotten"
/* exists until trim.lua has verified the pending notifications: the cursor in KEY_PENDING */
#define META_VERIFY "verify"
#define META_ENDED_CURSOR "ended_cursor" /* how far trim.lua has visited KEY_ENDED */

/* Writes the key of a kind without a name. */
static inline void
key_write(char ret_key[STORE_KEY_MAX], const char *prefix, const char *kind)
{
    text_join(ret_key, STORE_KEY_MAX, prefix, kind, "");
}

/* Writes the key of a kind and a name. */
static inline void
key_write_of(char *ret_key, size_t size, const char *prefix, const char *kind, const char *name)
{
    text_join(ret_key, size, prefix, kind, name);
}

/* Writes the prefix of a shard's keys if keys are numbered (topology.h). */
static inline void
key_shard_prefix(char ret_prefix[STORE_PREFIX_MAX], const char *of_all, unsigned shard)
{
    snprintf(ret_prefix, STORE_PREFIX_MAX, "%s" KEY_SHARD_BEGIN "%u" KEY_SHARD_END, of_all, shard);
}

#endif
