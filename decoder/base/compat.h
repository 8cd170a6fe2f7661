/* compat.h: what differs between PostgreSQL 15 and 18 and is used in more than one place. */
#ifndef CLAIRON_COMPAT_H
#define CLAIRON_COMPAT_H

#include "postgres.h"

#include "replication/reorderbuffer.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h" /* before, postgres.h had its macros */
#endif

/* The tuples of a change, NULL where it has none: before 17 they lie within a buffer's struct. */
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
