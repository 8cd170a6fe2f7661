/* order.c: merges the endless streams of several shards in commit order. */
#include "store/read/reader_private.h"

#include <stdlib.h>

#include "base/memory.h"
#include "store/entry.h"

#define FULL_ENTRIES 128 /* stream entries of a shard, in addition to one reply */

/* A reply whose stream entries are not all delivered; or a position that they cover. */
struct held {
    struct held *next;
    struct reader_covered covered; /* lsn 0: none */
    const struct redisReply *entries;
    struct redisReply *kept; /* a copy that outlives the reply; NULL: not copied yet */
    size_t at;               /* index of the next entry */
    int64_t added_us;        /* monotonic time of the first order_release */
};

struct queue {
    struct held *first;
    struct held *last;
    size_t count; /* entries after the head */
    bool has_head;
    struct entry head;                       /* entry of `first` */
    struct position needs[STORE_SHARDS_MAX]; /* the head waits for these positions */
    struct position seen;                    /* newest notification that was added */
    struct position given_up; /* other shards no longer wait for notifications up to this one */
    /* since order_rewind: those up to here were added, or denied, so that they never are */
    struct position complete;
    struct position delivered;       /* newest notification that was delivered */
    struct position delivered_since; /* like `delivered`, since order_rewind */
    /* like `delivered`, without notifications stored before order_begin or order_join */
    struct position sent;
    /* highest position named by delivered notifications of shard 0 */
    struct position needed;
    /* order_join: positions in shard 0 and in this shard */
    struct position joins_after[2];
    bool has_left;   /* order_leave was called: the shard is not read */
    bool is_skipped; /* other shards no longer wait for this shard */
    /* monotonic time when it last added a notification, or was full; 0: since order_release */
    int64_t progress_us;
    /* monotonic time since when another shard has been waiting; 0: none */
    int64_t awaited_us;
    size_t foreign_entries;
};

struct order {
    order_deliver *deliver;
    order_covered *on_covered;
    void *ctx;
    size_t unordered;
    unsigned count;
    struct queue queues[];
};

struct order *
order_new(unsigned shards, order_deliver *deliver, order_covered *on_covered, void *ctx)
{
    struct order *order = memory_new(sizeof(*order) + shards * sizeof(*order->queues));

    order->deliver = deliver;
    order->on_covered = on_covered;
    order->ctx = ctx;
    order->count = shards;
    return order;
}

static void
drop_first(struct queue *queue)
{
    struct held *held = queue->first;

    queue->first = held->next;
    if (queue->first == NULL)
        queue->last = NULL;
    free(held->kept);
    free(held);
}

static void
empty(struct queue *queue)
{
    while (queue->first != NULL)
        drop_first(queue);
}

void
order_free(struct order *order)
{
    if (order == NULL)
        return;
    for (unsigned k = 0; k < order->count; k++)
        empty(&order->queues[k]);
    free(order);
}

void
order_begin(struct order *order, const struct position *stored, const bool *has_changed)
{
    static const struct position none = {0, 0};

    for (unsigned k = 0; k < order->count; k++) {
        struct queue *queue = &order->queues[k];

        empty(queue);
        *queue = (struct queue){.seen = stored[k],
                                .delivered = stored[k],
                                .delivered_since = stored[k],
                                .needed = has_changed[k] ? none : queue->needed,
                                .joins_after = {has_changed[0] ? none : queue->joins_after[0],
                                                has_changed[k] ? none : queue->joins_after[1]},
                                .has_left = queue->has_left,
                                .foreign_entries = queue->foreign_entries};
    }
}

void
order_rewind(struct order *order, unsigned shard)
{
    struct queue *queue = &order->queues[shard];

    empty(queue);
    queue->has_head = false;
    queue->count = 0;
    queue->seen = queue->delivered;
    /* the stream may lack what was delivered */
    queue->delivered_since = queue->complete = (struct position){0, 0};
}

void
order_leave(struct order *order, unsigned shard)
{
    struct queue *queue = &order->queues[shard];

    empty(queue);
    *queue = (struct queue){.needed = queue->needed, .has_left = true};
}

/* Delivered notifications may depend on stream entries of this shard that are not stored yet. */
void
order_join(struct order *order, unsigned shard, struct position stored, struct position after)
{
    struct queue *queue = &order->queues[shard];

    *queue = (struct queue){.seen = stored,
                            .delivered = stored,
                            .delivered_since = stored,
                            .needed = queue->needed,
                            .joins_after = {after, queue->needed}};
}

bool
order_has_joined(const struct order *order, unsigned shard)
{
    const struct queue *queue = &order->queues[shard];

    return !queue->has_left && !position_less(order->queues[0].delivered, queue->joins_after[0]) &&
           !position_less(queue->delivered, queue->joins_after[1]);
}

/* Commit order does not apply to retries or to stream entries without a commit. */
static bool
is_free(const struct entry *entry)
{
    return entry->frame.commit_lsn == 0 || entry->is_retry;
}

static struct position
position_of(const struct entry *entry)
{
    return (struct position){entry->frame.commit_lsn, entry->frame.ordinal};
}

static struct held *
append(struct queue *queue)
{
    struct held *held = memory_new(sizeof(*held));

    if (queue->last != NULL)
        queue->last->next = held;
    else
        queue->first = held;
    queue->last = held;
    return held;
}

/* The WAL before this LSN is processed: a notification there that was not added was denied. */
void
order_cover(struct order *order, unsigned shard, const struct reader_covered *covered)
{
    struct queue *queue = &order->queues[shard];

    append(queue)->covered = *covered;
    position_raise(&queue->complete, (struct position){covered->lsn - 1, UINT64_MAX});
}

void
order_add(struct order *order, unsigned shard, const struct redisReply *entries)
{
    struct queue *queue = &order->queues[shard];
    struct entry entry;

    if (reply_count(entries) == 0)
        return;
    append(queue)->entries = entries;
    queue->count += reply_count(entries);
    /* A stream is in commit order: its last notification is the newest. */
    for (size_t i = reply_count(entries); i > 0; i--) {
        if (entry_read(reply_at(entries, i - 1), &entry) != RC_OK || is_free(&entry))
            continue;
        position_raise(&queue->seen, position_of(&entry));
        queue->is_skipped = false;
        queue->progress_us = queue->awaited_us = 0;
        return;
    }
}

static void
load_head(struct order *order, unsigned k)
{
    struct queue *queue = &order->queues[k];

    while (!queue->has_head && queue->first != NULL) {
        struct held *held = queue->first;
        const struct reader_covered covered = held->covered;
        const struct redisReply *element;

        if (covered.lsn != 0) {
            drop_first(queue);
            order->on_covered(order->ctx, k, &covered);
            continue;
        }
        if (held->at == reply_count(held->entries)) {
            drop_first(queue);
            continue;
        }
        element = reply_at(held->entries, held->at++);
        queue->count--;
        if (entry_read(element, &queue->head) != RC_OK) {
            queue->foreign_entries++;
            continue;
        }
        queue->head.shard = (unsigned char)k;
        queue->has_head = true;
        shard_dependency_read(reply_field(reply_at(element, 1), "after"), queue->needs,
                              order->count);
    }
}

/* True if other shards wait for a notification at this position, which may still be added. */
static bool
may_add(const struct queue *queue, struct position position)
{
    return position_less(queue->seen, position) && position_less(queue->complete, position) &&
           position_less(queue->given_up, position);
}

/* True if the head of queue k waits for a notification of shard j that was not added yet. */
static bool
lacks(const struct order *order, unsigned k, unsigned j)
{
    const struct queue *other = &order->queues[j];

    return !other->has_left && !other->is_skipped && may_add(other, order->queues[k].needs[j]);
}

static bool
is_older(const struct queue *a, const struct queue *b)
{
    return position_less(position_of(&a->head), position_of(&b->head));
}

static bool
waits_for(const struct order *order, unsigned k, unsigned j)
{
    const struct queue *other = &order->queues[j];

    return (other->has_head && is_older(other, &order->queues[k])) || lacks(order, k, j);
}

static bool
is_ready(const struct order *order, unsigned k)
{
    if (k > 0)
        return !waits_for(order, k, 0);
    for (unsigned j = 1; j < order->count; j++) {
        if (waits_for(order, 0, j))
            return false;
    }
    return true;
}

/* Returns the index of the queue whose head is the oldest ready head; -1: none. */
static int
next_queue(const struct order *order)
{
    int best = -1;

    for (unsigned k = 0; k < order->count; k++) {
        const struct queue *queue = &order->queues[k];

        if (!queue->has_head)
            continue;
        if (is_free(&queue->head))
            return (int)k;
        if ((best < 0 || is_older(queue, &order->queues[best])) && is_ready(order, k))
            best = (int)k;
    }
    return best;
}

/* Counts a head that did not wait. Later heads do not wait for the same missing notifications. */
static void
count_unordered(struct order *order, struct queue *queue)
{
    bool is_unordered = false;

    for (unsigned j = 0; j < order->count; j++) {
        struct queue *other = &order->queues[j];

        if (!other->is_skipped || !may_add(other, queue->needs[j]))
            continue;
        other->given_up = queue->needs[j];
        is_unordered = true;
    }
    order->unordered += is_unordered;
}

/* True if queue k did not wait for notifications of another shard that are not added yet. */
static bool
is_early(const struct order *order, unsigned k)
{
    const unsigned first = k == 0 ? 1 : 0, end = k == 0 ? order->count : 1;

    for (unsigned j = first; j < end; j++) {
        const struct queue *other = &order->queues[j];

        if (position_less(other->seen, other->given_up) &&
            position_less(other->complete, other->given_up))
            return true;
    }
    return false;
}

/* True if users may have received newer notifications than the head of queue k. */
static bool
is_late(const struct order *order, unsigned k)
{
    const struct position position = position_of(&order->queues[k].head);
    bool is_behind = k > 0 && position_less(position, order->queues[0].sent);

    for (unsigned j = 1; k == 0 && j < order->count; j++)
        is_behind = is_behind || position_less(position, order->queues[j].sent);
    return is_behind;
}

static void
record_delivery(struct order *order, unsigned k)
{
    struct queue *queue = &order->queues[k];
    const struct position position = position_of(&queue->head);

    count_unordered(order, queue);
    queue->head.is_early = is_early(order, k);
    queue->head.is_late = queue->head.is_late || is_late(order, k);
    position_raise(&queue->delivered, position);
    position_raise(&queue->delivered_since, position);
    position_raise(&queue->sent, position);
    for (unsigned j = 1; k == 0 && j < order->count; j++)
        position_raise(&order->queues[j].needed, queue->needs[j]);
}

/* The reply is freed after this call. Only the last reply of a queue can lack a copy. */
static void
keep(struct queue *queue, int64_t now_us)
{
    struct held *held = queue->last;
    size_t from;

    if (held == NULL || held->kept != NULL || held->covered.lsn != 0)
        return;
    held->added_us = now_us;
    from = held->at - (queue->has_head && held == queue->first ? 1 : 0);
    held->kept = reply_keep_from(held->entries, from);
    held->entries = held->kept;
    held->at -= from;
    if (held->at > 0) {
        unsigned char shard = queue->head.shard;

        if (entry_read(reply_at(held->kept, 0), &queue->head) != RC_OK)
            abort(); /* the reply was valid when it was added */
        queue->head.shard = shard;
    }
}

/* Returns since when a head has been waiting for the shard; 0: no head waits. */
static int64_t
awaited_since(const struct order *order, unsigned shard)
{
    const unsigned first = shard == 0 ? 1 : 0, end = shard == 0 ? order->count : 1;
    int64_t since_us = 0;

    for (unsigned k = first; k < end; k++) {
        const struct queue *queue = &order->queues[k];

        if (queue->has_head && lacks(order, k, shard) &&
            (since_us == 0 || queue->first->added_us < since_us))
            since_us = queue->first->added_us;
    }
    return since_us;
}

/*
 * A wait begins when the waiting notification was added, even if it was not the head then. So the
 * waits of one queue for several shards do not add up. A shard that has made progress, or was not
 * read because it was full, is awaited from then on.
 */
static void
mark_waiting(struct order *order)
{
    for (unsigned k = 0; k < order->count; k++) {
        struct queue *queue = &order->queues[k];

        queue->awaited_us = awaited_since(order, k);
        if (queue->awaited_us != 0 && queue->awaited_us < queue->progress_us)
            queue->awaited_us = queue->progress_us;
    }
}

void
order_release(struct order *order, int64_t now_us)
{
    int next;

    for (unsigned k = 0; k < order->count; k++) {
        struct queue *queue = &order->queues[k];

        if (queue->progress_us == 0 || (order_is_full(order, k) && !order_is_awaited(order, k)))
            queue->progress_us = now_us;
        load_head(order, k);
    }
    while ((next = next_queue(order)) >= 0) {
        struct queue *queue = &order->queues[next];

        if (!is_free(&queue->head))
            record_delivery(order, (unsigned)next);
        order->deliver(order->ctx, &queue->head);
        queue->has_head = false;
        load_head(order, (unsigned)next);
    }
    for (unsigned k = 0; k < order->count; k++)
        keep(&order->queues[k], now_us);
    mark_waiting(order);
}

void
order_skip(struct order *order, unsigned shard)
{
    order->queues[shard].is_skipped = true;
    order->queues[shard].awaited_us = 0;
}

int
order_skip_overdue(struct order *order, int64_t before_us)
{
    for (unsigned k = 0; k < order->count; k++) {
        if (order->queues[k].awaited_us == 0 || order->queues[k].awaited_us > before_us)
            continue;
        order_skip(order, k);
        return (int)k;
    }
    return -1;
}

bool
order_has_delivered(const struct order *order, unsigned shard, struct position position)
{
    const struct queue *queue = &order->queues[shard];

    return !queue->has_left && !position_less(queue->delivered_since, position);
}

uint64_t
order_newest_lsn(const struct order *order)
{
    uint64_t newest = 0;

    for (unsigned k = 0; k < order->count; k++) {
        const uint64_t lsn = order->queues[k].delivered.lsn;

        newest = lsn > newest ? lsn : newest;
    }
    return newest;
}

struct position
order_seen(const struct order *order, unsigned shard)
{
    return order->queues[shard].seen;
}

bool
order_is_full(const struct order *order, unsigned shard)
{
    return order->queues[shard].count >= FULL_ENTRIES;
}

bool
order_is_awaited(const struct order *order, unsigned shard)
{
    return order->queues[shard].awaited_us != 0;
}

bool
order_waits(const struct order *order)
{
    for (unsigned k = 0; k < order->count; k++) {
        if (order->queues[k].awaited_us != 0)
            return true;
    }
    return false;
}

size_t
order_foreign_entries(struct order *order, unsigned shard)
{
    size_t foreign_entries = order->queues[shard].foreign_entries;

    order->queues[shard].foreign_entries = 0;
    return foreign_entries;
}

size_t
order_unordered(struct order *order)
{
    size_t unordered = order->unordered;

    order->unordered = 0;
    return unordered;
}
