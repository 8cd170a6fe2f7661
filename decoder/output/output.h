/* output.h: what a session writes: frames or lines, spools of open transactions, warnings. */
#ifndef CLAIRON_OUTPUT_H
#define CLAIRON_OUTPUT_H

#include "postgres.h"

#include "replication/logical.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "base/data.h"
#include "protocol/frame_format.h"
#include "rules/rules.h"

struct decoder;

/* frames.c: the layout of a frame is in protocol/frame_format.h. */

#define MEMBER_FIELDS 3 /* columns of clairon.member: audience, target, user */

/* The header of a notification frame. */
struct notification_header {
    pg_uuid_t id;
    uint64 ordinal;
    uint64 expires_us; /* 0: never */
    TimestampTz expires;
    uint16 flags;
    struct delivery delivery;
    Oid owner; /* of the table, if its pairs are limited; else 0 */
    enum frame_operation operation;
    struct fragment audience;
    struct fragment topic;
    struct fragment rule; /* name of the rule; empty unless it is live */
    const struct target_list *targets;
    struct fragment web_push; /* its text as JSON, with FRAME_WEB_PUSH */
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

/* lines.c: text mode. */

extern void lines_setup(struct decoder *decoder);
/* Writes the line in ctx->out. A walsender may send it later, at the latest after the commit. */
extern void lines_write(LogicalDecodingContext *ctx);
/* Sends the lines that were not sent yet. */
extern void lines_flush(struct decoder *decoder);

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

/*
 * spool.c: the notifications of an open transaction, in a temporary file.
 *
 * A large transaction is rendered while it is open, so the server does not write its changes to
 * disk and decode them from there. The spool contains the payloads and all data that depends on the
 * WAL position. At the commit the records are read once, and receive LSN, time, ids and ordinals.
 * Each record belongs to a subtransaction; records of rolled back subtransactions are skipped. Only
 * one process uses the file, so records are C structs, unaligned.
 */

enum spool_kind {
    SPOOL_XACT,         /* switches to subtransaction `number`; starts with the top transaction */
    SPOOL_TEMPLATE,     /* template `number`: the common parts of a plan's notifications */
    SPOOL_NOTIFICATION, /* uses template `number`: emitter, Web Push, targets, then the payload */
    SPOOL_MEMBER,       /* three zero-terminated strings; `operation` is '+' or '-' */
    SPOOL_RELOAD,       /* sub-ordinal `number`, zero-terminated source and rule */
    SPOOL_MESSAGE,      /* a topic of `number` bytes, then the message */
    SPOOL_ANNOTATION,   /* the message */
    SPOOL_REPEAT,       /* a repeated idempotency key; no contents */
    SPOOL_WARNING,      /* warning `number`: the seed, then zero-terminated strings */
    SPOOL_COUNTS        /* `number` of struct spool_count */
};

/* Each of `length` successive warnings applies to `changes` changes of the subtransaction. */
struct spool_count {
    uint32 first;
    uint32 length;
    uint32 changes;
};

struct spool_record {
    uint32 size; /* size of the whole record */
    uint32 number;
    uint64 advance; /* changes since the previous record, within its subtransaction */
    XLogRecPtr lsn;
    uint32 target_count;
    uint8 kind;
    uint8 operation;
    uint8 part;
    uint8 flags;
};

/* Flags of a notification record. */
#define SPOOL_LITERAL 0x01     /* the template contains the targets */
#define SPOOL_UNDECODABLE 0x02 /* a value could not be output */
#define SPOOL_EMITTER 0x04     /* the record has an emitter */
#define SPOOL_WEB_PUSH 0x08    /* the record has the text of a Web Push */

/* Initializes streaming. Deleting the decoder's memory context closes all files. */
extern void spool_setup(LogicalDecodingContext *ctx);

/* Writes changes to the transaction's spool until spool_end_block. */
extern void spool_begin_block(struct decoder *decoder, ReorderBufferTXN *txn);
/* Writes the buffer. An incomplete record is dropped. */
extern void spool_end_block(struct decoder *decoder);
/* True when this is the subtransaction of the previous changes. */
extern bool spool_is_in_xact(struct decoder *decoder, TransactionId xid);
/* Sets the subtransaction of the next changes. */
extern void spool_switch_xact(struct decoder *decoder, TransactionId xid);
/* The next changes have an annotation of this many bytes, unless their subtransaction aborts. */
extern void spool_annotate(struct decoder *decoder, int bytes);
/* Returns the bytes of the annotation of the next change. */
extern int spool_annotation_bytes(const struct decoder *decoder);
/* A subtransaction, or the one it was released into, was rolled back. */
extern void spool_abort_xact(ReorderBufferTXN *top, TransactionId xid);
/* Deletes the transaction's spool, if any. */
extern void spool_drop(struct decoder *decoder, ReorderBufferTXN *txn);

/* Starts a record. The caller appends its contents to the returned buffer, then closes it. */
extern StringInfo spool_open(struct decoder *decoder, enum spool_kind kind, uint32 number,
                             struct spool_record *ret_record);
extern void spool_close(struct decoder *decoder, struct spool_record *record);
/* Identifies the template of a plan in a spool. */
struct template_mark {
    uint64 generation;
    uint32 number;
};

/* True when the spool of the current block contains the template. */
extern bool spool_has_template(struct decoder *decoder, const struct template_mark *mark);
/* Like spool_open and spool_close, for the next template. Closing fills in the mark. */
extern StringInfo spool_open_template(struct decoder *decoder, struct spool_record *ret_record);
extern void spool_close_template(struct decoder *decoder, struct spool_record *record,
                                 struct template_mark *ret_mark);

struct spool_reader;

/* Returns a reader in the current memory context; NULL when the transaction has no records. */
extern struct spool_reader *spool_read_begin(ReorderBufferTXN *txn);
/* Returns false at the end. *ret_body is valid until the next call. */
extern bool spool_read(struct spool_reader *reader, struct spool_record *ret_record,
                       const char **ret_body);

/* warning_throttle.c: warnings about denied or incomplete changes, at powers of ten. */

extern void warning_setup(struct decoder *decoder);

/*
 * Counts one event, and warns at the first, tenth, hundredth .. event of this kind. The string
 * literal `what` identifies the kind. `seed` is the seed of a rule's plan, or 0.
 */
extern void warning_count(struct decoder *decoder, uint64 seed, const char *subject,
                          const char *what);

/* Like warning_count, but counts immediately, even if the transaction may still be rolled back. */
extern void warning_count_now(struct decoder *decoder, uint64 seed, const char *subject,
                              const char *what);

/*
 * Like warning_count, but a warning includes the reason of its event; in a streamed transaction,
 * of the first such event in its block.
 */
extern void warning_count_reason(struct decoder *decoder, uint64 seed, const char *subject,
                                 const char *what, const char *reason);

/* A new block starts in the spool. */
extern void warning_begin_block(struct decoder *decoder);
/* Spools the counts since the last call: they belong to the current subtransaction. */
extern void warning_spool_counts(struct decoder *decoder);
/* Counts changes with the warning of a spool record. */
extern void warning_replay(struct decoder *decoder, const char *body, uint32 changes);

#endif
