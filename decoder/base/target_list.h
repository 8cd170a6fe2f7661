/* target_list.h: the targets of a notification. */
#ifndef CLAIRON_TARGET_LIST_H
#define CLAIRON_TARGET_LIST_H

#include "postgres.h"

/*
 * The largest array of targets that is read, with its nulls and duplicates, and its largest size. A
 * larger value is rejected before it is detoasted.
 */
#define TARGETS_ELEMENTS_MAX 100000
#define TARGETS_RAW_BYTES_MAX (4 * 1024 * 1024)
/* The most bytes of too long targets that are printed. A row with more has too many targets. */
#define TARGETS_PRINTED_MAX (1024 * 1024)

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

#endif
