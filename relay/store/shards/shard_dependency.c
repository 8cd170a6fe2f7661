/* shard_dependency.c: the notifications of other shards that precede a stream entry. */
#include "store/shards/shard_dependency.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void
shard_dependency_text(unsigned shard, const struct position *newest_sent, unsigned shards,
                      char ret_text[SHARD_DEPENDENCY_MAX])
{
    const unsigned first = shard == 0 ? 1 : 0, end = shard == 0 ? shards : 1;
    size_t len = 0;

    ret_text[0] = '\0';
    for (unsigned k = first; k < end; k++) {
        if (newest_sent[k].lsn != 0)
            len += (size_t)snprintf(ret_text + len, SHARD_DEPENDENCY_MAX - len,
                                    "%s%x:%" PRIx64 ".%" PRIx64, len > 0 ? " " : "", k,
                                    newest_sent[k].lsn, newest_sent[k].ordinal);
    }
}

/* Reads digits, and the delimiter `end` unless it is zero. */
static bool
read_hex(struct bytes *text, char end, uint64_t *ret_number)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t number = 0;
    size_t len = 0;

    for (; len < text->len && len < 16; len++) {
        const char *digit = memchr(digits, text->at[len], sizeof(digits) - 1);

        if (digit == NULL)
            break;
        number = number << 4 | (uint64_t)(digit - digits);
    }
    if (len == 0 || (end != '\0' && (len == text->len || text->at[len++] != (unsigned char)end)))
        return false;
    *text = (struct bytes){text->at + len, text->len - len};
    *ret_number = number;
    return true;
}

void
shard_dependency_read(struct bytes text, struct position *needs, unsigned shards)
{
    struct position position;
    uint64_t shard;

    while (read_hex(&text, ':', &shard) && read_hex(&text, '.', &position.lsn) &&
           read_hex(&text, '\0', &position.ordinal)) {
        if (shard < shards)
            position_raise(&needs[shard], position);
        if (text.len > 0 && text.at[0] == ' ')
            text = (struct bytes){text.at + 1, text.len - 1};
    }
}
