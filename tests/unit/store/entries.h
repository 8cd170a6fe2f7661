/* entries.h: builds stream entries for tests. */
#ifndef CLAIRON_TESTS_UNIT_ENTRIES_H
#define CLAIRON_TESTS_UNIT_ENTRIES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/heads.h"
#include "tests/unit/store/replies.h"

static inline void
put_field(redisReply *fields, size_t *at, const char *name, const void *value, size_t len)
{
    fields->element[(*at)++] = text(name, strlen(name));
    fields->element[(*at)++] = text(value, len);
}

/* `after` is empty without a dependency. */
static inline redisReply *
make_entry(unsigned number, uint64_t of_lsn, const char *after, bool is_retry)
{
    unsigned char head[HEAD_FOR_ALL];
    redisReply *entry = array(2), *fields = array(10);
    size_t at = 0;
    char id[24];

    head_for_all(head);
    for (unsigned i = 0; i < 8; i++)
        head[FRAME_AT_COMMIT_LSN + i] = (unsigned char)(of_lsn >> (56 - 8 * i));
    head[FRAME_AT_ORDINAL + 7] = 1;
    snprintf(id, sizeof(id), "%u-0", number);
    entry->element[0] = text(id, strlen(id));
    entry->element[1] = fields;
    put_field(fields, &at, "id", "00000000-0000-8000-8000-000000000001", 36);
    put_field(fields, &at, "data", "{}", 2);
    put_field(fields, &at, "route", head, sizeof(head));
    if (after[0] != '\0')
        put_field(fields, &at, "after", after, strlen(after));
    if (is_retry)
        put_field(fields, &at, "retry_users", "\0\2u1", 4);
    fields->elements = at;
    return entry;
}

#endif
