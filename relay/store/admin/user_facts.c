/*
 * user_facts.c: records the gaps that were announced to users, and reads what the store knows of a
 * notification and a user, with the gap that covers it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/admin.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/store.h"
#include "wire/frame.h"

/* ---- recording a gap */

#define GAP_TEXT_MAX (4 * ENTRY_ID_TEXT_MAX + STORE_CONN_TEXT + 16)

static const struct shard_request_kind gap_kind = {.failure = "could not record a gap",
                                                   .is_valid = reply_is_integer};

/* "trimmed 1795230000000-0 0-0 1795230000005-0 0-0 a1b2c3d4-1": in both streams, from and to. */
void
store_record_gap(struct store *store, const char *user, const char *conn, struct cursor from,
                 struct cursor to, const char *why)
{
    struct shard *shard;
    struct arguments arguments = {.argc = 0};
    struct shard_request *request;
    char ids[4][ENTRY_ID_TEXT_MAX], text[GAP_TEXT_MAX];

    if (!store->is_up)
        return;
    shard = &store->shards[store_shard_of(store, user)];
    entry_id_text(entry_id_raw(from.shared), ids[0]);
    entry_id_text(entry_id_raw(from.own), ids[1]);
    entry_id_text(entry_id_raw(to.shared), ids[2]);
    entry_id_text(entry_id_raw(to.own), ids[3]);
    snprintf(text, sizeof(text), "%s %s %s %s %s %s", why, ids[0], ids[1], ids[2], ids[3], conn);
    request = shard_request_new(sizeof(*request), store, &gap_kind);
    shard_arguments(shard, &arguments);
    argument(&arguments, user);
    argument(&arguments, store->script_settings.retention);
    argument(&arguments, text);
    shard_request_send_script(request, shard, STORE_SCRIPT_gap, 1, &arguments);
    if (shard_request_await(request) != RC_OK)
        return; /* an explanation will lack the gap */
}

/* ---- reading */

static enum fact
fact_of(const struct redisReply *reply)
{
    struct bytes text = reply_bytes(reply);

    return text.len == 0 ? FACT_UNKNOWN : text.at[0] == '1' ? FACT_YES : FACT_NO;
}

static int64_t
number_of(const struct redisReply *reply)
{
    const char *text = reply_text(reply);

    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

/* Removes and returns the first word of *text; "" at the end. */
static struct bytes
next_word(const char **text)
{
    struct bytes word = {(const unsigned char *)*text, strcspn(*text, " ")};

    *text += word.len;
    *text += strspn(*text, " ");
    return word;
}

static bool
copy_word(const char **text, char *ret_word, size_t room)
{
    struct bytes word = next_word(text);

    if (word.len == 0 || word.len >= room)
        return false;
    memcpy(ret_word, word.at, word.len);
    ret_word[word.len] = '\0';
    return true;
}

/* "1795230000000 trimmed 1-0 0-0 5-0 0-0 CONN": see store_record_gap. False: of another format. */
static bool
read_gap(const char *text, struct user_gap *ret_gap)
{
    struct user_gap gap = {.at = ""};
    struct entry_id *const ids[] = {&gap.from.shared, &gap.from.own, &gap.to.shared, &gap.to.own};
    char ms[24];

    if (text == NULL || !copy_word(&text, ms, sizeof(ms)) ||
        !copy_word(&text, gap.why, sizeof(gap.why)))
        return false;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct bytes word = next_word(&text);

        if (word.len == 0 || entry_id_read((const char *)word.at, word.len, ids[i]) != RC_OK)
            return false;
    }
    if (!copy_word(&text, gap.conn, sizeof(gap.conn)))
        return false;
    clock_text_ms(strtoll(ms, NULL, 10), gap.at);
    *ret_gap = gap;
    return true;
}

void
user_facts_read(const struct redisReply *reply, struct user_facts *ret_facts)
{
    struct user_facts facts = {.relays = -1};
    struct bytes state = reply_bytes(reply_at(reply, 0));

    if (reply_count(reply) >= 8) {
        facts.is_waiting = bytes_equal_text(state, "0");
        facts.acked_ms = number_of(reply_at(reply, 0));
        facts.knows_pairs = fact_of(reply_at(reply, 1)) == FACT_YES;
        facts.is_open_ended = fact_of(reply_at(reply, 2));
        facts.retries = (int)number_of(reply_at(reply, 3));
        facts.relays = (int)number_of(reply_at(reply, 4));
        facts.is_member = fact_of(reply_at(reply, 5));
        facts.is_in_error_log = fact_of(reply_at(reply, 6));
        facts.is_pending = fact_of(reply_at(reply, 7)) == FACT_YES;
    }
    for (size_t i = 8; i < reply_count(reply) && facts.gaps.count < USER_GAPS_MAX; i++)
        if (read_gap(reply_text(reply_at(reply, i)), &facts.gaps.items[facts.gaps.count]))
            facts.gaps.count++;
    *ret_facts = facts;
}

/* True if the id of a stream entry that was trimmed is in the range, by the time of the commit. */
static bool
covers_time(struct entry_id from, struct entry_id to, uint64_t ms)
{
    return from.ms <= ms && ms <= to.ms && entry_id_less(from, to);
}

static bool
covers(const struct user_gap *gap, bool is_shared, struct entry_id id)
{
    const struct entry_id from = is_shared ? gap->from.shared : gap->from.own;
    const struct entry_id to = is_shared ? gap->to.shared : gap->to.own;

    return entry_id_less(from, id) && !entry_id_less(to, id);
}

static bool
has_expiration(const struct trace *trace)
{
    struct frame frame;

    return frame_parse_header(trace->route, &frame) != RC_OK ||
           frame.as.notification.expires_us != 0;
}

void
user_facts_find_gap(struct trace *trace, const char *id, unsigned shard, unsigned own)
{
    struct user_facts *facts = &trace->facts;
    const struct trace_event *stored = trace_find_stage(trace, "stored");
    const uint64_t ms = (uint64_t)frame_uuid_ms(id);
    const bool is_gone = trace_is_empty(trace);
    struct entry_id entry = {0, 0};

    if (!is_gone &&
        (stored == NULL || (shard != 0 && shard != own) ||
         entry_id_read((const char *)stored->detail.at, stored->detail.len, &entry) != RC_OK))
        return;
    for (size_t i = 0; i < facts->gaps.count && !facts->has_gap; i++) {
        const struct user_gap *gap = &facts->gaps.items[i];

        if (strcmp(gap->why, "expired") == 0 && !has_expiration(trace))
            continue;
        facts->has_gap = is_gone ? covers_time(gap->from.shared, gap->to.shared, ms) ||
                                       covers_time(gap->from.own, gap->to.own, ms)
                                 : covers(gap, shard == 0, entry);
        facts->gap = *gap;
    }
}
