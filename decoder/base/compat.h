/* compat.h: differences between PostgreSQL 15 and 18 that several files need. */
#ifndef CLAIRON_COMPAT_H
#define CLAIRON_COMPAT_H

#include "postgres.h"

#include "replication/reorderbuffer.h"
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

#endif
