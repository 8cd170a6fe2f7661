/* entry.c: ids of stream entries, the history of a stream, dependencies between streams. */
#include "store/entry.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "store/scripts/constants.h"

struct position
position_from(struct bytes text)
{
    struct position found;

    if (frame_position_parse((const char *)text.at, text.len, &found.lsn, &found.ordinal) != RC_OK)
        return (struct position){0, 0};
    return found;
}

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

enum rc
history_read(struct bytes text, struct history *ret_history)
{
    const char *at = (const char *)text.at;
    const char *const end = at + text.len;
    struct history history = {.count = 0};

    while (history.count < HISTORY_MAX) {
        struct history_generation *generation = &history.generations[history.count++];
        const char *word;
        uint64_t number;

        if (read_number(&at, end, &number) != RC_OK || number > ENTRY_GENERATION_MAX)
            return RC_BAD;
        generation->number = (uint32_t)number;
        if (at == end) {
            *ret_history = history;
            return RC_OK;
        }
        word = ++at; /* the generation's end follows a blank */
        at = memchr(word, ' ', (size_t)(end - word));
        if (word[-1] != ' ' || at == NULL ||
            entry_id_read(word, (size_t)(at - word), &generation->end) != RC_OK)
            return RC_BAD;
        at++;
    }
    return RC_BAD;
}

struct entry_id
history_label(const struct history *history, struct entry_id id)
{
    unsigned i = 0;

    while (i + 1 < history->count && entry_id_less(history->generations[i].end, id))
        i++;
    return history->count > 0 ? entry_id_of(history->generations[i].number, id) : id;
}

enum rc
history_limit(const struct history *history, struct entry_id *id)
{
    const uint32_t number = entry_id_generation(*id);
    const struct entry_id raw = entry_id_raw(*id);

    if (history->count == 0 || entry_id_is_zero(*id) || number == history_current(history))
        return RC_OK;
    for (unsigned i = 0; i + 1 < history->count; i++) {
        const struct history_generation *generation = &history->generations[i];

        if (generation->number != number)
            continue;
        if (entry_id_less(generation->end, raw))
            *id = entry_id_of(number, generation->end);
        return RC_OK;
    }
    if (number / STORE_GENERATION_TAGS > history_current(history) / STORE_GENERATION_TAGS)
        return RC_AGAIN;
    return RC_CLOSED;
}

enum rc
history_translate(const struct history *former, const struct history *history, struct entry_id *id)
{
    const enum rc rc = history_limit(history, id);
    unsigned i = 0;

    if (rc == RC_OK)
        return RC_OK;
    while (i < former->count && former->generations[i].number != entry_id_generation(*id))
        i++;
    while (i < former->count && i-- > 0) {
        struct entry_id end =
            entry_id_of(former->generations[i].number, former->generations[i].end);

        if (history_limit(history, &end) == RC_OK) {
            *id = end;
            return RC_OK;
        }
    }
    return rc;
}

struct entry_id
history_position(const struct history *history, struct entry_id id)
{
    (void)!history_limit(history, &id);
    return entry_id_raw(id);
}

#define PACKED_SIZE 16 /* commit time, id */

void
transactions_add(struct transactions *transactions, uint64_t xid, int64_t commit_us)
{
    if (xid == 0 ||
        transactions->count == sizeof(transactions->items) / sizeof(transactions->items[0]))
        return;
    transactions->items[transactions->count++] = (struct transaction){xid, commit_us};
}

void
transactions_add_packed(struct transactions *transactions, struct bytes packed)
{
    for (size_t at = 0; at + PACKED_SIZE <= packed.len; at += PACKED_SIZE)
        transactions_add(transactions, bytes_get_u64(packed.at + at + 8),
                         (int64_t)bytes_get_u64(packed.at + at));
}

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
