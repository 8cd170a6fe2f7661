/*
 * receipts.c: reads the receipts of all shards, in the order of their times, for GET /v1/receipts.
 *
 * The cursor has the last receipt that was read of each shard. A receipt counts only when enough
 * replicas have it: otherwise a failover may end the same pair again, in another way.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/admin.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/store.h"
#include "store/timeouts.h"
#include "wire/frame.h"

#define CURSOR_SEPARATOR '_'
#define CLOCK_SKEW_MS 5000
#define ENTRY_DIGITS_MAX 19     /* in each of the two numbers of an entry id */
#define ENTRY_RECEIPTS_DIGITS 3 /* in a number of receipts */

_Static_assert(STORE_RECEIPTS_CURSOR_MAX >= STORE_SHARDS_MAX * STORE_RECEIPT_ENTRY_MAX,
               "a cursor has an entry of each shard");

struct receipts_shard {
    char after[STORE_RECEIPT_ENTRY_MAX]; /* where the page begins; then where the next one does */
    const struct redisReply *page;       /* NULL: no reply */
    size_t at;                           /* the next row of the page */
};

struct receipts_read {
    struct shard_request request;
    store_receipts_done *done;
    void *ctx;
    unsigned limit;
    struct receipts_shard shards[STORE_SHARDS_MAX];
};

/* Returns the number of digits, and 0 if they are too many. */
static size_t
count_digits(const char *text, size_t max)
{
    const size_t count = strspn(text, "0123456789");

    return count <= max ? count : 0;
}

/* Parses "MS-SEQ" or "MS-SEQ.N": after an entry, or after N of its receipts. */
static bool
is_entry(const char *text, size_t len)
{
    const size_t ms = count_digits(text, ENTRY_DIGITS_MAX);
    const size_t seq =
        ms > 0 && text[ms] == '-' ? count_digits(text + ms + 1, ENTRY_DIGITS_MAX) : 0;
    const size_t id = ms + 1 + seq;

    if (seq == 0 || id == len)
        return seq > 0;
    return text[id] == '.' && count_digits(text + id + 1, ENTRY_RECEIPTS_DIGITS) == len - id - 1 &&
           len > id + 1;
}

/* An empty cursor is the start. Returns false for the cursor of a store with other shards. */
static bool
read_cursor(struct receipts_read *read, const char *cursor)
{
    const unsigned count = read->request.store->shard_count;
    const bool is_start = cursor[0] == '\0';

    for (unsigned k = 0; k < count; k++) {
        struct receipts_shard *shard = &read->shards[k];
        const char *end = strchr(cursor, CURSOR_SEPARATOR);
        const size_t len = end != NULL ? (size_t)(end - cursor) : strlen(cursor);

        if (!is_start && (!is_entry(cursor, len) || (end == NULL) != (k + 1 == count)))
            return false;
        snprintf(shard->after, sizeof(shard->after), "%.*s", is_start ? 3 : (int)len,
                 is_start ? "0-0" : cursor);
        cursor += len + (end != NULL);
    }
    return true;
}

/* A notification has no receipt before its commit; the clocks of relay and store may differ. */
static void
start_at_commit(struct receipts_shard *shard, const char *id)
{
    const int64_t ms = frame_uuid_ms(id) - CLOCK_SKEW_MS;

    snprintf(shard->after, sizeof(shard->after), "%" PRId64 "-0", ms > 0 ? ms : 0);
}

static const char *
entry_at(const struct receipts_shard *shard)
{
    return reply_text(reply_at(shard->page, shard->at));
}

static bool
has_row(const struct receipts_shard *shard)
{
    return shard->page != NULL && shard->at + 1 < reply_count(shard->page);
}

static int
compare_entries(const char *a, const char *b)
{
    char *a_end, *b_end;
    const unsigned long long a_ms = strtoull(a, &a_end, 10), b_ms = strtoull(b, &b_end, 10);
    unsigned long long a_seq, b_seq;

    if (a_ms != b_ms)
        return a_ms < b_ms ? -1 : 1;
    a_seq = strtoull(a_end + (*a_end == '-'), NULL, 10);
    b_seq = strtoull(b_end + (*b_end == '-'), NULL, 10);
    return a_seq < b_seq ? -1 : a_seq > b_seq;
}

static struct receipts_shard *
oldest_row(struct receipts_read *read)
{
    struct receipts_shard *oldest = NULL;

    for (unsigned k = 0; k < read->request.store->shard_count; k++) {
        struct receipts_shard *shard = &read->shards[k];

        if (has_row(shard) &&
            (oldest == NULL || compare_entries(entry_at(shard), entry_at(oldest)) < 0))
            oldest = shard;
    }
    return oldest;
}

/* Writes {"receipts":[..],"next":".."}. */
static enum rc
write_page(struct receipts_read *read, struct buffer *out)
{
    struct receipts_shard *shard;
    enum rc rc = buffer_addf(out, "{\"receipts\":[");

    for (unsigned n = 0; n < read->limit && rc == RC_OK && (shard = oldest_row(read)) != NULL;
         n++) {
        struct bytes json = reply_bytes(reply_at(shard->page, shard->at + 1));

        snprintf(shard->after, sizeof(shard->after), "%s", entry_at(shard));
        shard->at += 2;
        if (n > 0)
            rc = buffer_addf(out, ",");
        if (rc == RC_OK)
            rc = buffer_add(out, json.at, json.len);
    }
    if (rc == RC_OK)
        rc = buffer_addf(out, "],\"next\":\"");
    for (unsigned k = 0; k < read->request.store->shard_count && rc == RC_OK; k++) {
        const struct receipts_shard *of = &read->shards[k];

        /* What is behind the last row was read, and has other emitters. */
        rc = buffer_addf(out, "%.*s%s", k > 0, (const char[]){CURSOR_SEPARATOR, '\0'},
                         has_row(of) ? of->after : reply_text(reply_at(of->page, 0)));
    }
    return rc == RC_OK ? buffer_addf(out, "\"}\n") : rc;
}

static void
finish_receipts(struct shard_request *request, enum rc rc)
{
    struct receipts_read *read = (struct receipts_read *)request;
    struct buffer out;

    buffer_init(&out, STORE_RECEIPTS_BYTES_MAX);
    if (rc == RC_OK)
        rc = write_page(read, &out);
    read->done(read->ctx, rc, &out);
    buffer_free(&out);
}

static void
on_replicated(void *ctx, enum rc rc)
{
    struct shard_request *request = ctx;

    request->has_failed |= rc != RC_OK;
    shard_request_release(request);
}

static bool
is_page(const struct redisReply *reply)
{
    for (size_t i = 0; i < reply_count(reply); i++) {
        const char *text = reply_text(reply_at(reply, i));

        if (text == NULL || (i < 2 || i % 2 == 1 ? !is_entry(text, strlen(text)) : false))
            return false;
    }
    return reply_is_array(reply, 1) && reply_count(reply) % 2 == 1;
}

/* The request is held until the replicas have the page, so the reply is copied. */
static bool
on_page(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct receipts_shard *of = &((struct receipts_read *)request)->shards[shard->number];

    if (!is_page(reply))
        return false;
    shard_request_hold(request);
    of->page = shard_request_keep_reply(request, reply);
    of->at = 1;
    if (has_row(of))
        store_await_replicas(request->store, shard->number, REPLICAS_RECEIPTS_US, on_replicated,
                             request);
    else
        shard_request_release(request);
    return true;
}

static const struct shard_request_kind receipts_kind = {
    .failure = "could not read receipts", .on_reply = on_page, .finish = finish_receipts};

enum rc
store_receipts(struct store *store, const char *after, const char *emitter, const char *id,
               unsigned limit, store_receipts_done *done, void *ctx)
{
    struct receipts_read *read = shard_request_new(sizeof(*read), store, &receipts_kind);

    read->done = done;
    read->ctx = ctx;
    read->limit = limit;
    if (!read_cursor(read, after)) {
        free(read);
        return RC_BAD;
    }
    for (unsigned k = 0; k < store->shard_count; k++) {
        struct arguments arguments = {.argc = 0};

        if (id != NULL && after[0] == '\0')
            start_at_commit(&read->shards[k], id);
        shard_arguments(&store->shards[k], &arguments);
        argument(&arguments, read->shards[k].after);
        argument_number(&arguments, limit);
        argument(&arguments, emitter != NULL ? emitter : "");
        argument(&arguments, id != NULL ? id : "");
        shard_request_send_script(&read->request, &store->shards[k], STORE_SCRIPT_receipts_page, 1,
                                  &arguments);
    }
    return shard_request_sent(&read->request);
}
