/* test_order.c: notifications of several shards are released in the order of commits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/entry.h"
#include "store/read/reader_private.h"
#include "tests/unit/store/entries.h"

#define NOTIFICATIONS 400
#define RUNS 300
#define WAIT_US 1000
#define BATCH 256

/* A shard's stream, and the number of entries that were read. */
struct stream {
    redisReply *entries[2 * NOTIFICATIONS];
    unsigned batch_of[2 * NOTIFICATIONS]; /* the batch that added the entry */
    size_t count;
    size_t read;
};

static struct stream streams[STORE_SHARDS_MAX];
static const bool has_changed[STORE_SHARDS_MAX]; /* no shard was emptied */
static unsigned shards;
static struct position newest_sent[STORE_SHARDS_MAX];
static uint64_t lsn;
static int64_t now_us = 1;

static void
add(unsigned k, unsigned batch, uint64_t of_lsn, const char *after, bool is_retry)
{
    struct stream *stream = &streams[k];

    stream->batch_of[stream->count] = batch;
    stream->entries[stream->count] =
        make_entry((unsigned)stream->count + 1, of_lsn, after, is_retry);
    stream->count++;
}

static void
reset(unsigned count)
{
    for (unsigned k = 0; k < STORE_SHARDS_MAX; k++) {
        for (size_t i = 0; i < streams[k].count; i++)
            drop(streams[k].entries[i]);
        streams[k] = (struct stream){.count = 0};
        newest_sent[k] = (struct position){0, 0};
    }
    shards = count;
    now_us = 1;
    lsn = UINT64_C(0xfffffff0); /* after 16 entries it has one more hexadecimal digit */
}

static int
tear_down(void **state)
{
    (void)state;
    reset(0);
    return 0;
}

/* As in a feed's batch, each shard's first notification contains the dependency of the batch. */
static void
write_batch(unsigned batch, unsigned count)
{
    unsigned of[BATCH];
    char after[SHARD_DEPENDENCY_MAX];
    bool has_part[STORE_SHARDS_MAX] = {false};

    for (unsigned i = 0; i < count; i++) {
        of[i] = rand() % 3 == 0 ? 0 : (unsigned)rand() % shards;
        newest_sent[of[i]] = (struct position){lsn + i + 1, 1};
    }
    for (unsigned i = 0; i < count; i++) {
        after[0] = '\0';
        if (!has_part[of[i]])
            shard_dependency_text(of[i], newest_sent, shards, after);
        has_part[of[i]] = true;
        add(of[i], batch, ++lsn, after, false);
    }
    /* Entries of other writers. */
    if (rand() % 4 == 0)
        add((unsigned)rand() % shards, batch, 0, "", false);
    if (rand() % 4 == 0)
        add((unsigned)rand() % shards, batch, lsn / 2, "", true);
}

/* The results of the checks in release(). */
struct released {
    size_t count;
    bool is_wrong;
    uint64_t next[STORE_SHARDS_MAX]; /* the next entry of each stream */
    uint64_t newest[STORE_SHARDS_MAX];
    size_t late, early;
    char list[256]; /* shard and ms of the first entries */
};

static void
release(void *ctx, const struct entry *entry)
{
    struct released *released = ctx;
    unsigned k = entry->shard;
    uint64_t at = entry->frame.commit_lsn;

    released->count++;
    released->late += entry->is_late;
    released->early += entry->is_early;
    released->is_wrong = released->is_wrong || entry->id.ms != ++released->next[k];
    if (strlen(released->list) < sizeof(released->list) - 16)
        snprintf(released->list + strlen(released->list), 16, "%u:%u ", k, (unsigned)entry->id.ms);
    if (at == 0 || entry->is_retry)
        return;
    released->is_wrong = released->is_wrong || at <= released->newest[k];
    for (unsigned j = k == 0 ? 1 : 0; j < (k == 0 ? shards : 1); j++)
        released->is_wrong = released->is_wrong || at <= released->newest[j];
    released->newest[k] = at;
}

static void
cover(void *ctx, unsigned shard, const struct reader_covered *covered)
{
    struct released *released = ctx;

    snprintf(released->list + strlen(released->list), 16, "%u<%u ", shard, (unsigned)covered->lsn);
}

/* Reads up to `max` entries of a stream; false if none remain. */
static bool
read_some(struct order *order, unsigned k, size_t max)
{
    struct stream *stream = &streams[k];
    redisReply *reply;

    if (max > stream->count - stream->read)
        max = stream->count - stream->read;
    if (max == 0)
        return false;
    reply = array(max);
    memcpy(reply->element, stream->entries + stream->read, max * sizeof(*reply->element));
    stream->read += max;
    order_add(order, k, reply);
    order_release(order, now_us);
    free(reply->element); /* the stream owns the elements */
    free(reply);
    return true;
}

/* A reader connects to the shards at different times, so each starts after a different batch. */
static void
begin(struct order *order, struct released *released, unsigned batches, const uint64_t *ends)
{
    struct position stored[STORE_SHARDS_MAX];

    memset(released, 0, sizeof(*released));
    for (unsigned k = 0; k < shards; k++) {
        struct stream *stream = &streams[k];
        unsigned batch = batches > 0 ? (unsigned)rand() % batches : 0;

        while (stream->read < stream->count && stream->batch_of[stream->read] < batch)
            stream->read++;
        stored[k] =
            batch > 0 ? (struct position){ends[batch - 1], UINT64_MAX} : (struct position){0, 0};
        released->next[k] = stream->read;
    }
    order_begin(order, stored, has_changed);
}

static size_t
left(void)
{
    size_t sum = 0;

    for (unsigned k = 0; k < shards; k++)
        sum += streams[k].count - streams[k].read;
    return sum;
}

static void
check_random_order(unsigned seed)
{
    static const unsigned counts[] = {2, 3, 4, 7, 16};
    uint64_t ends[NOTIFICATIONS];
    struct released released;
    struct order *order;
    unsigned batches = 0;
    size_t wanted;

    srand(seed);
    reset(counts[seed % 5]);
    for (unsigned notifications = 0; notifications < NOTIFICATIONS; batches++) {
        unsigned size = 1 + (unsigned)rand() % (rand() % 3 == 0 ? 1 : rand() % 8 == 0 ? BATCH : 16);

        write_batch(batches, size);
        ends[batches] = lsn;
        notifications += size;
    }
    order = order_new(shards, release, NULL, &released);
    begin(order, &released, seed % 2 == 0 ? 0 : batches, ends);
    wanted = left();
    /* One shard lags: it is read only when no other shard can be read. */
    for (unsigned lags = (unsigned)rand() % (2 * shards); left() > 0;) {
        bool has_read = false;

        for (unsigned turn = 0; turn < 4 * shards; turn++) {
            unsigned k = (unsigned)rand() % shards;

            if (k != lags && (!order_is_full(order, k) || order_is_awaited(order, k)))
                has_read = read_some(order, k, 1 + (size_t)rand() % 20) || has_read;
        }
        if (!has_read)
            for (unsigned k = 0; k < shards; k++)
                has_read = ((!order_is_full(order, k) || order_is_awaited(order, k)) &&
                            read_some(order, k, 1)) ||
                           has_read;
        if (!has_read)
            fail_msg("seed %u: no further entry is read", seed);
    }
    assert_int_equal(released.late, 0);
    assert_int_equal(released.early, 0);
    if (released.is_wrong || released.count != wanted)
        fail_msg("seed %u: %zu of %zu, %s order", seed, released.count, wanted,
                 released.is_wrong ? "not in" : "in");
    assert_int_equal(order_unordered(order), 0);
    assert_false(order_waits(order));
    order_free(order);
}

/* A session of a user of one shard: it reads pages of stored entries, then released entries. */
struct joined {
    struct released released;
    unsigned shard;
    bool has_joined;
    uint64_t own, shared; /* LSNs of the newest entries of the shard, and of shard 0 */
    bool is_wrong;
};

static void
release_to_user(void *ctx, const struct entry *entry)
{
    struct joined *joined = ctx;
    const uint64_t at = entry->frame.commit_lsn;
    uint64_t *newest = entry->shard == 0 ? &joined->shared : &joined->own;
    const uint64_t *other = entry->shard == 0 ? &joined->own : &joined->shared;

    if (at == 0 || entry->is_retry || (entry->shard != 0 && entry->shard != joined->shard))
        return;
    joined->is_wrong |= joined->has_joined && (at <= *newest || at <= *other);
    *newest = at;
}

/* Joins with the position of the shard's newest entry and the last `after`, as follow.lua does. */
static void
join(struct order *order, struct joined *joined)
{
    struct stream *stream = &streams[joined->shard];
    struct position after[STORE_SHARDS_MAX] = {{0, 0}}, stored = {0, 0};

    for (size_t i = 0; i < stream->count; i++) {
        const redisReply *fields = stream->entries[i]->element[1];
        struct entry entry;

        assert_int_equal(entry_read(stream->entries[i], &entry), RC_OK);
        if (entry.is_retry || entry.frame.commit_lsn == 0)
            continue;
        stored = (struct position){entry.frame.commit_lsn, entry.frame.ordinal};
        shard_dependency_read(reply_field(fields, "after"), after, shards);
    }
    stream->read = stream->count;
    joined->own = stored.lsn;
    order_join(order, joined->shard, stored, after[0]);
}

/* Some of a batch's entries become visible later: its parts are stored one after the other. */
static void
hide_some(size_t *hidden)
{
    for (unsigned k = 0; k < shards; k++) {
        size_t newest = streams[k].count;
        unsigned last = newest > 0 ? streams[k].batch_of[newest - 1] : 0;

        while (rand() % 2 == 0 && newest > streams[k].read && newest > 0 &&
               streams[k].batch_of[newest - 1] == last)
            newest--;
        hidden[k] = streams[k].count - newest;
        streams[k].count = newest;
    }
}

static void
show(const size_t *hidden)
{
    for (unsigned k = 0; k < shards; k++)
        streams[k].count += hidden[k];
}

static void
read_at_random(struct order *order, unsigned turns, unsigned left)
{
    for (unsigned turn = 0; turn < turns; turn++) {
        unsigned k = (unsigned)rand() % shards;

        if (k != left)
            (void)read_some(order, k, 1 + (size_t)rand() % 20);
    }
}

/* A reader follows a shard while batches of this shard and of shard 0 are stored and read. */
static void
check_random_join(unsigned seed)
{
    struct joined joined = {.shard = 1};
    struct position stored[STORE_SHARDS_MAX] = {{0, 0}};
    size_t hidden[STORE_SHARDS_MAX];
    struct order *order;

    srand(seed);
    reset(2 + seed % 3);
    order = order_new(shards, release_to_user, NULL, &joined);
    order_begin(order, stored, has_changed);
    order_leave(order, joined.shard);
    for (unsigned batch = 0, join_at = (unsigned)rand() % 10; batch < 20; batch++) {
        write_batch(batch, 1 + (unsigned)rand() % 16);
        hide_some(hidden);
        read_at_random(order, (unsigned)rand() % 8, batch > join_at ? shards : joined.shard);
        if (batch == join_at)
            join(order, &joined);
        read_at_random(order, (unsigned)rand() % 8, batch >= join_at ? shards : joined.shard);
        joined.has_joined = joined.has_joined || order_has_joined(order, joined.shard);
        show(hidden);
    }
    read_at_random(order, 400, shards);
    assert_true(order_has_joined(order, joined.shard));
    if (joined.is_wrong)
        fail_msg("seed %u: not in order", seed);
    assert_int_equal(order_unordered(order), 0);
    order_free(order);
}

static void
test_shard_that_joins_is_in_order(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20 * RUNS; seed++)
        check_random_join(seed);
}

static void
test_random_reads_keep_commit_order(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= RUNS; seed++)
        check_random_order(seed);
}

/* Two shards with one notification each; shard `first` has the older notification. */
static struct order *
begin_two(struct released *released, unsigned first)
{
    char after[SHARD_DEPENDENCY_MAX];
    struct order *order;

    reset(2);
    newest_sent[first] = (struct position){10, 1};
    newest_sent[1 - first] = (struct position){11, 1};
    shard_dependency_text(first, newest_sent, 2, after);
    add(first, 0, 10, after, false);
    shard_dependency_text(1 - first, newest_sent, 2, after);
    add(1 - first, 0, 11, after, false);
    order = order_new(2, release, cover, released);
    begin(order, released, 0, NULL);
    return order;
}

static void
test_missing_entry_is_awaited(void **state)
{
    (void)state;
    for (unsigned first = 0; first < 2; first++) {
        struct released released;
        struct order *order = begin_two(&released, first);

        assert_true(read_some(order, 1 - first, 9));
        assert_int_equal(released.count, 0);
        assert_true(order_waits(order));
        assert_true(order_is_awaited(order, first));
        assert_false(order_is_awaited(order, 1 - first));
        assert_true(read_some(order, first, 9));
        assert_string_equal(released.list, first == 0 ? "0:1 1:1 " : "1:1 0:1 ");
        assert_false(order_waits(order));
        order_free(order);
    }
}

static void
test_position_follows_the_entries_of_its_shard(void **state)
{
    struct released released;
    struct order *order = begin_two(&released, 0);

    (void)state;
    assert_true(read_some(order, 1, 9));
    order_cover(order, 1, &(struct reader_covered){.lsn = 20});
    order_cover(order, 0, &(struct reader_covered){.lsn = 5});
    order_release(order, 0);
    assert_string_equal(released.list, "0<5 ");
    assert_true(read_some(order, 0, 9));
    assert_string_equal(released.list, "0<5 0:1 1:1 1<20 ");
    order_cover(order, 1, &(struct reader_covered){.lsn = 30});
    order_rewind(order, 1);
    order_release(order, 0);
    assert_string_equal(released.list, "0<5 0:1 1:1 1<20 ");
    order_free(order);
}

/* The feed has sent it, and the store has denied it: no shard waits for it. */
static void
test_denied_entry_is_not_awaited(void **state)
{
    (void)state;
    for (unsigned first = 0; first < 2; first++) {
        struct released released;
        struct order *order = begin_two(&released, first);

        assert_true(read_some(order, 1 - first, 9));
        order_cover(order, first, &(struct reader_covered){.lsn = 10}); /* not behind it */
        order_release(order, 0);
        assert_int_equal(released.count, 0);
        assert_true(order_is_awaited(order, first));
        order_cover(order, first, &(struct reader_covered){.lsn = 11});
        order_release(order, 0);
        assert_int_equal(released.count, 1);
        assert_false(order_waits(order));
        assert_int_equal(order_unordered(order), 0);
        order_free(order);
    }
}

/* A server that follows the former one may lack what that one covered. */
static void
test_rewound_shard_may_add_what_it_covered(void **state)
{
    struct released released;
    struct order *order = begin_two(&released, 1);

    (void)state;
    order_cover(order, 1, &(struct reader_covered){.lsn = 12});
    order_release(order, 0);
    order_rewind(order, 1);
    assert_true(read_some(order, 0, 9));
    assert_int_equal(released.count, 0);
    assert_true(order_is_awaited(order, 1));
    order_free(order);
}

/* A failover: waiting entries may be of the former primary, and are read again from the new one. */
static void
test_rewound_shard_is_awaited(void **state)
{
    struct released released;
    struct order *order = begin_two(&released, 1);

    (void)state;
    assert_true(read_some(order, 1, 9));
    order_rewind(order, 1);
    streams[1].read = 0;
    assert_true(read_some(order, 0, 9));
    assert_int_equal(released.count, 0);
    assert_true(order_is_awaited(order, 1));
    assert_true(read_some(order, 1, 9));
    assert_string_equal(released.list, "1:1 0:1 ");
    order_free(order);
}

static void
test_unread_shard_is_not_awaited(void **state)
{
    struct released released;
    struct order *order = begin_two(&released, 1);

    (void)state;
    order_leave(order, 1);
    assert_false(order_has_joined(order, 1));
    assert_true(read_some(order, 0, 9));
    assert_string_equal(released.list, "0:1 ");
    assert_false(order_waits(order));
    /* The shard's entry is not stored yet, and its users must not miss it. */
    order_join(order, 1, (struct position){0, 0}, (struct position){0, 0});
    assert_false(order_has_joined(order, 1));
    assert_true(read_some(order, 1, 9));
    assert_true(order_has_joined(order, 1));
    order_free(order);
}

/* The reader restarts, in one case because shard 1 was emptied, before its entry is stored. */
static void
test_shard_joins_after_a_restart(void **state)
{
    const struct position stored[] = {{11, 1}, {0, 0}};
    const bool changes[][2] = {{false, false}, {false, true}};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct released released;
        struct order *order = begin_two(&released, 1);

        order_leave(order, 1);
        assert_true(read_some(order, 0, 9));
        order_begin(order, stored, changes[i]);
        order_join(order, 1, (struct position){0, 0}, (struct position){0, 0});
        assert_int_equal(order_has_joined(order, 1), changes[i][1]);
        order_begin(order, stored, changes[i]);
        assert_int_equal(order_has_joined(order, 1), changes[i][1]);
        assert_true(read_some(order, 1, 9));
        assert_true(order_has_joined(order, 1));
        order_free(order);
    }
}

/* The shard's newest entry follows an entry of shard 0 that was not read yet. */
static void
test_shard_being_merged_after_a_restart(void **state)
{
    const struct position stored[] = {{0, 0}, {11, 1}};
    const bool changes[][2] = {{false, false}, {true, false}};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct released released;
        struct order *order = begin_two(&released, 0);

        order_leave(order, 1);
        order_join(order, 1, stored[1], (struct position){10, 1});
        order_begin(order, stored, changes[i]);
        assert_int_equal(order_has_joined(order, 1), changes[i][0]);
        assert_true(read_some(order, 0, 9));
        assert_true(order_has_joined(order, 1));
        order_free(order);
    }
}

static void
test_wait_times_out(void **state)
{
    struct released released;
    struct order *order = begin_two(&released, 0);

    (void)state;
    assert_true(read_some(order, 1, 9));
    assert_int_equal(order_skip_overdue(order, 0), -1);
    assert_int_equal(order_skip_overdue(order, WAIT_US), 0);
    assert_int_equal(order_skip_overdue(order, WAIT_US), -1);
    order_release(order, 1);
    assert_string_equal(released.list, "1:1 ");
    assert_int_equal(order_unordered(order), 1);
    /* Later entries do not wait until the shard delivers again. */
    add(1, 1, 13, "0:c.1", false);
    assert_true(read_some(order, 1, 9));
    assert_string_equal(released.list, "1:1 1:2 ");
    assert_int_equal(released.late, 0);
    assert_true(read_some(order, 0, 9));
    assert_int_equal(released.late, 1);
    assert_int_equal(released.early, 2);
    add(1, 2, 15, "0:e.1", false);
    assert_true(read_some(order, 1, 9));
    assert_string_equal(released.list, "1:1 1:2 0:1 ");
    assert_true(order_is_awaited(order, 0));
    order_free(order);
}

static void
test_lost_entry_is_awaited_once(void **state)
{
    struct released released;
    struct order *order = begin_two(&released, 0);

    (void)state;
    assert_true(read_some(order, 1, 9));
    assert_int_equal(order_skip_overdue(order, WAIT_US), 0);
    order_release(order, 1);
    add(1, 1, 13, "0:a.1", false);
    assert_true(read_some(order, 1, 9));
    assert_int_equal(released.count, 2);
    assert_int_equal(order_unordered(order), 1);
    assert_int_equal(released.early, 2);
    order_free(order);
}

/* Skips as the reader's timer does, at the current time. */
static int
skip_overdue(struct order *order)
{
    int count = 0;

    while (order_skip_overdue(order, now_us - WAIT_US) >= 0)
        count++;
    order_release(order, now_us);
    return count;
}

/* Three shards are lost. Each notification of shard 0 depends on one more of them. */
static void
test_waits_for_several_shards_do_not_add_up(void **state)
{
    const struct position none[STORE_SHARDS_MAX] = {{0, 0}};
    struct released released = {0};
    struct order *order;

    (void)state;
    reset(5);
    order = order_new(5, release, NULL, &released);
    order_begin(order, none, has_changed);
    add(0, 0, 11, "1:a.1", false);
    add(0, 1, 13, "2:c.1", false);
    add(0, 2, 15, "3:e.1", false);
    add(4, 2, 16, "0:f.1", false); /* a user of a shard that is not lost */
    for (unsigned i = 0; i < 3; i++, now_us += WAIT_US / 10)
        assert_true(read_some(order, 0, 1));
    assert_true(read_some(order, 4, 1));
    now_us = 1 + WAIT_US;
    assert_int_equal(skip_overdue(order), 1);
    assert_string_equal(released.list, "0:1 ");
    now_us += WAIT_US / 10;
    assert_int_equal(skip_overdue(order), 1);
    assert_string_equal(released.list, "0:1 0:2 ");
    now_us += WAIT_US / 10;
    assert_int_equal(skip_overdue(order), 1);
    assert_string_equal(released.list, "0:1 0:2 0:3 4:1 ");
    order_free(order);
}

/* Shard 2 is not lost, but it is read again only after its entries in memory are delivered. */
static void
test_full_shard_is_awaited_from_then_on(void **state)
{
    const struct position none[STORE_SHARDS_MAX] = {{0, 0}};
    struct released released = {0};
    struct order *order;

    (void)state;
    reset(3);
    order = order_new(3, release, NULL, &released);
    order_begin(order, none, has_changed);
    add(0, 0, 11, "1:a.1", false);
    add(0, 1, 1000, "2:3e7.1", false);
    for (unsigned i = 0; i < 200; i++)
        add(2, 0, i == 199 ? 999 : 12 + i, i == 0 ? "0:b.1" : "", false);
    assert_true(read_some(order, 0, 9));
    while (!order_is_full(order, 2))
        assert_true(read_some(order, 2, 10));
    now_us += WAIT_US;
    assert_int_equal(skip_overdue(order), 1);
    assert_true(order_is_awaited(order, 2));
    assert_int_equal(skip_overdue(order), 0);
    assert_true(read_some(order, 2, 200));
    assert_false(released.is_wrong);
    assert_int_equal(released.late, 0);
    assert_int_equal(released.count, 202);
    order_free(order);
}

/* The reader knows that shard 0 is lost. */
static void
test_skipped_shard_is_awaited_after_it_adds(void **state)
{
    struct released released;
    struct order *order = begin_two(&released, 0);

    (void)state;
    order_skip(order, 0);
    assert_true(read_some(order, 1, 9));
    assert_string_equal(released.list, "1:1 ");
    assert_int_equal(order_seen(order, 0).lsn, 0); /* it was not added */
    add(1, 2, 15, "0:e.1", false);
    assert_true(read_some(order, 0, 9));
    assert_true(read_some(order, 1, 9));
    assert_string_equal(released.list, "1:1 0:1 ");
    assert_true(order_is_awaited(order, 0));
    order_free(order);
}

static void
test_entry_without_commit_waits_only_for_its_stream(void **state)
{
    struct released released;
    struct order *order = begin_two(&released, 0);

    (void)state;
    add(1, 1, 0, "", false);
    add(1, 1, 5, "", true);
    assert_true(read_some(order, 1, 9));
    assert_int_equal(released.count, 0);
    add(0, 1, 0, "", false);
    assert_true(read_some(order, 0, 9));
    assert_string_equal(released.list, "0:1 0:2 1:1 1:2 1:3 ");
    assert_false(released.is_wrong);
    order_free(order);
}

static void
test_restart_drops_waiting_entries(void **state)
{
    const struct position stored[] = {{20, 1}, {20, 1}};
    struct released released;
    struct order *order = begin_two(&released, 0);

    (void)state;
    assert_true(read_some(order, 1, 9));
    order_begin(order, stored, has_changed);
    order_release(order, 1);
    assert_false(order_waits(order));
    assert_int_equal(released.count, 0);
    assert_int_equal(order_seen(order, 0).lsn, 20);
    add(1, 1, 21, "0:14.1", false);
    released.next[1] = 1;
    assert_true(read_some(order, 1, 9));
    assert_int_equal(released.count, 1);
    assert_false(released.is_wrong);
    order_free(order);
}

/* While one shard lags, the others are read up to the limit. */
static void
test_waiting_entries_are_limited(void **state)
{
    struct released released;
    struct order *order = begin_two(&released, 0);
    size_t reads = 0;

    (void)state;
    for (unsigned i = 0; i < NOTIFICATIONS; i++)
        add(1, 1, 12 + i, "", false);
    while (!order_is_full(order, 1) && read_some(order, 1, 10))
        reads++;
    assert_in_range(reads, 2, NOTIFICATIONS / 10 - 1);
    assert_int_equal(released.count, 0);
    assert_true(read_some(order, 0, 10));
    assert_false(order_is_full(order, 1));
    assert_int_equal(released.count, 1 + streams[1].read);
    order_free(order);
}

static void
test_foreign_entries_are_counted(void **state)
{
    struct released released;
    struct order *order = begin_two(&released, 0);

    (void)state;
    add(0, 1, 12, "", false);
    streams[0].entries[1]->element[1]->elements = 2;
    for (size_t i = 2; i < 6; i++)
        drop(streams[0].entries[1]->element[1]->element[i]);
    assert_true(read_some(order, 0, 9));
    assert_true(read_some(order, 1, 9));
    assert_int_equal(order_foreign_entries(order, 0), 1);
    assert_int_equal(order_foreign_entries(order, 0), 0);
    order_free(order);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shard_that_joins_is_in_order),
        TEST(test_random_reads_keep_commit_order),
        TEST(test_missing_entry_is_awaited),
        TEST(test_position_follows_the_entries_of_its_shard),
        TEST(test_denied_entry_is_not_awaited),
        TEST(test_rewound_shard_may_add_what_it_covered),
        TEST(test_rewound_shard_is_awaited),
        TEST(test_unread_shard_is_not_awaited),
        TEST(test_shard_joins_after_a_restart),
        TEST(test_shard_being_merged_after_a_restart),
        TEST(test_wait_times_out),
        TEST(test_lost_entry_is_awaited_once),
        TEST(test_waits_for_several_shards_do_not_add_up),
        TEST(test_full_shard_is_awaited_from_then_on),
        TEST(test_skipped_shard_is_awaited_after_it_adds),
        TEST(test_entry_without_commit_waits_only_for_its_stream),
        TEST(test_restart_drops_waiting_entries),
        TEST(test_waiting_entries_are_limited),
        TEST(test_foreign_entries_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
