/* data.h: the plain data that all parts of the decoder pass on, and differences between servers. */
#ifndef CLAIRON_DATA_H
#define CLAIRON_DATA_H

#include "postgres.h"

#include "access/transam.h"
#include "replication/reorderbuffer.h"
#include "utils/hsearch.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h" /* in 15, postgres.h contains the macros of varatt.h */
#endif

/* Return the tuples of a change, or NULL. Before 17 the tuples are members of a buffer struct. */
static inline HeapTuple
compat_old_tuple(const ReorderBufferChange *change)
{
#if PG_VERSION_NUM >= 170000
    return change->data.tp.oldtuple;
#else
    return change->data.tp.oldtuple == NULL ? NULL : &change->data.tp.oldtuple->tuple;
#endif
}

static inline HeapTuple
compat_new_tuple(const ReorderBufferChange *change)
{
#if PG_VERSION_NUM >= 170000
    return change->data.tp.newtuple;
#else
    return change->data.tp.newtuple == NULL ? NULL : &change->data.tp.newtuple->tuple;
#endif
}

/*
 * Returns the 64-bit form of an id, as pg_current_xact_id() does. `next` is the next id that will
 * be assigned, from ReadNextFullTransactionId(). `next` must be less than 2^31 ahead of the id.
 */
static inline uint64
full_xid(TransactionId xid, FullTransactionId next)
{
    uint64 epoch = EpochFromFullTransactionId(next);

    if (TransactionIdIsNormal(xid) && xid > XidFromFullTransactionId(next))
        epoch--;
    return epoch << 32 | xid;
}

/* Creates a hash table whose entries start with their key, an OID. */
static inline HTAB *
oid_table_new(const char *name, long count, Size entry_size, MemoryContext context)
{
    HASHCTL control = {.keysize = sizeof(Oid), .entrysize = entry_size, .hcxt = context};

    return hash_create(name, count, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/*
 * Bytes that another structure owns: JSON or another string that is rendered once and copied often.
 */
struct fragment {
    const char *bytes;
    int len;
};

/*
 * The largest array of targets that is read, with its nulls and duplicates, and its largest size. A
 * larger value is rejected before it is detoasted.
 */
#define TARGETS_ELEMENTS_MAX 100000
#define TARGETS_RAW_BYTES_MAX (4 * 1024 * 1024)
/* The most bytes of too long targets that are printed. A row with more has too many targets. */
#define TARGETS_PRINTED_MAX (1024 * 1024)

/* The targets of a notification. */
struct target_list {
    int count;
    char **texts; /* UTF-8, not zero-terminated */
    int *lengths;
    int bytes;     /* the sum of the lengths; set while the list is built */
    int printed;   /* bytes of targets over LIMIT_TARGET */
    bool too_many; /* over LIMIT_TARGETS, LIMIT_TARGETS_BYTES or TARGETS_PRINTED_MAX */
    bool too_long; /* a target over LIMIT_TARGET was left out */
    char *fault;   /* why the targets cannot be read; NULL: no error */
};

/* Allocates the arrays in the current memory context. The caller sets `count`. */
static inline void
target_list_reserve(struct target_list *list, int count)
{
    list->texts = palloc(sizeof(char *) * Max(count, 1));
    list->lengths = palloc(sizeof(int) * Max(count, 1));
}

/* One side of a changed row, old or new. */
struct image {
    Datum *values; /* by attribute number - 1 */
    bool *nulls;
    bool present;
    bool whole; /* all columns, not only the replica identity */
};

/*
 * True when the WAL does not contain the value, because it is TOASTed and the change did not touch
 * it.
 */
static inline bool
image_lacks(const struct image *image, int index, int16 typlen)
{
    return typlen == -1 && !image->nulls[index] &&
           VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(image->values[index]));
}

#endif
