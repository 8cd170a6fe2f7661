/* reports.c: stores delivery reports, which start the ack timeout. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/store.h"
#include "store/shards/shard.h"
#include "store/shards/store_private.h"

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
    char flags[3 + ENTRY_ID_TEXT_MAX]; /* three letters, then a stream entry or a time */
};

static void
write_texts(const struct store_report *report, struct texts *texts)
{
    const char kind = report->is_renewal ? 'K' : report->is_deferred ? 'D' : 'S';
    const unsigned backoff = report->backoff <= FRAME_BACKOFF_FIXED ? report->backoff : 0;
    const char letter = report->is_retried ? STORE_BACKOFF_LETTERS[backoff] : '-';

    frame_id_text(report->id, texts->id);
    texts->flags[0] = kind;
    texts->flags[1] = letter;
    texts->flags[2] = report->is_open_ended ? 'O' : 'C';
    if (report->is_deferred)
        entry_id_text(entry_id_raw(report->entry), texts->flags + 3);
    else if (report->ack_timeout_ms != 0)
        snprintf(texts->flags + 3, sizeof(texts->flags) - 3, "%" PRIu32, report->ack_timeout_ms);
    else
        texts->flags[3] = '\0';
}

static void
report_to(struct report *report, struct shard *shard, const struct store_report *reports,
          size_t count, const struct texts *texts)
{
    const struct delivery *delivery = &shard->store->delivery;
    struct arguments arguments = {.argc = 0};
    size_t end = report->first[shard->number];

    shard_arguments(shard, &arguments);
    argument(&arguments, delivery->ack_timeout);
    argument(&arguments, delivery->backoff_base);
    argument(&arguments, delivery->backoff_cap);
    argument(&arguments, delivery->retention);
    for (size_t i = 0; i < count; i++) {
        if (reports[i].shard != shard->number)
            continue;
        report->indexes[end++] = i;
        argument(&arguments, texts[i].flags);
        argument(&arguments, reports[i].user);
        argument(&arguments, texts[i].id);
    }
    report->first[shard->number + 1] = end;
    if (end > report->first[shard->number] && !shard->is_unavailable)
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
    rc = shard_request_await(&report->request);
    return is_empty ? RC_CLOSED : rc;
}
