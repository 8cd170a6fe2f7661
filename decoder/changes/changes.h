/* changes.h: from the changes of a transaction to its frames. */
#ifndef CLAIRON_CHANGES_H
#define CLAIRON_CHANGES_H

#include "postgres.h"

#include "replication/logical.h"
#include "utils/rel.h"

#include "base/data.h"
#include "plan/plan.h"

/* change.c: applies the rules of a relation to one change. */

extern void change_row(LogicalDecodingContext *ctx, struct plan_set *set, Relation relation,
                       ReorderBufferChange *change);
/* `relation` is one of the truncated tables. */
extern void change_truncate(LogicalDecodingContext *ctx, struct plan_set *set, Relation relation,
                            const ReorderBufferChange *change);

/* row_audience.c: recipients of a row under a rule. All lists are in the current memory context. */

/*
 * The next three functions deny a row that cannot be evaluated. A denial is counted and logged as a
 * warning.
 */

/* True when the rule denies all rows, because one of its columns was dropped. */
extern bool audience_is_denied(struct decoder *decoder, const struct plan *plan);

/*
 * Reads the targets in the image's columns. Returns false when the row is denied. A row with too
 * many targets has no recipients: the list is empty, and *ret_too_many is true.
 */
extern bool audience_read_targets(struct decoder *decoder, const struct plan *plan,
                                  const struct image *image, struct target_list **ret_targets,
                                  bool *ret_too_many);

/* Evaluates the rule's only_when, which must exist. Returns false when the row is denied. */
extern bool audience_meets_condition(struct decoder *decoder, const struct plan *plan,
                                     const struct image *image, bool *ret_met);

/* Returns the targets in `a` that are, or are not, in `b`, in the order of `a`. */
extern struct target_list *audience_intersection(const struct target_list *a,
                                                 const struct target_list *b);
extern struct target_list *audience_difference(const struct target_list *a,
                                               const struct target_list *b);

/* Returns the emitter as JSON, in the current memory context. `image` is NULL without a row. */
extern struct fragment emitter_of_row(struct decoder *decoder, const struct plan *plan,
                                      const struct image *image);

/*
 * Returns the text of the row's Web Push as in the frame, in the current memory context; bytes
 * NULL: the rule has none. `image` is NULL without a row.
 */
extern struct fragment web_push_of_row(struct decoder *decoder, const struct plan *plan,
                                       const struct image *image);

/* row_notification.c: renders one notification of a row. */

/* A notification of a row, before it is rendered. */
struct notification {
    const struct plan *plan;
    enum frame_operation operation;
    uint32 part;                /* PART_* */
    const struct image *before; /* NULL: the JSON contains null */
    const struct image *after;
    const struct target_list *targets;
    struct fragment emitter;  /* as JSON; bytes NULL: the plan's constant emitter */
    struct fragment web_push; /* text of its Web Push as in the frame; bytes NULL: none */
    struct fragment payload;  /* from a spool; bytes NULL: rendered from the images */
    bool undecodable;         /* the spooled payload contains an undecodable value */
};

/* Writes the notification, or spools it while its transaction is open. */
extern void notification_write(LogicalDecodingContext *ctx,
                               const struct notification *notification);

/* Renders a row as payload.after of a create. The returned JSON is valid until `out` changes. */
extern struct fragment notification_render_row(struct decoder *decoder, StringInfo out,
                                               const struct plan *plan, const struct image *row);

/* Fills in the expiration: commit time plus ttl. NULL: never. */
extern void notification_set_expiration(struct decoder *decoder, struct notification_header *header,
                                        const Interval *ttl);

/* Indents the minified line that begins at `start`, unless it would exceed PRETTY_BYTES_MAX. */
extern void notification_indent(StringInfo out, int start);

/*
 * Appends the timestamp, without its opening quote, and all text up to the payload. `data` is
 * metadata.data with its name; NULL: none.
 */
extern void notification_put_times(struct decoder *decoder, StringInfo out,
                                   const struct notification_header *header,
                                   const struct fragment *data);

/* logical_message.c: signed logical messages. */

#define MESSAGE_SIGNED_AT 17 /* where the content begins, after version and MAC */

/* Starts a message in `out`. The caller appends its content. */
extern void message_begin(StringInfo out);

/* Signs the message and writes it to the WAL, as part of the current subtransaction. */
extern void message_write(const char *prefix, StringInfo bytes);

/*
 * Returns the bytes of a message of at least `size_min` bytes that message_write wrote in the
 * transaction, in the current memory context. NULL: it did not.
 */
extern const char *message_verify(struct decoder *decoder, TransactionId xid, const char *content,
                                  Size content_size, Size size_min, Size *ret_size);

/* annotation.c: messages of clairon.annotate. */

#define MESSAGE_ANNOTATION_PREFIX "clairon.annotate"

/* What a transaction adds to the notifications of its rows. Empty: nothing. */
struct annotation {
    struct fragment emitter;     /* as JSON */
    struct fragment traceparent; /* as JSON, with its name */
    struct fragment data;        /* the same */
};

/* Verifies the message, and annotates the next changes of the transaction, or spools it. */
extern void annotation_decode(LogicalDecodingContext *ctx, ReorderBufferTXN *txn,
                              const char *content, Size size);

/* Annotates the next changes with a spooled message. */
extern void annotation_replay(struct decoder *decoder, const char *bytes, Size size);

/* notify.c: messages of clairon.notify, as notifications. */

#define MESSAGE_PREFIX "clairon"
/*
 * An empty message for each repeated key. The message only increments a counter, so it is not
 * signed.
 */
#define MESSAGE_REPEAT_PREFIX "clairon.repeat"

/* Verifies the message and writes, or spools, its notification. */
extern void notify_write(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, const char *content,
                         Size size);

/* Counts a repeated key of clairon.once or clairon.notify; only the relay reads the count. */
extern void notify_count_repeat(struct decoder *decoder);

/* Writes a spooled message. `bytes` contains the topic, then the message: `size` bytes in total. */
extern void notify_replay(LogicalDecodingContext *ctx, const char *bytes, int topic_len, Size size);

/* control.c: changes of clairon.member, as member frames. */

extern void member_change(LogicalDecodingContext *ctx, struct plan_set *set, Relation relation,
                          ReorderBufferChange *change);

/* Writes, or spools, one member frame; `change` is '+' or '-'. */
extern void member_write(LogicalDecodingContext *ctx, char change,
                         char *const texts[MEMBER_FIELDS]);

/*
 * Writes, or spools, one reload frame, except in text mode. The strings are UTF-8. `sub`: the
 * sub-ordinal of the rule plus PART_RELOAD.
 */
extern void reload_write(LogicalDecodingContext *ctx, uint32 sub, const struct fragment *source,
                         const struct fragment *rule);

/*
 * Reloads the lists of the live rule once a transaction. Above RELOADS_PER_SECOND of the owner, one
 * frame reloads the lists of all rules of the table. The frame is in the transaction of the change:
 * a reload that waited for a later one would be lost with the connection.
 */
extern void reload_lists(LogicalDecodingContext *ctx, struct plan_set *set, struct plan *plan);

/* Writes a reload frame for a row that was inserted into clairon.reload. */
extern void reload_change(LogicalDecodingContext *ctx, Relation relation,
                          const ReorderBufferChange *change);

/* replay.c: writes the notifications of a transaction that was rendered before its commit. */

extern void replay_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);

#endif
