/* entry.c: converts the ids of stream entries between strings and numbers. */
#include "store/entry.h"

#include <stddef.h>

#include "store/scripts/constants.h"

static enum rc
read_number(const char **at, const char *end, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *start = *at;

    while (*at < end && **at >= '0' && **at <= '9') {
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(**at - '0'), &number))
            return RC_BAD;
        (*at)++;
    }
    if (*at == start)
        return RC_BAD;
    *ret_number = number;
    return RC_OK;
}

uint64_t
entry_id_score(struct entry_id id)
{
    const uint64_t last = STORE_SCORES_PER_MS - 1;

    return entry_id_raw(id).ms * STORE_SCORES_PER_MS + (id.seq < last ? id.seq : last);
}

struct entry_id
entry_id_of_score(uint64_t score)
{
    return (struct entry_id){score / STORE_SCORES_PER_MS, score % STORE_SCORES_PER_MS};
}

enum rc
entry_id_read(const char *text, size_t len, struct entry_id *ret_id)
{
    const char *at = text;
    const char *end = text + len;
    struct entry_id id;

    if (read_number(&at, end, &id.ms) != RC_OK || at == end || *at++ != '-' ||
        read_number(&at, end, &id.seq) != RC_OK || at != end)
        return RC_BAD;
    *ret_id = id;
    return RC_OK;
}

void
entry_id_text(struct entry_id id, char ret_text[ENTRY_ID_TEXT_MAX])
{
    char *at = bytes_decimal(id.ms, ret_text);

    *at++ = '-';
    *bytes_decimal(id.seq, at) = '\0';
}
