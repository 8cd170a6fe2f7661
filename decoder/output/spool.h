/*
 * spool.h: what a transaction gives before its commit, in a temporary file of the server's.
 *
 * A large transaction is rendered while it is still open: then the server need not write its
 * changes to disk, only to read and decode them again. Here go the payloads, and all else that
 * hangs on the place in the WAL; what only the commit tells (position, time, ids, ordinals) is
 * added as the records are read back, once each. A change of a subtransaction that was undone
 * counts for nothing: records say whose they are, and who stands is known at the commit.
 *
 * The file is one process's own, read by the build that wrote it: records are C structs, unaligned.
 */
#ifndef CLAIRON_SPOOL_H
#define CLAIRON_SPOOL_H

#include "postgres.h"

#include "replication/logical.h"

struct decoder;

enum spool_kind {
    SPOOL_XACT,     /* from here on changes are of transaction `number`, before of the whole's */
    SPOOL_TEMPLATE, /* template `number`: what the notes of one plan share */
    SPOOL_NOTIFICATION, /* by template `number`: emitter, targets, then the payload */
    SPOOL_MEMBER,       /* three texts, each with its zero; `operation` is '+' or '-' */
    SPOOL_MESSAGE,      /* the topic of `number` bytes, then the message */
    SPOOL_REPEAT,       /* of an idempotency key; it holds nothing */
    SPOOL_WARNING       /* the seed, then `number` texts, each with its zero */
};

struct spool_record {
    uint32 size; /* of all of it */
    uint32 number;
    uint64 advance; /* changes since the record before; a turn's are of whose turn ends */
    XLogRecPtr lsn;
    uint32 target_count;
    uint8 kind;
    uint8 operation;
    uint8 part;
    uint8 flags;
};

/* Flags of a note. */
#define SPOOL_LITERAL 0x01     /* its targets are the template's */
#define SPOOL_UNDECODABLE 0x02 /* a value could not be read */
#define SPOOL_EMITTER 0x04     /* it has one of its own */

/* Makes what is needed to stream; files go with the decoder's memory at the latest. */
extern void spool_setup(LogicalDecodingContext *ctx);

/* From here to the end of the block, changes of this transaction go to its spool. */
extern void spool_begin_block(struct decoder *decoder, ReorderBufferTXN *txn);
/* Writes what was gathered; a record that was not closed is dropped. */
extern void spool_end_block(struct decoder *decoder);
/* Whose the next changes are. */
extern void spool_switch_xact(struct decoder *decoder, TransactionId xid);
/* Ends a transaction's spool, if it has one. */
extern void spool_drop(struct decoder *decoder, ReorderBufferTXN *txn);

/* Begins a record in the buffer it returns: the caller appends what it holds, then closes it. */
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
/* False at the end; *ret_body stands until the next call. */
extern bool spool_read(struct spool_reader *reader, struct spool_record *ret_record,
                       const char **ret_body);

#endif
