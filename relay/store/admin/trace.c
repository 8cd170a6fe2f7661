/*
 * trace.c: the trace of one notification: committed, stored, sent, acknowledged, retried; with what
 * the store knows of a user, and the gaps that were announced to the user.
 */
#include "store/admin/admin_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "decoder/protocol/envelope.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/store.h"
#include "wire/frame.h"

#define GAP_TEXT_MAX (4 * ENTRY_ID_TEXT_MAX + STORE_CONN_TEXT + 16)

/* Removes and returns the first word of *line. */
static struct bytes
next_word(struct bytes *line)
{
    const unsigned char *blank = line->len > 0 ? memchr(line->at, ' ', line->len) : NULL;
    size_t len = blank != NULL ? (size_t)(blank - line->at) : line->len;
    struct bytes word = {line->at, len};

    len += blank != NULL;
    *line = (struct bytes){line->at + len, line->len - len};
    return word;
}

static int64_t
to_number(struct bytes word)
{
    char text[24] = "";

    if (word.len < sizeof(text))
        snprintf(text, sizeof(text), "%.*s", (int)word.len, (const char *)word.at);
    return strtoll(text, NULL, 10);
}

static bool
is_stage(const struct trace_event *event, const char *name)
{
    return bytes_equal_text(event->stage, name);
}

/* "sent 1732170000000 0 - u1": the user is last, because it may contain blanks. */
static struct trace_event
read_event(struct bytes line)
{
    struct trace_event event = {.attempt = 0};

    event.stage = next_word(&line);
    clock_text_ms(to_number(next_word(&line)), event.at);
    event.attempt = (int)to_number(next_word(&line));
    event.detail = next_word(&line);
    event.user = is_stage(&event, "stored") ? (struct bytes){NULL, 0} : line;
    return event;
}

/* Reads the commit time from the metadata. */
static bool
read_commit(struct bytes data, struct trace_event *event)
{
    struct bytes at = notification_metadata(data, ENVELOPE_TIMESTAMP_TEXT);

    if (at.len == 0 || at.len >= CLOCK_TEXT_MAX)
        return false;
    *event =
        (struct trace_event){.stage = bytes_of_text("committed"), .detail = bytes_of_text("-")};
    snprintf(event->at, sizeof(event->at), "%.*s", (int)at.len, (const char *)at.at);
    return true;
}

static bool
read_stored(struct bytes entry, struct trace_event *event)
{
    struct entry_id id;

    if (entry.len == 0 || entry_id_read((const char *)entry.at, entry.len, &id) != RC_OK)
        return false;
    *event = (struct trace_event){.stage = bytes_of_text("stored"), .detail = entry};
    clock_text_ms((int64_t)id.ms, event->at);
    return true;
}

/*
 * Used if the notification was trimmed from the stream. The id of a row's notification is a UUID of
 * version 8, which begins with the commit time. Other ids have version 7 and begin with the request
 * time.
 */
static bool
read_commit_of_id(const char *id, struct trace_event *event)
{
    if (id[14] != '8')
        return false;
    *event =
        (struct trace_event){.stage = bytes_of_text("committed"), .detail = bytes_of_text("-")};
    clock_text_ms(frame_uuid_ms(id), event->at);
    return true;
}

/* ---- a user */

static enum fact
fact_of(const struct redisReply *reply)
{
    struct bytes text = reply_bytes(reply);

    return text.len == 0 ? FACT_UNKNOWN : text.at[0] == '1' ? FACT_YES : FACT_NO;
}

static bool
copy_word(struct bytes *text, char *ret_word, size_t room)
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
read_gap(struct bytes text, struct user_gap *ret_gap)
{
    struct user_gap gap = {.at = ""};
    struct entry_id *const ids[] = {&gap.from.shared, &gap.from.own, &gap.to.shared, &gap.to.own};
    char ms[24];

    if (!copy_word(&text, ms, sizeof(ms)) || !copy_word(&text, gap.why, sizeof(gap.why)))
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
        facts.acked_ms = to_number(reply_bytes(reply_at(reply, 0)));
        facts.knows_pairs = fact_of(reply_at(reply, 1)) == FACT_YES;
        facts.is_open_ended = fact_of(reply_at(reply, 2));
        facts.retries = (int)to_number(reply_bytes(reply_at(reply, 3)));
        facts.relays = (int)to_number(reply_bytes(reply_at(reply, 4)));
        facts.is_member = fact_of(reply_at(reply, 5));
        facts.is_in_error_log = fact_of(reply_at(reply, 6));
        facts.is_pending = fact_of(reply_at(reply, 7)) == FACT_YES;
    }
    for (size_t i = 8; i < reply_count(reply) && facts.gaps.count < USER_GAPS_MAX; i++)
        if (read_gap(reply_bytes(reply_at(reply, i)), &facts.gaps.items[facts.gaps.count]))
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

/* ---- a trace */

static enum rc
read_trace(const struct redisReply *reply, struct bytes data, const char *id,
           struct trace *ret_trace)
{
    struct trace trace = {.event_count = 0};
    const struct redisReply *events, *waiting;

    if (!reply_is_array(reply, 4) || !reply_is_array(reply_at(reply, 2), 0) ||
        !reply_is_array(reply_at(reply, 3), 0))
        return RC_BAD;
    events = reply_at(reply, 2);
    waiting = reply_at(reply, 3);
    trace.data = data;
    trace.route = reply_bytes(reply_at(reply, 5));
    trace.events = memory_new((reply_count(events) + 2) * sizeof(*trace.events));
    if (trace.data.len > 0)
        trace.event_count += read_commit(trace.data, &trace.events[trace.event_count]);
    else if (reply_count(events) > 0)
        trace.event_count += read_commit_of_id(id, &trace.events[trace.event_count]);
    if (reply_count(events) == 0) /* the notification needs no ack, or its events have expired */
        trace.event_count +=
            read_stored(reply_bytes(reply_at(reply, 1)), &trace.events[trace.event_count]);
    for (size_t i = 0; i < reply_count(events); i++)
        trace.events[trace.event_count++] = read_event(reply_bytes(reply_at(events, i)));
    trace.waiting = memory_new((reply_count(waiting) + 1) * sizeof(*trace.waiting));
    while (trace.waiting_count < reply_count(waiting)) {
        trace.waiting[trace.waiting_count] = reply_bytes(reply_at(waiting, trace.waiting_count));
        trace.waiting_count++;
    }
    user_facts_read(reply_at(reply, 6), &trace.facts);
    *ret_trace = trace;
    return RC_OK;
}

enum rc
trace_read(const struct redisReply *reply, const char *id, struct trace *ret_trace)
{
    return read_trace(reply, reply_bytes(reply_at(reply, 0)), id, ret_trace);
}

void
trace_free(struct trace *trace)
{
    free(trace->events);
    free(trace->waiting);
    *trace = (struct trace){.event_count = 0};
}

bool
trace_event_has_conn(const struct trace_event *event)
{
    return (is_stage(event, "sent") || is_stage(event, "unsubscribed")) &&
           !bytes_equal_text(event->detail, "-");
}

static enum rc
write_event(const struct trace_event *event, bool is_first, struct buffer *out)
{
    const char *stage = is_stage(event, "redriven") ? "retried" : (const char *)event->stage.at;
    int len = is_stage(event, "redriven") ? 7 : (int)event->stage.len;
    enum rc rc = buffer_addf(out, "%s{\"at\":\"%s\",\"stage\":\"%.*s\"", is_first ? "" : ",",
                             event->at, len, stage);

    if (rc == RC_OK && event->user.len > 0) {
        rc = buffer_addf(out, ",\"attempt\":%d,\"user\":", event->attempt);
        if (rc == RC_OK)
            rc = buffer_add_json(out, (const char *)event->user.at, event->user.len);
    }
    if (rc == RC_OK && is_stage(event, "errored")) {
        rc = buffer_addf(out, ",\"reason\":\"%.*s\"", (int)event->detail.len,
                         (const char *)event->detail.at);
    }
    if (rc == RC_OK && trace_event_has_conn(event)) {
        rc = buffer_addf(out, ",\"conn\":");
        if (rc == RC_OK)
            rc = buffer_add_json(out, (const char *)event->detail.at, event->detail.len);
    }
    return rc == RC_OK ? buffer_addf(out, "}") : rc;
}

static enum rc
write_waiting(const struct trace *trace, struct buffer *out)
{
    enum rc rc = buffer_addf(out, "],\"waiting\":[");

    for (size_t i = 0; i < trace->waiting_count && rc == RC_OK; i++) {
        rc = i > 0 ? buffer_add(out, ",", 1) : RC_OK;
        if (rc == RC_OK)
            rc = buffer_add_json(out, (const char *)trace->waiting[i].at, trace->waiting[i].len);
    }
    return rc == RC_OK ? buffer_addf(out, "]}") : rc;
}

enum rc
trace_write_json(const struct trace *trace, const char *id, struct buffer *out)
{
    bool is_first = true;
    enum rc rc = buffer_addf(out, "{\"id\":\"%s\",\"notification\":", id);

    if (rc == RC_OK)
        rc = trace->data.len > 0 ? buffer_add(out, trace->data.at, trace->data.len)
                                 : buffer_addf(out, "null");
    if (rc == RC_OK)
        rc = buffer_addf(out, ",\"events\":[");
    for (size_t i = 0; i < trace->event_count && rc == RC_OK; i++) {
        if (is_stage(&trace->events[i], "nacked"))
            continue; /* a request that was not stored is not an event */
        rc = write_event(&trace->events[i], is_first, out);
        is_first = false;
    }
    return rc == RC_OK ? write_waiting(trace, out) : rc;
}

/*
 * A search for a notification. Only one shard has it, so the shards are queried one after another.
 * A shard that does not reply does not end the search. The shard of the user, which has the user's
 * gaps, is queried first.
 */
struct trace_search {
    struct store *store;
    store_traced *done;
    void *ctx;
    char id[FRAME_UUID_TEXT + 1];
    char *user;     /* whose facts are read; NULL: none */
    unsigned first; /* the shard that is queried first */
    unsigned next;  /* number of the next query */
    unsigned end;
    struct user_gaps gaps; /* of the user */
    bool is_incomplete;    /* a shard did not reply */
};

struct trace_request {
    struct shard_request request;
    struct trace_search *search;
    struct trace trace;
    unsigned shard;
    const struct redisReply *reply; /* to the script, while its large entry is read */
};

/* Adds what the script has not read of a large entry. */
static void
add_large(struct trace *trace, const struct redisReply *fields)
{
    trace->route = reply_field(fields, "route");
    if (trace->facts.is_open_ended == FACT_UNKNOWN)
        trace->facts.is_open_ended =
            reply_field(fields, "open_ended").at != NULL ? FACT_YES : FACT_NO;
}

static bool
on_trace_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct trace_request *trace = (struct trace_request *)request;
    const char *id = trace->search->id, *large = reply_text(reply_at(reply, 4));
    const struct redisReply *fields = reply_at(reply_at(reply, 0), 1);

    if (trace->reply != NULL) { /* without the entry if it was trimmed meanwhile */
        const bool is_same = bytes_equal_text(reply_field(fields, "id"), id);

        if (read_trace(trace->reply,
                       is_same ? reply_field(fields, "data") : (struct bytes){NULL, 0}, id,
                       &trace->trace) != RC_OK)
            return false;
        if (is_same)
            add_large(&trace->trace, fields);
        return true;
    }
    if (large == NULL || large[0] == '\0')
        return trace_read(reply, id, &trace->trace) == RC_OK;
    shard_request_read_entry(request, shard, large);
    trace->reply = shard_request_keep_reply(request, reply);
    return true;
}

static bool search_next(struct trace_search *search);

static void
add_facts(const struct trace_search *search, struct trace_request *trace)
{
    struct user_facts *facts = &trace->trace.facts;

    facts->gaps = search->gaps;
    user_facts_find_gap(&trace->trace, search->id, trace->shard, search->first);
    if (trace->shard != 0 && trace->shard != search->first)
        facts->relays = -1; /* the shard does not know the user */
}

static void
finish_trace(struct shard_request *request, enum rc rc)
{
    struct trace_request *trace = (struct trace_request *)request;
    struct trace_search *search = trace->search;
    bool is_found = rc == RC_OK && !trace_is_empty(&trace->trace);

    if (rc == RC_OK && trace->shard == search->first)
        search->gaps = trace->trace.facts.gaps;
    search->is_incomplete |= rc != RC_OK;
    if (!is_found && search_next(search))
        return;
    if (search->user != NULL && (is_found || !search->is_incomplete)) {
        add_facts(search, trace);
        is_found = !trace_is_empty(&trace->trace);
    }
    search->done(search->ctx, is_found || !search->is_incomplete ? RC_OK : RC_IO, &trace->trace);
    free(search->user);
    free(search);
}

static void
release(struct shard_request *request)
{
    trace_free(&((struct trace_request *)request)->trace);
}

static const struct shard_request_kind trace_kind = {.failure = "could not trace a notification",
                                                     .on_reply = on_trace_reply,
                                                     .finish = finish_trace,
                                                     .release = release};

static enum rc
send_trace(struct trace_search *search, struct shard *shard)
{
    struct trace_request *trace = shard_request_new(sizeof(*trace), search->store, &trace_kind);
    struct arguments arguments = {.argc = 0};

    trace->search = search;
    trace->shard = shard->number;
    shard_arguments(shard, &arguments);
    argument(&arguments, search->id);
    argument_number(&arguments, frame_uuid_ms(search->id));
    if (search->user != NULL) {
        argument(&arguments, search->user);
        argument(&arguments, search->store->script_settings.retention);
    }
    shard_request_send_script(&trace->request, shard, STORE_SCRIPT_trace, 1, &arguments);
    return shard_request_sent(&trace->request);
}

/* Queries the next shard that is up. False: none is left. */
static bool
search_next(struct trace_search *search)
{
    while (search->next < search->end) {
        const unsigned number = (search->first + search->next++) % search->store->shard_count;
        struct shard *shard = &search->store->shards[number];

        if (shard->is_up && send_trace(search, shard) == RC_OK)
            return true;
        search->is_incomplete = true;
    }
    return false;
}

static enum rc
search_begin(struct store *store, const char *id, const struct trace_search *params)
{
    struct trace_search *search = memory_new(sizeof(*search));

    *search = *params;
    search->store = store;
    snprintf(search->id, sizeof(search->id), "%s", id);
    if (search_next(search))
        return RC_OK;
    free(search->user);
    free(search);
    return RC_AGAIN;
}

enum rc
store_trace(struct store *store, int shard, const char *id, store_traced *done, void *ctx)
{
    const bool is_known = shard != STORE_SHARD_UNKNOWN;

    return search_begin(store, id,
                        &(struct trace_search){.done = done,
                                               .ctx = ctx,
                                               .first = is_known ? (unsigned)shard : 0,
                                               .end = is_known ? 1 : store->shard_count});
}

enum rc
store_trace_of_user(struct store *store, const char *id, const char *user, store_traced *done,
                    void *ctx)
{
    return search_begin(store, id,
                        &(struct trace_search){.done = done,
                                               .ctx = ctx,
                                               .user = memory_text(user, strlen(user)),
                                               .first = store_shard_of(store, user),
                                               .end = store->shard_count});
}

/* ---- recording a gap */

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
    if (shard_request_sent(request) != RC_OK)
        return; /* an explanation will lack the gap */
}
