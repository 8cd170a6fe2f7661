/* decoder.h: the options and the state of one decoding session. */
#ifndef CLAIRON_DECODER_H
#define CLAIRON_DECODER_H

#include "postgres.h"

#include "access/xlogreader.h"
#include "lib/ilist.h"
#include "nodes/pg_list.h"
#include "replication/logical.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "base/account.h"
#include "encode/encode.h"
#include "rules/rules.h"

/* The options of START_REPLICATION and of pg_recvlogical -o. */
struct options {
    bool framed;
    bool numeric_as_number;
    bool pretty;
    bool streaming;       /* streams large transactions before their commit */
    char *topic_prefix;   /* prefix in the server's encoding; "": no prefix */
    List *include_tables; /* list of struct table_pattern */
    List *exclude_tables;
    int64 max_value_bytes;
    int64 max_row_bytes; /* of JSON, for each of `before` and `after` */
    int condition_timeout_ms;
    struct account_limits owner;
};

#define MAX_VALUE_BYTES_DEFAULT (1024 * 1024)
#define MAX_VALUE_BYTES_CEILING (16 * 1024 * 1024)
#define MAX_ROW_BYTES_DEFAULT (8 * 1024 * 1024)
#define MAX_ROW_BYTES_FLOOR 1024
#define MAX_ROW_BYTES_CEILING (16 * 1024 * 1024)

/* Fills *ret_options in the current memory context. Raises an error that lists the valid values. */
extern void options_read(struct options *ret_options, List *given, const char *database);

/* True when one of the patterns matches the table. */
extern bool options_match(List *patterns, const char *schema, const char *table);

/* Identifies the catalog state of a historic snapshot. Equal stamps mean equal states. */
struct snapshot_stamp {
    bool valid;
    TransactionId xmin;
    TransactionId xmax;
    uint32 committed;
    CommandId command;
    TransactionId own; /* the transaction of `command`, unless that is the first */
};

struct decoder {
    struct options options;
    struct encode_settings settings;
    MemoryContext context;             /* deleted with the decoder */
    MemoryContextCallback on_delete;   /* called when `context` is deleted */
    MemoryContext change_context;      /* reset for each change */
    MemoryContext rules_context;       /* contains `rules` */
    MemoryContext spare_context;       /* will contain the next `rules` */
    HTAB *relations;                   /* struct relation_entry, by OID */
    struct relation_entry *last_entry; /* result of the last lookup, or NULL */
    HTAB *plan_sets;                   /* struct plan_set *, by digest */
    dlist_head plan_sets_used;         /* the same, most recently used first */
    uint64 catalog_number;             /* changes with each catalog state */
    struct inheritance *inheritance;
    struct accounts *accounts;
    uint64 transaction_number; /* counts decoded transactions, and parts of streamed ones */
    const char *slot;
    struct rule_set *rules; /* NULL: not read yet */
    struct rule_writes rule_writes;
    TransactionId own_xid; /* the transaction that wrote the rules of `own_relids` */
    List *own_relids;
    struct sandbox *sandbox;      /* evaluates conditions */
    struct snapshot_stamp stamp;  /* the snapshot in which `rules` was read */
    struct snapshot_stamp newest; /* the newest one so far */
    bool is_past;                 /* the current one is older */
    uint64 past_number;           /* changes when PostgreSQL's caches may be of another state */
    uint64 system_identifier;
    int guc_level;             /* 0: settings apply to the whole session */
    struct warnings *warnings; /* counters of warning_throttle.c */
    struct spooler *spooler;
    struct spool *spool; /* spool of the streamed transaction; NULL: decoding at the commit */

    /* State of the transaction being decoded. */
    int repeats;          /* number of repeated idempotency keys */
    uint64 change_number; /* number of changes; with a spool, since the last record */
    uint64 skipped;       /* changes since the last write or progress message */
    uint64 seeds[2];
    uint64 xid; /* 64-bit id of the top-level transaction */
    uint64 commit_lsn;
    uint64 commit_us;
    TimestampTz commit_time;
    char commit_text[40];
    int commit_text_len;
    bool wrote;
    bool write_open;
    int held_bytes;                /* of lines in the server's send buffer */
    struct annotation *annotation; /* of the next changes; NULL: none, or the changes are spooled */
    MemoryContext annotation_context; /* contains `annotation`; NULL: there was none yet */
    XLogPageReadCB read_page;         /* the server's page reader */
    bool buffers_frames;              /* frames are buffered across transactions */
    bool holds_lines;                 /* lines.c may delay them */
    TimeLineID timeline;              /* the server's timeline when the stream started */
};

#endif
