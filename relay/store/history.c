/* history.c: the generations of a shard's stream. */
#include "store/history.h"

#include <string.h>

#include "store/scripts/constants.h"

/* Returns the end of the next word of the text. */
static const char *
word_end(const char *at, const char *end)
{
    const char *space = memchr(at, ' ', (size_t)(end - at));

    return space != NULL ? space : end;
}

static bool
read_generation(const char *at, const char *end, uint32_t *ret_number)
{
    uint32_t number = 0;

    if (at == end)
        return false;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        number = number * 10 + (uint32_t)(*at - '0');
        if (number > ENTRY_GENERATION_MAX)
            return false;
    }
    *ret_number = number;
    return true;
}

enum rc
history_read(struct bytes text, struct history *ret_history)
{
    const char *at = (const char *)text.at;
    const char *const end = at + text.len;
    struct history history = {.count = 0};

    while (history.count < HISTORY_MAX) {
        struct history_generation *generation = &history.generations[history.count++];
        const char *word = word_end(at, end);

        if (!read_generation(at, word, &generation->number))
            return RC_BAD;
        if (word == end) {
            *ret_history = history;
            return RC_OK;
        }
        at = word + 1;
        word = word_end(at, end);
        if (word == end || entry_id_read(at, (size_t)(word - at), &generation->end) != RC_OK)
            return RC_BAD;
        at = word + 1;
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
