/*
 * frames.h: gathers frames, or lines in text mode, and writes them to the receiver.
 *
 * The layout of a frame is in protocol/frame.h.
 */
#ifndef CLAIRON_FRAMES_H
#define CLAIRON_FRAMES_H

#include "postgres.h"

#include "replication/logical.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "base/fragment.h"
#include "base/target_list.h"
#include "protocol/frame.h"

#define MEMBER_FIELDS 3 /* of clairon.member: audience, target, user */

struct decoder;

/* The header of a notification frame. */
struct note_head {
    pg_uuid_t id;
    uint64 ordinal;
    uint64 expires_us; /* 0: never */
    TimestampTz expires;
    uint16 flags;
    uint16 retry_limit;
    uint32 ack_timeout; /* in ms, with FRAME_ACK_TIMED */
    enum frame_priority priority;
    enum frame_type type;
    enum frame_operation operation;
    enum frame_backoff backoff;
    struct fragment audience;
    struct fragment topic;
    const struct target_list *targets;
};

/* Resets the state of the decoded transaction. */
extern void packet_begin_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);

/* Writes the commit frame, if the transaction needs one. */
extern void packet_end_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);

/* Prepares ctx->out for one more line or frame; packet_close ends it. */
extern StringInfo packet_open(LogicalDecodingContext *ctx);
extern void packet_close(LogicalDecodingContext *ctx);

/* Sends the gathered frames, if there are any. */
extern void packet_flush(LogicalDecodingContext *ctx);

/* Appends the header of a notification frame and returns its start, for packet_finish_frame. */
extern int packet_put_note_head(struct decoder *decoder, StringInfo out,
                                const struct note_head *head);

/* Appends a member frame; `change` is '+' or '-'. */
extern void packet_put_member(struct decoder *decoder, StringInfo out, char change, uint32 sub,
                              char *const texts[MEMBER_FIELDS]);

/* Adds flags that are known only after the data is rendered. */
extern void packet_add_flags(StringInfo out, int start, uint16 flags);

/* Fills in the frame's length. */
extern void packet_finish_frame(StringInfo out, int start);

#endif
