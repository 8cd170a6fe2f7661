/* pairs.c: stores acknowledgements, nacks and delivery reports. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/store.h"

static bool
on_ack_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct stats *stats = request->store->stats;

    (void)shard;
    if (!reply_is_array(reply, 2))
        return false;
    stats_add(stats, STAT_STORE_ACKS, (uint64_t)reply_integer(reply_at(reply, 0)));
    stats_add(stats, STAT_STORE_COMPLETED, (uint64_t)reply_integer(reply_at(reply, 1)));
    return true;
}

static const struct shard_request_kind ack_kind = {.failure = "could not store acknowledgements",
                                                   .on_reply = on_ack_reply};

static bool
may_be_of(const struct store *store, const struct store_ack *ack, unsigned shard)
{
    if (ack->shard >= 0 && (unsigned)ack->shard < store->shard_count)
        return (unsigned)ack->shard == shard;
    return shard == 0 || store_shard_of(store, ack->user) == shard;
}

bool
store_acks_wait(const struct store *store, const struct store_ack *ack)
{
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (store->shards[k].is_left_out && may_be_of(store, ack, k))
            return true;
    }
    return false;
}

/* The number of leading acks that have the same user. */
static size_t
count_same_user(const struct store_ack *acks, size_t count)
{
    size_t row = 1;

    while (row < count && strcmp(acks[row].user, acks[0].user) == 0)
        row++;
    return row;
}

static int
compare_users(const void *a, const void *b)
{
    return strcmp(((const struct store_ack *)a)->user, ((const struct store_ack *)b)->user);
}

/* Sorts the acks, because ack.lua reads each user once, followed by the ids. */
static void
send_acks(struct shard_request *request, struct shard *shard, struct store_ack *acks, size_t count)
{
    const struct store *store = shard->store;
    struct arguments arguments = {.argc = 0};
    char(*rows)[24] = memory_new((count + 1) * sizeof(*rows));
    size_t users = 0;

    qsort(acks, count, sizeof(*acks), compare_users);
    for (size_t at = 0; at < count; at += count_same_user(acks + at, count - at))
        users++;
    *bytes_decimal(users, rows[count]) = '\0';
    shard_arguments(shard, &arguments);
    argument(&arguments, store->relay_id);
    argument(&arguments, store->script_settings.retention);
    argument(&arguments, rows[count]);
    for (size_t at = 0, row; at < count; at += row) {
        row = count_same_user(acks + at, count - at);
        *bytes_decimal(row, rows[at]) = '\0';
        argument(&arguments, acks[at].user);
        argument(&arguments, rows[at]);
    }
    for (size_t i = 0; i < count; i++)
        argument(&arguments, acks[i].id);
    shard_request_send_script(request, shard, STORE_SCRIPT_ack, 1, &arguments);
    free(rows);
}

enum rc
store_ack(struct store *store, const struct store_ack *acks, size_t count, store_acked *done,
          void *ctx)
{
    struct store_ack *mine;
    struct shard_request *request;

    if (!store->is_up)
        return RC_AGAIN;
    request = shard_request_new(sizeof(*request), store, &ack_kind);
    request->acked = done;
    request->ctx = ctx;
    mine = memory_new((count + 1) * sizeof(*mine));
    for (unsigned k = 0; k < store->shard_count; k++) {
        size_t mine_count = 0;

        for (size_t i = 0; i < count; i++) {
            if (may_be_of(store, &acks[i], k))
                mine[mine_count++] = acks[i];
        }
        if (mine_count > 0)
            send_acks(request, &store->shards[k], mine, mine_count);
    }
    free(mine);
    return shard_request_sent(request);
}

static bool
on_nack_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    (void)shard;
    if (!reply_is_integer(reply))
        return false;
    stats_add(request->store->stats, STAT_STORE_NACKS, (uint64_t)reply_integer(reply));
    return true;
}

static const struct shard_request_kind nack_kind = {
    .failure = "could not store negative acknowledgements", .on_reply = on_nack_reply};

enum rc
store_nack(struct store *store, const char *user, const char *const *ids, size_t count,
           int64_t delay_ms, store_acked *done, void *ctx)
{
    const struct script_settings *settings = &store->script_settings;
    unsigned own = store_shard_of(store, user);
    struct shard_request *request;

    if (!store_serves(store, user))
        return RC_AGAIN;
    request = shard_request_new(sizeof(*request), store, &nack_kind);
    request->acked = done;
    request->ctx = ctx;
    for (unsigned k = 0; k <= own; k += own > 0 ? own : 1) {
        struct arguments arguments = {.argc = 0};

        shard_arguments(&store->shards[k], &arguments);
        argument(&arguments, settings->backoff_base);
        argument(&arguments, settings->backoff_cap);
        argument_number(&arguments, delay_ms > 0 ? delay_ms : 0);
        argument(&arguments, settings->retention);
        argument(&arguments, user);
        for (size_t i = 0; i < count; i++)
            argument(&arguments, ids[i]);
        shard_request_send_script(request, &store->shards[k], STORE_SCRIPT_nack, 1, &arguments);
    }
    return shard_request_sent(request);
}

struct report {
    struct shard_request request;
    store_reported *done;
    void *ctx;
    size_t *indexes;                    /* indexes of the reports, sorted by shard */
    size_t first[STORE_SHARDS_MAX + 1]; /* first element of each shard in `indexes` */
    enum store_pair *states;
    size_t count;
};

/* The reply is a list of index and state. */
static bool
on_report_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct report *report = (struct report *)request;
    const size_t *indexes = report->indexes + report->first[shard->number];
    const size_t count = report->first[shard->number + 1] - report->first[shard->number];

    if (!reply_is_array(reply, 0) || reply_count(reply) > 2 * count)
        return false;
    for (size_t i = 0; i + 1 < reply_count(reply); i += 2) {
        const size_t index = (size_t)reply_integer(reply_at(reply, i));
        const size_t state = (size_t)reply_integer(reply_at(reply, i + 1));

        if (index >= count || state > STORE_PAIR_LOST)
            return false;
        report->states[indexes[index]] = (enum store_pair)state;
    }
    return true;
}

static void
finish_reports(struct shard_request *request, enum rc rc)
{
    const struct report *report = (struct report *)request;

    report->done(report->ctx, rc, rc == RC_OK ? report->states : NULL, report->count);
}

static void
release(struct shard_request *request)
{
    struct report *report = (struct report *)request;

    free(report->indexes);
    free(report->states);
}

static const struct shard_request_kind report_kind = {.failure = "could not store delivery reports",
                                                      .on_reply = on_report_reply,
                                                      .finish = finish_reports,
                                                      .release = release};

/* Buffers for the arguments of report.lua. */
struct texts {
    char id[FRAME_UUID_TEXT + 1];
    char kind[1 +
              ENTRY_ID_TEXT_MAX]; /* a letter; then the stream entry, or connection and attempt */
};

static void
write_texts(const struct store_report *report, struct texts *texts)
{
    frame_id_text(report->id, texts->id);
    texts->kind[0] = report->is_renewal        ? 'K'
                     : report->is_query        ? 'Q'
                     : report->is_unsubscribed ? 'U'
                                               : 'S';
    texts->kind[1] = '\0';
    if (report->is_query)
        entry_id_text(entry_id_raw(report->entry), texts->kind + 1);
    else if (!report->is_renewal)
        snprintf(texts->kind + 1, sizeof(texts->kind) - 1, "%s %u", report->conn, report->attempts);
}

static void
report_to(struct report *report, struct shard *shard, const struct store_report *reports,
          size_t count, const struct texts *texts)
{
    const struct script_settings *settings = &shard->store->script_settings;
    struct arguments arguments = {.argc = 0};
    size_t end = report->first[shard->number];

    shard_arguments(shard, &arguments);
    argument(&arguments, settings->ack_timeout);
    argument(&arguments, settings->backoff_base);
    argument(&arguments, settings->backoff_cap);
    argument(&arguments, settings->retention);
    for (size_t i = 0; i < count; i++) {
        if (reports[i].shard != shard->number)
            continue;
        report->indexes[end++] = i;
        argument(&arguments, texts[i].kind);
        argument(&arguments, reports[i].user);
        argument(&arguments, texts[i].id);
    }
    report->first[shard->number + 1] = end;
    if (end > report->first[shard->number] && !shard->is_left_out)
        shard_request_send_script(&report->request, shard, STORE_SCRIPT_report, 1, &arguments);
    else
        arguments_free(&arguments);
}

enum rc
store_report(struct store *store, const struct store_report *reports, size_t count,
             store_reported *done, void *ctx)
{
    struct report *report;
    struct texts *texts;
    bool is_empty;
    enum rc rc;

    if (!store->is_up)
        return RC_AGAIN;
    report = shard_request_new(sizeof(*report), store, &report_kind);
    report->done = done;
    report->ctx = ctx;
    report->indexes = memory_new((count + 1) * sizeof(*report->indexes));
    report->states = memory_new((count + 1) * sizeof(*report->states));
    report->count = count;
    texts = memory_new((count + 1) * sizeof(*texts));
    for (size_t i = 0; i < count; i++)
        write_texts(&reports[i], &texts[i]);
    for (unsigned k = 0; k < store->shard_count; k++)
        report_to(report, &store->shards[k], reports, count, texts);
    free(texts);
    is_empty = report->request.left == 0 && !report->request.has_failed;
    rc = shard_request_sent(&report->request);
    return is_empty ? RC_CLOSED : rc;
}
