/*
 * frame_format.h: the binary frames that the decoder writes and the relay reads.
 *
 * One XLogData message contains one or more whole frames, of one or more transactions. All integers
 * are big-endian, all strings UTF-8 without a terminating zero.
 *
 *  every frame     0  4  length       bytes of the whole frame, these 4 included
 *                  4  1  kind         'N' notification, 'M' member, 'R' reload, 'C' commit
 *                  5  1  version      FRAME_VERSION
 *                  6  2  flags        FRAME_ACK_REQUIRED | FRAME_RETRY_ENABLED | ..
 *                  8  8  commit_lsn   where the commit record starts (0: not from WAL)
 *                 16  8  ordinal      within the transaction, see FRAME_ORDINAL
 *
 *  notification   24 16  id           the notification's UUID
 *                 40  8  commit_us    commit time, µs since 1970-01-01 UTC
 *                 48  8  expires_us   expiration, same clock; 0: never
 *                 56  1  priority     enum frame_priority
 *                 57  1  type         enum frame_type
 *                 58  1  operation    enum frame_operation
 *                 59  1  backoff      enum frame_backoff
 *                 60  2  retry_limit
 *                 62  2  attempts     0 as decoded; the store increments it
 *                 64  2  audience_len
 *                 66  2  topic_len
 *                 68  4  targets_len  bytes of all targets with their lengths
 *                 72  4  target_count
 *                 76  4  ack_timeout  in ms, with FRAME_ACK_TIMED; else 0
 *                 80  8  xid          of the top-level transaction, 64 bits; 0: not from WAL
 *                 88  4  owner        of the table, which has an account of pairs; else 0
 *                 92  2  rule_len     0: not from a rule
 *                 94  1  receipts     enum frame_receipts, with FRAME_RECEIPTS; else 0
 *                 95  1  zero
 *                 96  8  escalations  two times in ms after commit_us (4 bytes each, the second one
 *                                     is 0 or later), with FRAME_RECEIPTS; 0: none
 *                104     audience, topic, rule (at most LIMIT_RULE bytes), then each target
 *                        as length (2) + bytes
 *                        with FRAME_WEB_PUSH, length (2) + text of the Web Push
 *                        data: the JSON line, to the frame's end
 *
 *  member         24  1  change       '+' or '-'
 *                 25  1  zero
 *                 26  2  audience_len
 *                 28  2  target_len
 *                 30  2  user_len
 *                 32  8  xid          as in a notification
 *                 40     audience, target, user
 *
 *  reload         24  8  xid          as in a notification
 *                 32  2  source_len   at least 1
 *                 34  2  rule_len     up to LIMIT_RULE; 0: all live rules of the source
 *                 36     source, rule
 *
 *  commit         24  8  end_lsn      may be confirmed once all earlier frames are stored
 *                 32  8  commit_us
 *
 * A reload frame names live rules whose rows changed without notifications, by a TRUNCATE, DDL or
 * clairon.watch. Its source is the metadata.source of the rule's notifications.
 *
 * The upper byte of a commit's flags is the number of repeated idempotency keys of clairon.once
 * and clairon.notify in the transaction, at most 255.
 *
 * A transaction with a frame, or with a repeated key, ends with a commit frame. Its ordinal is
 * FRAME_ORDINAL_COMMIT. (commit_lsn, ordinal) strictly increases along a slot, so one such pair
 * identifies all frames that a store already contains.
 *
 * The bytes of a notification from 0 up to its data are its header. The store keeps them next to
 * the JSON, as the route of the stream entry, so that the relay routes without parsing JSON.
 * A relay rejects other versions than FRAME_VERSION.
 */
#ifndef CLAIRON_FRAME_FORMAT_H
#define CLAIRON_FRAME_FORMAT_H

#define FRAME_VERSION 1

#define FRAME_KIND_NOTIFICATION 'N'
#define FRAME_KIND_MEMBER 'M'
#define FRAME_KIND_RELOAD 'R'
#define FRAME_KIND_COMMIT 'C'

#define FRAME_ACK_REQUIRED 0x0001
#define FRAME_RETRY_ENABLED 0x0002
/* A value could not be output: it is null, and payload.undecodable names its column. */
#define FRAME_UNDECODABLE 0x0004
/* metadata has a traceparent. */
#define FRAME_TRACED 0x0008
/* The frame has an acknowledgement timeout, which overrides the relay's delivery.ack_timeout. */
#define FRAME_ACK_TIMED 0x0010
/* Only in the store: readers may have received newer notifications of other shards before. */
#define FRAME_LATE 0x0020
/* The rule is live: clients receive its name. */
#define FRAME_LIVE 0x0040
/* The ends or escalations of the notification have receipts. Only with FRAME_ACK_REQUIRED. */
#define FRAME_RECEIPTS 0x0080
/*
 * The notification has a Web Push. Its text is empty if it has no title, and longer than
 * LIMIT_WEB_PUSH if it is too long: then no Web Push is sent.
 */
#define FRAME_WEB_PUSH 0x0100

/* Offsets of the layout above. */
#define FRAME_AT_LENGTH 0
#define FRAME_AT_KIND 4
#define FRAME_AT_VERSION 5
#define FRAME_AT_FLAGS 6
#define FRAME_AT_COMMIT_LSN 8
#define FRAME_AT_ORDINAL 16
#define FRAME_COMMON_SIZE 24

#define FRAME_NOTIFICATION_AT_ID 24
#define FRAME_NOTIFICATION_AT_COMMIT_US 40
#define FRAME_NOTIFICATION_AT_EXPIRES_US 48
#define FRAME_NOTIFICATION_AT_PRIORITY 56
#define FRAME_NOTIFICATION_AT_TYPE 57
#define FRAME_NOTIFICATION_AT_OPERATION 58
#define FRAME_NOTIFICATION_AT_BACKOFF 59
#define FRAME_NOTIFICATION_AT_RETRY_LIMIT 60
#define FRAME_NOTIFICATION_AT_ATTEMPTS 62
#define FRAME_NOTIFICATION_AT_AUDIENCE_LEN 64
#define FRAME_NOTIFICATION_AT_TOPIC_LEN 66
#define FRAME_NOTIFICATION_AT_TARGETS_LEN 68
#define FRAME_NOTIFICATION_AT_TARGET_COUNT 72
#define FRAME_NOTIFICATION_AT_ACK_TIMEOUT 76
#define FRAME_NOTIFICATION_AT_XID 80
#define FRAME_NOTIFICATION_AT_OWNER 88
#define FRAME_NOTIFICATION_AT_RULE_LEN 92
#define FRAME_NOTIFICATION_AT_RECEIPTS 94
#define FRAME_NOTIFICATION_AT_ZERO 95
#define FRAME_NOTIFICATION_AT_ESCALATIONS 96
#define FRAME_NOTIFICATION_HEAD_SIZE 104

#define FRAME_ESCALATIONS 2
#define FRAME_ESCALATION_SIZE 4

#define FRAME_MEMBER_AT_CHANGE 24
#define FRAME_MEMBER_AT_AUDIENCE_LEN 26
#define FRAME_MEMBER_AT_TARGET_LEN 28
#define FRAME_MEMBER_AT_USER_LEN 30
#define FRAME_MEMBER_AT_XID 32
#define FRAME_MEMBER_HEAD_SIZE 40

#define FRAME_RELOAD_AT_XID 24
#define FRAME_RELOAD_AT_SOURCE_LEN 32
#define FRAME_RELOAD_AT_RULE_LEN 34
#define FRAME_RELOAD_HEAD_SIZE 36

#define FRAME_COMMIT_AT_END_LSN 24
#define FRAME_COMMIT_AT_COMMIT_US 32
#define FRAME_COMMIT_SIZE 40
#define FRAME_REPEATS_SHIFT 8
#define FRAME_REPEATS_MAX 255

/*
 * The number of a change within its transaction, from 1, counts all changes that the plugin
 * receives: options may differ between two runs. The lower 16 bits are the sub-ordinal of a
 * notification: 0 for the ad hoc rule of include_tables, then four for each rule in the order of
 * their names.
 */
#define FRAME_ORDINAL(change_number, sub) (((change_number) << 16) | (sub))
#define FRAME_SUB_MAX UINT16_MAX
#define FRAME_ORDINAL_COMMIT UINT64_MAX

enum frame_priority { FRAME_PRIORITY_HIGH, FRAME_PRIORITY_NORMAL, FRAME_PRIORITY_LOW };
enum frame_type { FRAME_TYPE_REALTIME, FRAME_TYPE_NOTIFICATION, FRAME_TYPE_SYSTEM };
enum frame_operation {
    FRAME_OPERATION_CREATE,
    FRAME_OPERATION_UPDATE,
    FRAME_OPERATION_DELETE,
    FRAME_OPERATION_TRUNCATE,
    FRAME_OPERATION_NOTIFY
};
enum frame_backoff { FRAME_BACKOFF_EXPONENTIAL, FRAME_BACKOFF_LINEAR, FRAME_BACKOFF_FIXED };
enum frame_receipts { FRAME_RECEIPTS_NONE, FRAME_RECEIPTS_NOTIFICATION, FRAME_RECEIPTS_USER };

#endif
