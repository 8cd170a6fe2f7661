/*
 * spool.h: the notifications of an open transaction, in a temporary file.
 *
 * A large transaction is rendered while it is open, so that the server need not write its changes
 * to disk, read and decode them again. The spool contains the payloads and all data that depends on
 * the WAL position. The commit adds LSN, time, ids and ordinals, when the records are read once.
 * Each record belongs to a subtransaction; those that were rolled back are skipped. The file
 * belongs to one process, so records are C structs, unaligned.
 */
#ifndef CLAIRON_SPOOL_H
#define CLAIRON_SPOOL_H

#include "postgres.h"

#include "replication/logical.h"

struct decoder;

enum spool_kind {
    SPOOL_XACT, /* later records belong to subtransaction `number`; first to the top transaction */
    SPOOL_TEMPLATE,     /* template `number`: the common parts of a plan's notifications */
    SPOOL_NOTIFICATION, /* of template `number`: emitter, targets, then the payload */
    SPOOL_MEMBER,       /* three zero-terminated texts; `operation` is '+' or '-' */
    SPOOL_RELOAD,       /* of sub-ordinal `number`: two zero-terminated texts, source and rule */
    SPOOL_MESSAGE,      /* the topic of `number` bytes, then the message */
    SPOOL_REPEAT,       /* of an idempotency key; no contents */
    SPOOL_WARNING       /* the seed, then `number` zero-terminated texts */
};

struct spool_record {
    uint32 size; /* of the whole record */
    uint32 number;
    uint64 advance; /* changes since the previous record; SPOOL_XACT: of the previous one */
    XLogRecPtr lsn;
    uint32 target_count;
    uint8 kind;
    uint8 operation;
    uint8 part;
    uint8 flags;
};

/* Flags of a notification. */
#define SPOOL_LITERAL 0x01     /* its targets are the template's */
#define SPOOL_UNDECODABLE 0x02 /* a value could not be output */
#define SPOOL_EMITTER 0x04     /* the record has an emitter */

/* Initializes streaming. Deleting the decoder's memory context closes all files. */
extern void spool_setup(LogicalDecodingContext *ctx);

/* Until spool_end_block, changes of this transaction go to its spool. */
extern void spool_begin_block(struct decoder *decoder, ReorderBufferTXN *txn);
/* Writes the buffer. An incomplete record is dropped. */
extern void spool_end_block(struct decoder *decoder);
/* Sets the subtransaction of the next changes. */
extern void spool_switch_xact(struct decoder *decoder, TransactionId xid);
/* Deletes the spool of a transaction, if it has one. */
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

/* True when the spool of the current block has the template. */
extern bool spool_has_template(struct decoder *decoder, const struct template_mark *mark);
/* As spool_open and spool_close, for the next template; fills in the mark. */
extern StringInfo spool_open_template(struct decoder *decoder, struct spool_record *ret_record);
extern void spool_close_template(struct decoder *decoder, struct spool_record *record,
                                 struct template_mark *ret_mark);

struct spool_reader;

/* In the current memory context; NULL when the transaction left no records. */
extern struct spool_reader *spool_read_begin(ReorderBufferTXN *txn);
/* False at the end; *ret_body is valid until the next call. */
extern bool spool_read(struct spool_reader *reader, struct spool_record *ret_record,
                       const char **ret_body);

#endif
