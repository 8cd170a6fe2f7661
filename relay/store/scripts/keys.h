/*
 * keys.h: the names of all keys in the store. The build also inserts them into the scripts.
 *
 * A key consists of its shard's prefix and one of the kinds below. If a kind ends in a colon, a
 * name follows: a slot, user, notification, target, relay, ticket or idempotency key.
 */
#ifndef CLAIRON_STORE_KEYS_H
#define CLAIRON_STORE_KEYS_H

#include <stddef.h>
#include <stdio.h>

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
#define KEY_META ":meta"          /* hash: epoch, topic_prefix, shards, first, progress, ... */
#define KEY_PROGRESS ":progress:" /* hash of a slot: stored WAL position, owner, database */
#define KEY_CONTROL ":control"    /* stream: memberships and reloads, for readers */
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
#define KEY_RETRIES ":retries:"    /* hash of a notification: the retries of each user */
#define KEY_COPIES ":copies:"      /* list of a notification: the stream entries of its retries */
#define KEY_RETRIED ":retried"     /* sorted set: notifications with a retry, by commit time */
#define KEY_DUE ":due"             /* sorted set: pairs of notification and user, by time */
#define KEY_PENDING_LIST ":inbox:" /* sorted set: a user's pending list, by stream entry */
#define KEY_ENDED ":ended" /* hash of users: the pairs that ended most recently, by stream entry */
#define KEY_SHARED_PENDING_LIST                                                                    \
    ":shared_inbox"           /* sorted set: notifications to large audiences, by stream entry */
#define KEY_STAGED ":staged:" /* hash of a notification that is not yet added: its users, and 0 */
#define KEY_ACK_EVENTS ":ack_events" /* stream: acknowledgements, for other relays */
#define KEY_TRACE ":trace:"          /* list of a notification: its events */
#define KEY_ERRORS ":errors"         /* stream: the error log */
#define KEY_ERROR_PARTS                                                                            \
    ":error_parts:" /* hash of a notification with several entries in the error log */
/* sorted set: table owners, by the bytes of their entries in the error log */
#define KEY_ERROR_OWNERS ":error_owners"
#define KEY_ERROR_INDEX ":error_index:" /* stream of a table owner: its entries of the error log */
/* hash: trimmed entries (e) and denied notifications (p) of each owner */
#define KEY_DENIED ":denied"
#define KEY_DENIED_READ ":denied_read" /* hash: those that a feed has read, until it confirms */

#define KEY_RELAYS ":relays"       /* sorted set: relays, by the time of the last heartbeat */
#define KEY_PRESENCE ":presence:"  /* set of a relay: the users connected to it */
#define KEY_HEARTBEAT ":heartbeat" /* stream: heartbeats, which wake readers */
#define KEY_IDEMPOTENCY                                                                            \
    ":idempotency:"           /* string of an idempotency key: a digest and the notification */
#define KEY_TICKET ":ticket:" /* string of a ticket: the claims of a token */
/*
 * This key never exists, and each script and transaction declares it. While a cluster moves the
 * shard's slot, a request with a missing key is rejected before it runs. Without such a key, a
 * script would run on the former server with only some of its keys.
 */
#define KEY_NONE ":none"
#define KEY_DOCTOR ":doctor" /* never written: clairon doctor checks permissions on it */

/* Writes the key of a kind without a name. */
static inline void
key_write(char ret_key[STORE_KEY_MAX], const char *prefix, const char *kind)
{
    snprintf(ret_key, STORE_KEY_MAX, "%s%s", prefix, kind);
}

/* Writes the key of a kind and a name. */
static inline void
key_write_of(char *ret_key, size_t size, const char *prefix, const char *kind, const char *name)
{
    snprintf(ret_key, size, "%s%s%s", prefix, kind, name);
}

/* Writes the prefix of a shard's keys if keys are numbered (topology.h). */
static inline void
key_shard_prefix(char ret_prefix[STORE_PREFIX_MAX], const char *of_all, unsigned shard)
{
    snprintf(ret_prefix, STORE_PREFIX_MAX, "%s" KEY_SHARD_BEGIN "%u" KEY_SHARD_END, of_all, shard);
}

#endif
