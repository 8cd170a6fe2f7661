/*
 * frames.h: collects frames, or lines in text mode, and writes them to the receiver.
 *
 * The layout of a frame is in protocol/frame.h.
 */
#ifndef CLAIRON_FRAMES_H
#define CLAIRON_FRAMES_H

#include "postgres.h"

#include "replication/logical.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "base/data.h"
#include "protocol/frame.h"

#define MEMBER_FIELDS 3 /* columns of clairon.member: audience, target, user */

struct decoder;

/* The header of a notification frame. */
struct notification_header {
    pg_uuid_t id;
    uint64 ordinal;
    uint64 expires_us; /* 0: never */
    TimestampTz expires;
    uint16 flags;
    uint16 retry_limit;
    uint32 ack_timeout; /* in ms, with FRAME_ACK_TIMED */
    Oid owner;          /* of the table, if its pairs are limited; else 0 */
    enum frame_priority priority;
    enum frame_type type;
    enum frame_operation operation;
    enum frame_backoff backoff;
    struct fragment audience;
    struct fragment topic;
    struct fragment rule; /* name of the rule; empty unless it is live */
    const struct target_list *targets;
};

/* Resets the state of the decoded transaction. */
extern void frames_begin_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);

/* Writes the commit frame, if the transaction needs a commit frame. */
extern void frames_end_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);

/* Prepares ctx->out for the next line or frame, which frames_close ends. */
extern StringInfo frames_open(LogicalDecodingContext *ctx);
extern void frames_close(LogicalDecodingContext *ctx);

/* Sends the buffered frames, if any. */
extern void frames_flush(LogicalDecodingContext *ctx);

/* Appends the header of a notification frame and returns its start, for frames_finish. */
extern int frames_put_header(struct decoder *decoder, StringInfo out,
                             const struct notification_header *header);

/* Appends a member frame; `change` is '+' or '-'. */
extern void frames_put_member(struct decoder *decoder, StringInfo out, char change, uint32 sub,
                              char *const texts[MEMBER_FIELDS]);

/* Appends a reload frame; source and rule are UTF-8. */
extern void frames_put_reload(struct decoder *decoder, StringInfo out, uint32 sub,
                              const struct fragment *source, const struct fragment *rule);

/* Adds flags that are known only after the data is rendered. */
extern void frames_add_flags(StringInfo out, int start, uint16 flags);

/* Fills in the frame's length. */
extern void frames_finish(StringInfo out, int start);

#endif
