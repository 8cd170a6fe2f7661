/* client_pos.c: the cursor of a client as a string; notification.h describes the format. */
#include "hub/notification.h"

#include <string.h>

#include "store/store.h"

#define BASE 36
#define MARK '~' /* starts a deferral, and its second shard */
#define MARK_BY_STREAM '!'
#define OPEN 'X' /* starts an open transaction */
#define ENDED 'E'
#define MARKS "XE"
#define PART_ENDS ".~!XE"
#define GENERATION 'G'
#define DIGITS_MAX 13 /* base 36 digits of 64 bits */
/* a dot, a dash and a difference in ms, a dash and a number, and the generation */
#define BESIDE_MAX (2 + 9 + 1 + DIGITS_MAX + 1 + 4)
#define ENDS_MARK_MAX (ENDS_MARK_COUNT * 2 * (1 + DIGITS_MAX) + 1)

_Static_assert(CLIENT_POS_EPOCH_MAX + 1 + ENTRY_ID_TEXT_MAX + (STORE_SHARDS_MAX - 1) * BESIDE_MAX <=
                   CLIENT_POS_MAX,
               "the longest cursor fits");
_Static_assert(CLIENT_POS_EPOCH_MAX + 1 + ENTRY_ID_TEXT_MAX + STORE_SHARDS_MAX + BESIDE_MAX +
                       2 * (1 + BESIDE_MAX) + ENDS_MARK_MAX <=
                   CLIENT_POS_MAX,
               "the longest cursor of a user with a deferral fits");

static const char DIGITS[] = "0123456789abcdefghijklmnopqrstuvwxyz";

static char *
write_number(uint64_t number, char *at)
{
    char digits[DIGITS_MAX];
    size_t len = 0;

    do {
        digits[len++] = DIGITS[number % BASE];
        number /= BASE;
    } while (number > 0);
    while (len > 0)
        *at++ = digits[--len];
    return at;
}

/* The difference is short, because the stream entries of two shards are close in time. */
static char *
write_relative(struct entry_id of_shared, struct entry_id of_shard, char *at)
{
    const struct entry_id shared = entry_id_raw(of_shared), id = entry_id_raw(of_shard);
    const uint32_t generation = entry_id_generation(of_shard);
    bool is_earlier = id.ms < shared.ms;

    if (is_earlier)
        *at++ = '-';
    at = write_number(is_earlier ? shared.ms - id.ms : id.ms - shared.ms, at);
    if (id.seq > 0) {
        *at++ = '-';
        at = write_number(id.seq, at);
    }
    if (generation != entry_id_generation(of_shared)) {
        *at++ = GENERATION;
        at = write_number(generation, at);
    }
    return at;
}

static char *
write_deferral(struct entry_id shared, const struct deferral *deferral, char *at)
{
    *at++ = deferral->by_stream ? MARK_BY_STREAM : MARK;
    at = write_relative(shared, deferral->from.shared, at);
    if (entry_id_is_zero(deferral->from.own))
        return at;
    *at++ = MARK;
    return write_relative(shared, deferral->from.own, at);
}

void
client_pos_text(const char *epoch, const struct entry_id *heads, unsigned shards,
                const struct deferral *deferral, char ret_text[CLIENT_POS_MAX])
{
    size_t len = strnlen(epoch, CLIENT_POS_EPOCH_MAX);
    char *at = ret_text + len + 1;

    memcpy(ret_text, epoch, len);
    ret_text[len] = '.';
    entry_id_text(heads[0], at);
    at += strlen(at);
    while (shards > 1 && entry_id_is_zero(heads[shards - 1]))
        shards--;
    for (unsigned i = 1; i < shards; i++) {
        *at++ = '.';
        if (!entry_id_is_zero(heads[i]))
            at = write_relative(heads[0], heads[i], at);
    }
    if (deferral != NULL)
        at = write_deferral(heads[0], deferral, at);
    *at = '\0';
}

void
client_pos_mark(char text[CLIENT_POS_MAX], const struct ends_mark *mark)
{
    char *at = text + strlen(text);

    for (unsigned i = 0; i < mark->count; i++) {
        *at++ = OPEN;
        at = write_number(mark->open[i].xid, at);
        *at++ = '-';
        at = write_number(mark->open[i].lsn, at);
    }
    if (mark->is_ended)
        *at++ = ENDED;
    *at = '\0';
}

static enum rc
read_number(const char **at, const char *end, uint64_t *ret_number)
{
    const char *start = *at;
    const char *digit;
    uint64_t number = 0;

    for (; *at < end && (digit = memchr(DIGITS, **at, BASE)) != NULL; (*at)++) {
        if (__builtin_mul_overflow(number, BASE, &number) ||
            __builtin_add_overflow(number, (uint64_t)(digit - DIGITS), &number))
            return RC_BAD;
    }
    *ret_number = number;
    return *at > start ? RC_OK : RC_BAD;
}

static enum rc
read_relative(struct entry_id of_shared, const char *at, const char *end, struct entry_id *ret_id)
{
    const struct entry_id shared = entry_id_raw(of_shared);
    struct entry_id id = {0, 0};
    uint64_t generation = entry_id_generation(of_shared);
    bool is_earlier = at < end && *at == '-';

    if (at == end) {
        *ret_id = id;
        return RC_OK;
    }
    at += is_earlier;
    if (read_number(&at, end, &id.ms) != RC_OK)
        return RC_BAD;
    if (is_earlier ? __builtin_sub_overflow(shared.ms, id.ms, &id.ms)
                   : __builtin_add_overflow(shared.ms, id.ms, &id.ms))
        return RC_BAD;
    if (at < end && *at == '-' && (at++, read_number(&at, end, &id.seq)) != RC_OK)
        return RC_BAD;
    if (at < end && (*at++ != GENERATION || read_number(&at, end, &generation) != RC_OK))
        return RC_BAD;
    if (at != end || generation > ENTRY_GENERATION_MAX || id.ms >> ENTRY_MS_BITS != 0)
        return RC_BAD;
    *ret_id = entry_id_of((uint32_t)generation, id);
    return RC_OK;
}

/* Reads from the deferral's mark, or from `end`: no deferral. */
static enum rc
read_deferral(struct cursor cursor, const char *at, const char *end, struct deferral *ret_deferral)
{
    struct deferral deferral = {.from = cursor, .by_stream = *at == MARK_BY_STREAM};
    const char *own;

    if (at != end) {
        own = strchr(at + 1, MARK);
        if (own == at + 1 || at + 1 == end ||
            read_relative(cursor.shared, at + 1, own != NULL ? own : end, &deferral.from.shared) !=
                RC_OK)
            return RC_BAD;
        deferral.from.own = (struct entry_id){0, 0};
        if (own != NULL && (own + 1 == end || read_relative(cursor.shared, own + 1, end,
                                                            &deferral.from.own) != RC_OK))
            return RC_BAD;
    }
    *ret_deferral = deferral;
    return RC_OK;
}

/* Reads from `at`, where the rest of the cursor ends. */
static enum rc
read_mark(const char *at, struct ends_mark *ret_mark)
{
    const char *end = at + strlen(at);
    struct ends_mark mark = {.is_ended = end > at && end[-1] == ENDED};

    end -= mark.is_ended;
    while (at < end) {
        struct commit *open = &mark.open[mark.count];

        if (mark.count++ == ENDS_MARK_COUNT || *at++ != OPEN ||
            read_number(&at, end, &open->xid) != RC_OK || at == end || *at++ != '-' ||
            read_number(&at, end, &open->lsn) != RC_OK || open->xid == 0 || open->lsn == 0)
            return RC_BAD;
    }
    *ret_mark = mark;
    return RC_OK;
}

enum rc
client_pos_read_mark(const char *text, struct ends_mark *ret_mark)
{
    return read_mark(text + strcspn(text, MARKS), ret_mark);
}

enum rc
client_pos_read(const char *text, const char *epoch, unsigned shards, unsigned own,
                struct cursor *ret_cursor, struct deferral *ret_deferral)
{
    const char *dot = strchr(text, '.');
    const char *at = dot != NULL ? dot + 1 : text;
    const char *end = at + strcspn(at, PART_ENDS);
    const char *marks = at + strcspn(at, MARKS); /* not those of an invalid epoch */
    struct ends_mark mark;
    struct cursor cursor = {.own = {0, 0}};
    struct deferral deferral;

    if (dot == NULL || entry_id_read(at, (size_t)(end - at), &cursor.shared) != RC_OK)
        return RC_BAD;
    for (unsigned i = 1; *end == '.'; i++) {
        struct entry_id id;

        at = end + 1;
        end = at + strcspn(at, PART_ENDS);
        if (i >= shards || read_relative(cursor.shared, at, end, &id) != RC_OK)
            return RC_BAD;
        if (i == own)
            cursor.own = id;
    }
    if (read_deferral(cursor, end, marks, &deferral) != RC_OK || read_mark(marks, &mark) != RC_OK)
        return RC_BAD;
    if ((size_t)(dot - text) != strlen(epoch) || strncmp(text, epoch, strlen(epoch)) != 0)
        return RC_CLOSED;
    *ret_cursor = cursor;
    *ret_deferral = deferral;
    return RC_OK;
}
