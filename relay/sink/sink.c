/* sink.c: reads receipts of all shards for a sink, sends batches, and acknowledges them. */
#include "sink/sink_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/timeouts.h"

#define PAGE_ENTRIES_MAX 250 /* entries in one reply of a shard */
#define PAGE_ENTRIES_MIN 32  /* the same, if they have many receipts */
#define PAGE_RECEIPTS 1000   /* then a reply has more than these */
#define ACK_ENTRIES 1000     /* in one acknowledgement */
#define QUEUE_MAX 1000       /* receipts of a shard that wait for a batch */
#define BUSY_TICK_S 0.05     /* while receipts arrive */
#define IDLE_TICK_S 0.25     /* how late the first receipt after a pause may be read */
#define READ_US 50000        /* interval of the reads of a shard without more receipts */
#define BUSY_US 2000000      /* how long a sink is busy after a receipt */
#define RETRY_US 1000000     /* after a failed request */
#define PERIODIC_US 3000000  /* several times in the lifetime of a heartbeat */
#define COUNT_US 15000000    /* how seldom the store counts a backlog that it does not know */
#define REWIND_MS 3600000    /* receipts that are sent again after the database went back */
#define OWN_FIRST "0-0"

static void advance(struct sink *sink);

/* ---- receipts */

static void
entry_free(struct sink_entry *entry)
{
    if (entry->is_held)
        HASH_DEL(entry->shard->held, entry);
    free(entry);
}

/*
 * After a receipt left the memory. An entry that is done remains until its acknowledgement, and one
 * of which some receipts are taken until all entries are read again.
 */
static void
entry_update(struct sink_entry *entry)
{
    if (entry->is_held && entry->done_count == entry->count)
        DL_APPEND(entry->shard->done, entry);
    else if (entry->loaded_count == 0 && (!entry->is_held || entry->done_count == 0))
        entry_free(entry);
}

/* Another relay has claimed the entries that were not read again. */
static void
forget_missing(struct sink_shard *shard)
{
    struct sink_entry *entry, *next;

    HASH_ITER (hh, shard->held, entry, next)
        if (entry->loaded_count == 0 && entry->done_count < entry->count)
            entry_free(entry);
}

/* Returns the entry of a receipt, which may be new. */
static struct sink_entry *
entry_of(struct sink_shard *shard, const struct store_receipt *from)
{
    struct sink_entry *entry;

    HASH_FIND(hh, shard->held, from->entry.at, from->entry.len, entry);
    if (entry != NULL)
        return from->number < entry->count ? entry : NULL;
    entry = memory_new(sizeof(*entry) + from->count);
    entry->shard = shard;
    entry->is_held = true;
    entry->count = from->count;
    snprintf(entry->id, sizeof(entry->id), "%.*s", (int)from->entry.len,
             (const char *)from->entry.at);
    HASH_ADD_STR(shard->held, id, entry);
    return entry;
}

static struct sink_receipt *
receipt_new(struct sink_entry *entry, const struct store_receipt *from)
{
    struct sink_receipt *receipt = memory_new(sizeof(*receipt) + from->id.len + from->data.len);

    receipt->shard = entry->shard;
    receipt->entry = entry;
    receipt->number = from->number;
    if (from->id.len > 0)
        memcpy(receipt->bytes, from->id.at, from->id.len);
    if (from->data.len > 0)
        memcpy(receipt->bytes + from->id.len, from->data.at, from->data.len);
    receipt->id = (struct bytes){(const unsigned char *)receipt->bytes, from->id.len};
    receipt->data =
        (struct bytes){(const unsigned char *)receipt->bytes + from->id.len, from->data.len};
    entry->states[from->number] = SINK_RECEIPT_LOADED;
    entry->loaded_count++;
    return receipt;
}

/* The caller has removed it from its list. */
static void
receipt_end(struct sink_receipt *receipt, enum sink_receipt_state state)
{
    struct sink_entry *entry = receipt->entry;

    entry->states[receipt->number] = (unsigned char)state;
    entry->loaded_count--;
    entry->done_count += state == SINK_RECEIPT_DONE;
    free(receipt);
    entry_update(entry);
}

static void
drop_list(struct sink_receipt **list)
{
    struct sink_receipt *receipt;

    while ((receipt = *list) != NULL) {
        DL_DELETE(*list, receipt);
        receipt_end(receipt, SINK_RECEIPT_MISSING);
    }
}

/* ---- batches */

static void
batch_free(struct sink_batch *batch)
{
    DL_DELETE(batch->sink->batches, batch);
    batch->sink->batch_count--;
    drop_list(&batch->receipts);
    free(batch);
}

/* One receipt of each shard in turn, so that a shard with many receipts delays no other. */
static struct sink_shard *
next_with_queue(struct sink *sink)
{
    for (unsigned i = 0; i < sink->shard_count; i++) {
        struct sink_shard *shard = &sink->shards[sink->turn];

        sink->turn = (sink->turn + 1) % sink->shard_count;
        if (shard->queue != NULL)
            return shard;
    }
    return NULL;
}

static void
send_batch(struct sink *sink, struct sink_shard *shard)
{
    const struct sink_limits *limits = &sink->limits;
    struct sink_batch *batch = memory_new(sizeof(*batch));
    bool is_full = false;

    batch->sink = sink;
    while (shard != NULL && !is_full) {
        struct sink_receipt *receipt = shard->queue;
        bool is_alone =
            sink->kind->is_alone != NULL && sink->kind->is_alone(sink->ctx, receipt->id);

        if (batch->count > 0 &&
            (is_alone || batch->bytes + receipt->data.len > limits->batch_bytes))
            break;
        DL_DELETE(shard->queue, receipt);
        shard->queue_count--;
        DL_APPEND(batch->receipts, receipt);
        batch->count++;
        batch->bytes += receipt->data.len;
        is_full = is_alone || batch->count >= limits->batch_receipts;
        if (!is_full)
            shard = next_with_queue(sink);
    }
    DL_APPEND(sink->batches, batch);
    sink->batch_count++;
    sink->kind->send(sink->ctx, batch);
}

static void
send_batches(struct sink *sink)
{
    struct sink_shard *shard;

    while (sink->state == SINK_ON && sink->batch_count < sink->limits.batches && !sink->is_off &&
           (shard = next_with_queue(sink)) != NULL)
        send_batch(sink, shard);
}

/* Its receipts were taken. */
static void
end_batch(struct sink_batch *batch)
{
    struct sink *sink = batch->sink;
    struct sink_receipt *receipt;

    while ((receipt = batch->receipts) != NULL) {
        DL_DELETE(batch->receipts, receipt);
        receipt_end(receipt, SINK_RECEIPT_DONE);
    }
    batch_free(batch);
    advance(sink);
}

void
sink_batch_done(struct sink_batch *batch)
{
    struct sink *sink = batch->sink;

    stats_add(sink->stats, sink->kind->metrics.receipts, batch->count);
    stats_set(sink->stats, sink->kind->metrics.success, (uint64_t)clock_wall_us());
    sink->has_failed_batch = sink->report->is_failing = false;
    end_batch(batch);
}

bool
sink_batch_is_trimmed(const struct sink_batch *batch)
{
    const struct sink_receipt *receipt;
    struct entry_id entry;

    DL_FOREACH (batch->receipts, receipt)
        if (entry_id_read(receipt->entry->id, strlen(receipt->entry->id), &entry) != RC_OK ||
            receipt->shard->first.ms == 0 || !entry_id_less(entry, receipt->shard->first))
            return false;
    return true;
}

static void count_dropped(struct sink *sink, uint64_t dropped);

void
sink_batch_drop(struct sink_batch *batch)
{
    count_dropped(batch->sink, batch->count);
    end_batch(batch);
}

/* ---- a shard */

/* Drops what is not under way, and reads the pending receipts of this relay again. */
static void
read_again(struct sink_shard *shard)
{
    drop_list(&shard->arriving);
    drop_list(&shard->queue);
    shard->queue_count = 0;
    if (shard->state == SINK_SHARD_UNCHECKED)
        return;
    shard->state = SINK_SHARD_OWN;
    snprintf(shard->after, sizeof(shard->after), OWN_FIRST);
}

/* The entries of former generations are invalid: they are not acknowledged. */
static void
begin_generation(struct sink_shard *shard, const char *generation)
{
    struct sink_entry *entry, *next;

    snprintf(shard->generation, sizeof(shard->generation), "%s", generation);
    shard->periodic_us = 0; /* the new server may lack the heartbeat */
    read_again(shard);
    HASH_ITER (hh, shard->held, entry, next) {
        HASH_DEL(shard->held, entry);
        entry->is_held = false;
    }
}

static void
read_later(struct sink_shard *shard)
{
    shard->is_reading = shard->awaits_replicas = false;
    shard->read_us = clock_monotonic_us() + RETRY_US;
    shard->periodic_us = 0; /* the next read begins with a heartbeat */
    read_again(shard);
}

static void await_replicas(struct sink_shard *shard);

static void
on_arrived(struct sink_shard *shard)
{
    struct sink_receipt *receipt;

    shard->is_reading = shard->awaits_replicas = false;
    while ((receipt = shard->arriving) != NULL) {
        DL_DELETE(shard->arriving, receipt);
        DL_APPEND(shard->queue, receipt);
        shard->queue_count++;
    }
    advance(shard->sink);
}

static void
on_replicated(void *ctx, enum rc rc)
{
    struct sink_shard *shard = ctx;

    if (shard->round != shard->sink->round) {
        shard->is_reading = shard->awaits_replicas = false;
        return;
    }
    if (rc == RC_OK)
        on_arrived(shard);
    else if (rc == RC_AGAIN)
        await_replicas(shard);
    else
        read_later(shard);
}

/* A failover may undo what too few replicas have. */
static void
await_replicas(struct sink_shard *shard)
{
    if (shard->arriving == NULL) {
        on_arrived(shard);
        return;
    }
    shard->awaits_replicas = true;
    store_await_replicas(shard->sink->store, shard->number, REPLICAS_SINK_US, on_replicated, shard);
}

/* Sums over the shards: each relay counts what all relays have not taken. */
static void
set_backlog(struct sink *sink)
{
    uint64_t backlog = 0;
    int64_t oldest_us = 0, now_us = clock_wall_us();

    for (unsigned i = 0; i < sink->shard_count; i++) {
        const struct sink_shard *shard = &sink->shards[i];

        backlog += shard->backlog;
        if (shard->oldest_us > 0 && (oldest_us == 0 || shard->oldest_us < oldest_us))
            oldest_us = shard->oldest_us;
    }
    stats_set(sink->stats, sink->kind->metrics.backlog, backlog);
    stats_set(sink->stats, sink->kind->metrics.oldest,
              oldest_us > 0 && oldest_us < now_us ? (uint64_t)(now_us - oldest_us) : 0);
}

static void
count_dropped(struct sink *sink, uint64_t dropped)
{
    unsigned skipped = 0;

    if (dropped == 0)
        return;
    stats_add(sink->stats, sink->kind->metrics.dropped, dropped);
    if (throttle_allows(&sink->warning, clock_monotonic_us(), &skipped))
        log_warn("sink", "receipts were trimmed before the sink has taken them",
                 LOG_TEXT("sink", sink->kind->name), LOG_UINT("receipts", dropped),
                 LOG_UINT("suppressed", skipped));
}

static void
add_receipts(struct sink_shard *shard, const struct store_receipts *receipts)
{
    const struct sink_kind *kind = shard->sink->kind;
    struct sink_receipt *others = NULL; /* not wanted, or they cannot be read */
    uint64_t dropped = 0;

    for (size_t i = 0; i < receipts->count; i++) {
        const struct store_receipt *from = &receipts->items[i];
        struct sink_entry *entry = entry_of(shard, from);
        struct sink_receipt *receipt;

        if (entry == NULL || entry->states[from->number] != SINK_RECEIPT_MISSING)
            continue; /* under way, or waits for the acknowledgement of its entry */
        receipt = receipt_new(entry, from);
        if (from->data.len == 0)
            dropped++;
        if (from->data.len > 0 &&
            (kind->wants == NULL || kind->wants(shard->sink->ctx, receipt->id)))
            DL_APPEND(shard->arriving, receipt);
        else
            DL_APPEND(others, receipt);
    }
    while (others != NULL) {
        struct sink_receipt *receipt = others;

        DL_DELETE(others, receipt);
        receipt_end(receipt, SINK_RECEIPT_DONE);
    }
    count_dropped(shard->sink, dropped);
    if (receipts->count > 0)
        shard->sink->busy_us = clock_monotonic_us();
}

static void
forget_all(struct sink *sink)
{
    sink->round++;
    while (sink->batches != NULL)
        batch_free(sink->batches);
    for (unsigned i = 0; i < sink->shard_count; i++) {
        struct sink_shard *shard = &sink->shards[i];

        read_again(shard);
        shard->state = SINK_SHARD_UNCHECKED;
    }
}

static void
set_off(struct sink *sink, bool is_off)
{
    sink->is_off = is_off;
    if (is_off)
        forget_all(sink);
    if (sink->kind->on_switched != NULL)
        sink->kind->on_switched(sink->ctx, !is_off);
}

/*
 * Shard 0 decides. While a relay switches the sink, the other shards may differ for a moment; if it
 * died meanwhile, they differ for ever. So a shard is switched if it still differs after shard 0
 * was read again: of two replies, the second is the one to a later request.
 */
static void
compare_switches(struct sink_shard *shard, bool is_off)
{
    struct sink *sink = shard->sink;

    if (shard->pending_switch != SINK_SWITCH_NONE)
        return;
    if (shard->number == 0) {
        sink->decisions++;
        if (is_off != sink->is_off)
            set_off(sink, is_off);
        return;
    }
    if (is_off == sink->is_off)
        shard->differs_since = 0;
    else if (shard->differs_since == 0)
        shard->differs_since = sink->decisions + 1;
    else if (sink->decisions > shard->differs_since)
        shard->pending_switch = sink->is_off ? SINK_SWITCH_OFF : SINK_SWITCH_ON;
}

static void
on_read(void *ctx, enum rc rc, const struct store_receipts *receipts)
{
    struct sink_shard *shard = ctx;
    struct sink *sink = shard->sink;
    bool was_full, was_last_own = false;

    if (shard->round != sink->round) {
        shard->is_reading = false;
        return;
    }
    if (rc != RC_OK) {
        read_later(shard);
        return;
    }
    count_dropped(sink, receipts->dropped);
    if (shard->is_periodic) {
        shard->periodic_us = clock_monotonic_us() + PERIODIC_US;
        if (receipts->backlog >= 0)
            shard->backlog = (uint64_t)receipts->backlog;
        shard->oldest_us = receipts->oldest_us;
        shard->first = receipts->first;
        set_backlog(sink);
    }
    compare_switches(shard, receipts->is_off);
    if (sink->is_off || receipts->is_off) {
        shard->is_reading = false;
        shard->read_us = clock_monotonic_us() + RETRY_US;
        return;
    }
    if (sink->state != SINK_ON || !shard->is_page) { /* another relay will take the receipts */
        shard->is_reading = false;
        return;
    }
    was_full = receipts->entries >= shard->page_entries || receipts->more[0] != '\0';
    if (was_full)
        shard->page_entries = receipts->count > PAGE_RECEIPTS ? PAGE_ENTRIES_MIN : PAGE_ENTRIES_MAX;
    if (strcmp(shard->generation, receipts->generation) != 0)
        begin_generation(shard, receipts->generation);
    else if (receipts->has_claimed)
        read_again(shard);
    else if (shard->state == SINK_SHARD_OWN && receipts->more[0] == '\0')
        was_last_own = true;
    else if (shard->state == SINK_SHARD_OWN)
        snprintf(shard->after, sizeof(shard->after), "%s", receipts->more);
    add_receipts(shard, receipts);
    if (was_last_own) {
        shard->state = SINK_SHARD_NEW;
        forget_missing(shard);
    }
    shard->read_us =
        was_full || shard->state != SINK_SHARD_NEW ? 0 : clock_monotonic_us() + READ_US;
    await_replicas(shard);
}

static void
on_rewound(void *ctx, enum rc rc, bool went_back)
{
    struct sink_shard *shard = ctx;
    struct sink *sink = shard->sink;

    shard->is_reading = false;
    if (shard->round != sink->round)
        return;
    if (rc != RC_OK) {
        shard->read_us = clock_monotonic_us() + RETRY_US;
        return;
    }
    if (went_back)
        log_warn("sink", "database went back: sending the receipts of the last hour again",
                 LOG_TEXT("sink", sink->kind->name), LOG_UINT("shard", shard->number));
    shard->state = SINK_SHARD_OWN;
    snprintf(shard->after, sizeof(shard->after), OWN_FIRST);
    advance(sink);
}

/* Compares the position of the database once after each connect. */
static void
check_position(struct sink_shard *shard)
{
    struct sink *sink = shard->sink;

    if (sink->position == NULL) {
        shard->state = SINK_SHARD_OWN;
        return;
    }
    if (store_receipts_rewind(sink->store, shard->number, sink->kind->group, sink->position,
                              REWIND_MS, on_rewound, shard) == RC_OK)
        shard->is_reading = true;
    else
        shard->read_us = clock_monotonic_us() + RETRY_US;
}

static void
on_switched(void *ctx, enum rc rc)
{
    struct sink_shard *shard = ctx;

    shard->is_reading = false;
    if (rc == RC_OK)
        shard->pending_switch = SINK_SWITCH_NONE;
    else
        shard->read_us = clock_monotonic_us() + RETRY_US;
}

/* Repeated until it succeeds. */
static void
switch_shard(struct sink_shard *shard)
{
    struct sink *sink = shard->sink;

    if (store_receipts_switch(sink->store, shard->number, sink->kind->group,
                              shard->pending_switch == SINK_SWITCH_ON, on_switched, shard) == RC_OK)
        shard->is_reading = true;
    else
        shard->read_us = clock_monotonic_us() + RETRY_US;
}

void
sink_switch(struct sink *sink, bool on)
{
    for (unsigned i = 0; i < sink->shard_count; i++) {
        sink->shards[i].pending_switch = on ? SINK_SWITCH_ON : SINK_SWITCH_OFF;
        sink->shards[i].read_us = 0;
    }
    if (sink->is_off == on)
        set_off(sink, !on);
}

/* The state of a paused sink is read too, so that its backlog is known. */
static void
read_shard(struct sink_shard *shard, int64_t now_us)
{
    struct sink *sink = shard->sink;
    bool is_on = sink->state == SINK_ON;
    bool has_room = is_on && shard->queue_count < QUEUE_MAX;
    struct store_receipts_wanted wanted = {
        .shard = shard->number,
        .group = sink->kind->group,
        .max_entries = has_room ? shard->page_entries : 0,
        .after = is_on && shard->state == SINK_SHARD_OWN ? shard->after : "",
        .is_periodic = now_us >= shard->periodic_us,
        .is_consumer = is_on};

    if (!has_room && !wanted.is_periodic)
        return;
    wanted.may_count = wanted.is_periodic && now_us >= shard->count_us;
    if (wanted.may_count)
        shard->count_us = now_us + COUNT_US;
    shard->is_reading = true;
    shard->is_periodic = wanted.is_periodic;
    shard->is_page = has_room;
    if (store_receipts_read(sink->store, &wanted, on_read, shard) != RC_OK)
        read_later(shard);
}

static void
advance_shard(struct sink_shard *shard, int64_t now_us)
{
    const struct sink *sink = shard->sink;

    if (shard->is_reading || now_us < shard->read_us || sink->state == SINK_STOPPED)
        return;
    shard->round = sink->round;
    if (shard->pending_switch != SINK_SWITCH_NONE) {
        switch_shard(shard);
        return;
    }
    if (sink->state == SINK_ON && shard->state == SINK_SHARD_UNCHECKED)
        check_position(shard);
    if (!shard->is_reading && now_us >= shard->read_us)
        read_shard(shard, now_us);
}

/* ---- acknowledgements */

static void
on_acked(void *ctx, enum rc rc)
{
    struct sink_shard *shard = ctx;

    shard->is_acking = false;
    for (; rc != RC_IO && shard->ack_count > 0 && shard->done != NULL; shard->ack_count--) {
        struct sink_entry *entry = shard->done;

        DL_DELETE(shard->done, entry);
        entry_free(entry);
    }
    shard->ack_count = 0;
    if (rc == RC_CLOSED)
        begin_generation(shard, "");
    if (rc == RC_OK)
        advance(shard->sink);
}

/* A failed acknowledgement is repeated at the next tick. */
static void
acknowledge(struct sink_shard *shard)
{
    struct sink *sink = shard->sink;
    const char *entries[ACK_ENTRIES];
    struct sink_entry *entry, *next;
    size_t count = 0;

    if (shard->is_acking)
        return;
    DL_FOREACH_SAFE (shard->done, entry, next) {
        if (!entry->is_held) {
            DL_DELETE(shard->done, entry);
            entry_free(entry);
        } else if (count < ACK_ENTRIES) {
            entries[count++] = entry->id;
        }
    }
    if (count == 0)
        return;
    if (store_receipts_ack(sink->store, shard->number, sink->kind->group, shard->generation,
                           sink->position != NULL ? sink->position : "", entries, count, on_acked,
                           shard) != RC_OK)
        return;
    shard->is_acking = true;
    shard->ack_count = count;
}

/* ---- the sink */

static void
advance(struct sink *sink)
{
    int64_t now_us = clock_monotonic_us();

    for (unsigned i = 0; i < sink->shard_count; i++)
        acknowledge(&sink->shards[i]);
    send_batches(sink);
    for (unsigned i = 0; i < sink->shard_count; i++)
        advance_shard(&sink->shards[(sink->turn + i) % sink->shard_count], now_us);
}

static void
on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct sink *sink = timer->data;
    bool is_busy = clock_monotonic_us() - sink->busy_us < BUSY_US;

    (void)events;
    timer->repeat = is_busy ? BUSY_TICK_S : IDLE_TICK_S;
    ev_timer_again(loop, timer);
    advance(sink);
}

struct sink *
sink_new(struct ev_loop *loop, const struct config *config, struct store *store,
         struct stats *stats, struct sink_report *report, const struct sink_kind *kind,
         const struct sink_limits *limits, void *ctx)
{
    struct sink *sink = memory_new(sizeof(*sink));

    sink->loop = loop;
    sink->config = config;
    sink->store = store;
    sink->stats = stats;
    sink->report = report;
    report->is_open = true;
    sink->kind = kind;
    sink->limits = *limits;
    sink->ctx = ctx;
    sink->shard_count = store_shards(store);
    for (unsigned i = 0; i < sink->shard_count; i++) {
        sink->shards[i].sink = sink;
        sink->shards[i].number = i;
        sink->shards[i].page_entries = PAGE_ENTRIES_MIN;
    }
    ev_init(&sink->tick, on_tick);
    sink->tick.repeat = IDLE_TICK_S;
    sink->tick.data = sink;
    ev_timer_again(loop, &sink->tick);
    return sink;
}

void
sink_failed(struct sink *sink, const char *what, const char *error)
{
    struct sink_report *report = sink->report;

    stats_add(sink->stats, sink->kind->metrics.failures, 1);
    sink->has_failed_batch = sink->has_failed_batch || sink->batches != NULL;
    report->is_failing = true;
    report->failed_ms = clock_wall_us() / 1000;
    snprintf(report->reason, sizeof(report->reason), "%s: %s", what, error);
}

void
sink_resume(struct sink *sink, const char *position)
{
    if (sink->state != SINK_PAUSED)
        return;
    sink->state = SINK_ON;
    sink->position = position;
    /* A new connection does not prove that the destination takes what it has rejected. */
    if (!sink->has_failed_batch)
        sink->report->is_failing = false;
    for (unsigned i = 0; i < sink->shard_count; i++)
        sink->shards[i].periodic_us = sink->shards[i].read_us = 0;
    advance(sink);
}

void
sink_pause(struct sink *sink)
{
    forget_all(sink);
    if (sink->state == SINK_ON)
        sink->state = SINK_PAUSED;
}

void
sink_stop(struct sink *sink)
{
    sink->state = SINK_STOPPED;
}

void
sink_close(struct sink *sink)
{
    sink->state = SINK_STOPPED;
    sink->kind->stop(sink->ctx);
    ev_timer_stop(sink->loop, &sink->tick);
    forget_all(sink);
}

void
sink_free(struct sink *sink)
{
    for (unsigned i = 0; i < sink->shard_count; i++) {
        struct sink_entry *entry, *next;

        DL_FOREACH_SAFE (sink->shards[i].done, entry, next) {
            DL_DELETE(sink->shards[i].done, entry);
            entry_free(entry);
        }
        HASH_ITER (hh, sink->shards[i].held, entry, next)
            entry_free(entry);
    }
    sink->kind->free(sink->ctx);
    free(sink);
}
