/* target_list.h: the targets of a notification. */
#ifndef CLAIRON_TARGET_LIST_H
#define CLAIRON_TARGET_LIST_H

#include "postgres.h"

/* The largest number of combinations of a composite audience's arrays. */
#define COMBINATIONS_MAX 10000

/* The largest number of targets of one notification. */
#define TARGETS_MAX 100000

/* A larger column value exceeds a limit in any case, so it is rejected before it is detoasted. */
#define TARGETS_RAW_BYTES_MAX (32 * 1024 * 1024)

struct target_list {
    int count;
    char **texts; /* UTF-8, not zero-terminated */
    int *lengths;
    bool too_many;
    char *fault; /* why the targets cannot be read; NULL: no error */
};

/* Allocates the arrays in the current memory context. The caller sets `count`. */
static inline void
target_list_reserve(struct target_list *list, int count)
{
    list->texts = palloc(sizeof(char *) * Max(count, 1));
    list->lengths = palloc(sizeof(int) * Max(count, 1));
}

#endif
