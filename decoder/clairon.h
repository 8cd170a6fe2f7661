/* clairon.h: what the decoder's files share. */
#ifndef CLAIRON_H
#define CLAIRON_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"
#include "access/xlogreader.h"
#include "lib/stringinfo.h"
#include "replication/logical.h"
#include "replication/output_plugin.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "compat.h"
#include "condition.h"
#include "encode.h"
#include "protocol/envelope.h"
#include "options.h"
#include "rules.h"

/* A packet is sent when it has grown to this. */
#define PACKET_BYTES (64 * 1024)

/* A transaction of more changes does not begin while a packet is held. */
#define HOLD_CHANGES 64

/* A notification that grows beyond this is rendered again with small values only. */
#define LINE_BYTES_MAX (32 * 1024 * 1024)

/* The value limit of that second rendering. */
#define STUB_VALUE_BYTES 512

/* A line stays minified that would grow beyond this: each level indents all that it holds. */
#define PRETTY_BYTES_MAX (256 * 1024 * 1024)

#define MEMBER_FIELDS 3 /* of clairon.member: audience, target, user */

#define TARGET_COLUMNS 0
#define TARGET_NONE (-1)
#define TARGET_DROPPED (-2)
#define TARGET_JSON (-3) /* a type that clairon.watch refuses for targets */

/* JSON or text made once and copied often. */
struct fragment {
    const char *bytes;
    int len;
};

/* One side of a changed row, deformed. */
struct image {
    Datum *values;
    bool *nulls;
    bool present;
    bool whole; /* all columns, not only the key's */
};

/* True for a value that the WAL does not hold: TOASTed, and untouched by the change. */
static inline bool
image_lacks(const struct image *image, int index, int16 typlen)
{
    return typlen == -1 && !image->nulls[index] &&
           VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(image->values[index]));
}

/* One column that a rule shows. */
struct column {
    int index;            /* attribute number - 1 in the relation that is decoded */
    bool is_key;          /* in the replica identity */
    struct fragment name; /* as JSON, with the colon */
    uint8 state;          /* COLUMN_*, of the change being rendered */
    int shown_at;         /* in the packet: name and value as last rendered */
    int shown_len;
    int16 typlen;
    bool typbyval;
    struct encoder *encoder;
};

#define COLUMN_UNCHANGED 0x01
#define COLUMN_TRUNCATED 0x02
#define COLUMN_CHANGED 0x04
#define COLUMN_UNDECODABLE 0x08

/* One that a rule reads for something else. */
struct bound_column {
    int index; /* attribute number - 1 in the relation that is decoded; TARGET_NONE: none */
    bool is_key;
    struct encoder *encoder;
};

/* One part of a target: of a column, or the same for all rows. */
struct target_part {
    struct bound_column column;
    struct fragment constant; /* UTF-8, where there is no column */
};

/* Where a plan's template stands in a spool. */
struct template_mark {
    uint64 generation;
    uint32 number;
};

/* A rule made ready for one relation. */
struct plan {
    const struct rule *rule;
    const char *label; /* for the log */
    uint32 sub;        /* the rule's first sub-ordinal */
    uint64 seed;
    int column_count;
    struct column *columns;
    int target_state; /* TARGET_* */
    int part_count;   /* of a target; more than one: of a composite audience */
    struct target_part parts[LIMIT_PARTS];
    int emitter_state;                             /* TARGET_COLUMNS, _DROPPED or _NONE */
    struct bound_column emitter;                   /* with TARGET_COLUMNS */
    struct fragment front;                         /* then: what stands before it in `heads` */
    struct condition *condition;                   /* NULL: none */
    struct fragment heads[FRAME_OPERATION_NOTIFY]; /* metadata, from "priority" to the timestamp */
    struct fragment routing;                       /* from the payload's end to the targets */
    struct fragment retry;                         /* from the targets' end to the line's */
    struct fragment topic;                         /* UTF-8 */
    struct template_mark *mark;
};

enum relation_kind { RELATION_ORDINARY, RELATION_MEMBER };

/* What is kept for a relation as long as its rules and shape stand. */
struct relation_entry {
    Oid relid; /* hash key */
    bool valid;
    bool has_ancestors;
    enum relation_kind kind;
    MemoryContext context;
    int plan_count;
    struct plan *plans;
    bool has_key; /* a replica identity by key */
    struct {
        int index;
        struct encoder *encoder;
    } members[MEMBER_FIELDS];
    struct image old;
    struct image new;
};

/* One notification of a row, about to be written. */
struct note {
    const struct plan *plan;
    enum frame_operation operation;
    uint32 part;                /* PART_* */
    const struct image *before; /* NULL: null */
    const struct image *after;
    const struct target_list *targets;
    struct fragment emitter; /* as JSON; no bytes: it stands in the plan's heads */
    struct fragment payload; /* rendered before, without images; no bytes: to be rendered */
    bool undecodable;        /* such a payload names a column so */
};

/* What a note frame's head says. */
struct note_head {
    pg_uuid_t id;
    uint64 ordinal;
    uint64 expires_us; /* 0: never */
    TimestampTz expires;
    uint16 flags;
    uint16 retry_limit;
    uint32 ack_timeout; /* with FRAME_ACK_TIMED */
    enum frame_priority priority;
    enum frame_type type;
    enum frame_operation operation;
    enum frame_backoff backoff;
    struct fragment audience;
    struct fragment topic;
    const struct target_list *targets;
};

/* Sub-ordinals that each rule takes; PART_* are places among them. */
#define SUBS_PER_RULE 4
#define PART_MAIN 0
#define PART_LOSERS 1
#define PART_GAINERS 2

struct decoder {
    struct options options;
    struct encode_settings settings;
    MemoryContext context;        /* lives as long as the decoder */
    MemoryContextCallback forget; /* when `context` goes */
    MemoryContext change_context; /* reset for each change */
    MemoryContext rules_context;  /* of `rules` */
    MemoryContext spare_context;  /* for reading the next */
    HTAB *relations;
    struct relation_entry *last_entry; /* one of them, the last looked up; NULL: none */
    struct rule_set *rules;
    struct bounds *bounds;       /* of conditions */
    struct snapshot_stamp stamp; /* what `rules` was read under */
    uint64 system_identifier;
    int guc_level;    /* 0: settings were set for good */
    HTAB *complaints; /* what was denied or guessed, and how often */
    struct {
        uint64 seed;
        const char *what; /* NULL: none yet */
        struct complaint *complaint;
    } last_complaint;
    struct spooler *spooler;
    struct spool *spool; /* of the transaction that comes before its commit; NULL: at it */

    /* of the transaction being decoded */
    int repeats;          /* of idempotency keys */
    uint64 change_number; /* with a spool: since its last record */
    uint64 skipped;       /* since progress was last told */
    uint64 seeds[2];
    uint64 commit_lsn;
    uint64 commit_us;
    TimestampTz commit_time;
    char commit_text[40];
    int commit_text_len;
    bool wrote;
    bool packet_open;
    XLogPageReadCB read_page; /* the reader's own */
    bool holds;               /* packets, past the ends of transactions */
    TimeLineID timeline;      /* of the server, as the stream began */
};

/* transaction.c */
extern void clairon_begin(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);
extern void clairon_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
                           ReorderBufferChange *change);
extern void clairon_truncate(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int count,
                             Relation relations[], ReorderBufferChange *change);
extern void clairon_message(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn,
                            bool transactional, const char *prefix, Size size, const char *message);
extern void clairon_commit(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn);

/* relation.c */
extern void relation_setup(struct decoder *decoder);
/* Reads the rules anew when the catalog in force is not the one they were read under. */
extern void relation_refresh_rules(struct decoder *decoder, TransactionId xid);
extern struct relation_entry *relation_look_up(struct decoder *decoder, Relation relation,
                                               TransactionId xid);
/* ancestors.c: the tables that the relation is a partition of, or inherits from; nearest first */
extern List *ancestors_of(Oid relid);

/* plan_condition.c */
/*
 * Frees what is kept for relations with conditions of this owner, but `except` (NULL: none). They
 * are prepared again for their next changes. False when there are none.
 */
extern bool plan_release(struct decoder *decoder, const struct relation_entry *except, Oid owner);
/* The rule's condition, for rows of `decoded`; map as for condition_new. */
extern struct condition *plan_condition(struct decoder *decoder, const struct relation_entry *entry,
                                        const struct rule *rule, Relation source, const int *map,
                                        Relation decoded);

/* plan.c */
extern void plan_relation(struct decoder *decoder, struct relation_entry *entry, Relation relation);

/* change.c */
extern void change_row(LogicalDecodingContext *ctx, struct relation_entry *entry, Relation relation,
                       ReorderBufferChange *change);
extern void change_truncate(LogicalDecodingContext *ctx, struct relation_entry *entry,
                            const ReorderBufferChange *change);

/* emitter.c: as JSON, in the current memory context; NULL: there is no row */
extern struct fragment emitter_of_row(struct decoder *decoder, const struct plan *plan,
                                      const struct image *image);

/* audience.c: targets live in the current memory context */
/* True when a column of the targets is not in the WAL. */
extern bool audience_is_lacking(const struct plan *plan, const struct image *image);
extern struct target_list *audience_targets(const struct plan *plan, const struct image *image);
extern struct target_list *audience_common(const struct target_list *a,
                                           const struct target_list *b);
extern struct target_list *audience_minus(const struct target_list *a, const struct target_list *b);

/* same.c: for values of which one is compressed or hangs at its row, none on disk */
extern bool same_packed(Datum a, Datum b);

/* note.c */
extern void note_write(LogicalDecodingContext *ctx, const struct note *note);
extern void note_set_expiration(struct decoder *decoder, struct note_head *head,
                                const Interval *ttl);
/* Replaces the minified line that begins at `start` by an indented one, up to PRETTY_BYTES_MAX. */
extern void note_indent(StringInfo out, int start);
/* The timestamp, behind its opening quote, and all up to the payload. */
extern void note_put_times(struct decoder *decoder, StringInfo out, const struct note_head *head);
extern void note_put_targets(const struct encode_settings *settings, StringInfo out,
                             const struct target_list *targets);
/* The fields of the envelope from `first` to `last`. */
extern void note_put_envelope(struct decoder *decoder, StringInfo out,
                              const struct envelope *envelope, enum envelope_field first,
                              enum envelope_field last);

/* page_hook.c */
extern void page_hook_setup(LogicalDecodingContext *ctx);

/* packet.c */
extern void packet_begin_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);
extern void packet_end_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);
/* Makes room for one more line or frame in ctx->out; packet_close ends it. */
extern StringInfo packet_open(LogicalDecodingContext *ctx);
extern void packet_close(LogicalDecodingContext *ctx);
/* Sends what is gathered, if there is anything. */
extern void packet_flush(LogicalDecodingContext *ctx);
/* Appends a note frame's head, returns where it begins: packet_finish_frame fills its length. */
extern int packet_put_note_head(struct decoder *decoder, StringInfo out,
                                const struct note_head *head);
extern void packet_put_member(struct decoder *decoder, StringInfo out, char change, uint32 sub,
                              char *const texts[MEMBER_FIELDS]);
/* For what is known only once the data stands. */
extern void packet_add_flags(StringInfo out, int start, uint16 flags);
extern void packet_finish_frame(StringInfo out, int start);

/* complaint.c: says once, then at each power of ten, what is denied or guessed */
extern void complaint_setup(struct decoder *decoder);
/* `what` is a literal: it is known again by its address. */
extern void complaint_count(struct decoder *decoder, uint64 seed, const char *who,
                            const char *what);
/* With what was seen at the first, tenth .. of them. */
extern void complaint_count_because(struct decoder *decoder, uint64 seed, const char *who,
                                    const char *what, const char *reason);

/* member.c */
extern void member_plan(struct decoder *decoder, struct relation_entry *entry, Relation relation);
extern void member_change(LogicalDecodingContext *ctx, struct relation_entry *entry,
                          Relation relation, ReorderBufferChange *change);
extern void member_write(LogicalDecodingContext *ctx, char change,
                         char *const texts[MEMBER_FIELDS]);

/* notice.c */
extern void notice_write(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, const char *content,
                         Size size);
/* A key of clairon.once or clairon.notify was used before; counted for the relay alone. */
extern void notice_count_repeat(struct decoder *decoder);
/* One that was taken before its commit: its topic, then the message, `size` bytes in all. */
extern void notice_replay(LogicalDecodingContext *ctx, const char *bytes, int topic_len, Size size);

/* stream.c */
extern void stream_init(OutputPluginCallbacks *callbacks);

#endif
