/* test_store_batch.c: frames are grouped into batches, and no frame is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/write/batch.h"
#include "store/shards/shard.h"

static struct shard shards[STORE_SHARDS_MAX];
static struct store single = {.shards = shards, .shard_count = 1};

static struct bytes
text(const char *text)
{
    return (struct bytes){(const unsigned char *)text, strlen(text)};
}

static struct frame
make_notification(unsigned char id, uint16_t flags)
{
    struct frame frame = {
        .kind = FRAME_KIND_NOTIFICATION, .flags = flags, .commit_lsn = 7, .ordinal = id};

    frame.as.notification.id[15] = id;
    frame.as.notification.head = text("head");
    frame.as.notification.data = text(id % 2 == 0 ? "even" : "odd");
    return frame;
}

static const struct frame commit = {
    .kind = FRAME_KIND_COMMIT, .commit_lsn = 7, .ordinal = FRAME_ORDINAL_COMMIT};

static void
test_notifications_without_acks_are_simple(void **state)
{
    struct store_batch *batch = store_batch_new(&single);
    const uint16_t others[] = {FRAME_ACK_REQUIRED, FRAME_UNDECODABLE};
    struct frame plain = make_notification(1, FRAME_RETRY_ENABLED);
    struct frame member = {.kind = FRAME_KIND_MEMBER};

    (void)state;
    store_batch_add(batch, &plain);
    store_batch_add(batch, &commit);
    assert_true(batch->parts[0].is_simple);
    assert_int_equal(batch->parts[0].notifications, 1);
    for (size_t i = 0; i < 2; i++) {
        struct frame other = make_notification(2, others[i]);

        store_batch_add(batch, &other);
        assert_false(batch->parts[0].is_simple);
        batch_clear(batch);
        assert_true(batch->parts[0].is_simple);
    }
    store_batch_add(batch, &member);
    assert_false(batch->parts[0].is_simple);
    batch_clear(batch);
    store_batch_reject(batch, &plain);
    assert_false(batch->parts[0].is_simple);
    store_batch_free(batch);
}

static void
test_a_member_has_its_transaction(void **state)
{
    static const char *const expected[] = {"+", NULL, "ROLE", "admin", "u1", "12884901895"};
    struct store_batch *batch = store_batch_new(&single);
    struct frame member = {.kind = FRAME_KIND_MEMBER,
                           .as.member = {.added = true, .xid = UINT64_C(0x300000007)}};

    (void)state;
    member.as.member.audience = text("ROLE");
    member.as.member.target = text("admin");
    member.as.member.user = text("u1");
    store_batch_add(batch, &member);
    assert_int_equal(batch->parts[0].argc, BATCH_RESERVED + 6);
    for (size_t i = 0; i < 6; i++)
        if (expected[i] != NULL)
            assert_memory_equal(batch->parts[0].argv[BATCH_RESERVED + i], expected[i],
                                batch->parts[0].lens[BATCH_RESERVED + i]);
    assert_int_equal(batch->parts[0].lens[BATCH_RESERVED + 5], strlen(expected[5]));
    store_batch_free(batch);
}

static void
test_a_reload_has_its_rule_and_transaction(void **state)
{
    static const char *const expected[] = {"L", "00000000000000070000000000000009", "s.t", "mine",
                                           "12884901895"};
    struct store_batch *batch = store_batch_new(&single);
    struct frame reload = {.kind = FRAME_KIND_RELOAD,
                           .commit_lsn = 7,
                           .ordinal = 9,
                           .as.reload = {.xid = UINT64_C(0x300000007)}};

    (void)state;
    reload.as.reload.source = text("s.t");
    reload.as.reload.rule = text("mine");
    store_batch_add(batch, &reload);
    assert_false(batch->parts[0].is_simple);
    assert_int_equal(batch->parts[0].argc, BATCH_RESERVED + 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(batch->parts[0].lens[BATCH_RESERVED + i], strlen(expected[i]));
        assert_memory_equal(batch->parts[0].argv[BATCH_RESERVED + i], expected[i],
                            strlen(expected[i]));
    }
    store_batch_free(batch);
}

static void
test_iteration_is_in_order(void **state)
{
    struct store_batch *batch = store_batch_new(&single);
    struct batch_notification found;
    size_t at = 0;

    (void)state;
    for (int i = 1; i <= 200; i++) {
        struct frame frame = make_notification((unsigned char)i, 0);

        if (i % 3 == 0)
            store_batch_add(batch, &commit);
        store_batch_add(batch, &frame);
    }
    store_batch_add(batch, &commit);
    for (int i = 1; i <= 200; i++) {
        char id[FRAME_UUID_TEXT + 1];
        struct frame frame = make_notification((unsigned char)i, 0);

        assert_int_equal(batch_next_notification(&batch->parts[0], &at, &found), RC_OK);
        frame_id_text(frame.as.notification.id, id);
        assert_int_equal(found.id.len, FRAME_UUID_TEXT);
        assert_memory_equal(found.id.at, id, FRAME_UUID_TEXT);
        assert_memory_equal(found.route.at, "head", found.route.len);
        assert_memory_equal(found.data.at, i % 2 == 0 ? "even" : "odd", found.data.len);
    }
    assert_int_equal(batch_next_notification(&batch->parts[0], &at, &found), RC_CLOSED);
    store_batch_free(batch);
}

/* The number of frames like `first` that a batch accepts before `next` needs a new batch. */
static size_t
count_until_full(const struct frame *first, const struct frame *next)
{
    struct store_batch *batch = store_batch_new(&single);
    size_t count;

    while (!store_batch_is_full(batch, next))
        store_batch_add(batch, first);
    count = store_batch_count(batch);
    store_batch_free(batch);
    return count;
}

static void
test_batch_ends_where_the_method_changes(void **state)
{
    struct frame plain = make_notification(1, 0), acked = make_notification(2, FRAME_ACK_REQUIRED);
    struct frame member = {.kind = FRAME_KIND_MEMBER};
    struct frame reload = {.kind = FRAME_KIND_RELOAD};

    (void)state;
    assert_int_equal(count_until_full(&plain, &plain), STORE_BATCH_FRAMES_MAX);
    assert_int_equal(count_until_full(&plain, &commit), STORE_BATCH_FRAMES_MAX);
    assert_in_range(count_until_full(&acked, &acked), 2, STORE_BATCH_FRAMES_MAX / 2);
    /* Relays must read a membership before later notifications. */
    assert_int_equal(count_until_full(&acked, &member), 1);
    assert_int_equal(count_until_full(&plain, &member), 1);
    assert_int_equal(count_until_full(&plain, &reload), 1);
    assert_int_equal(count_until_full(&member, &member), STORE_BATCH_FRAMES_MAX);
    assert_int_equal(count_until_full(&member, &acked), count_until_full(&acked, &acked));
    assert_int_equal(count_until_full(&acked, &commit), count_until_full(&acked, &acked));
    assert_in_range(count_until_full(&plain, &acked), 2, count_until_full(&acked, &acked) - 1);
    assert_int_equal(count_until_full(&member, &plain), count_until_full(&plain, &acked));
}

static struct frame
notification_for(const char *audience, struct bytes targets, uint32_t count, unsigned char id)
{
    struct frame frame = make_notification(id, 0);

    frame.as.notification.audience = text(audience);
    frame.as.notification.targets = targets;
    frame.as.notification.target_count = count;
    return frame;
}

#define TARGETS_U1 ((struct bytes){(const unsigned char *)"\0\2u1", 4})
#define TARGETS_TWO ((struct bytes){(const unsigned char *)"\0\2u1\0\2u2", 8})

static void
test_large_notification_ends_a_batch(void **state)
{
    static unsigned char bytes[STORE_LARGE_BYTES];
    struct store_batch *batch = store_batch_new(&single);
    struct frame small = make_notification(1, 0), large = make_notification(2, 0);

    (void)state;
    large.as.notification.data = (struct bytes){bytes, sizeof(bytes) - strlen("head")};
    store_batch_add(batch, &small);
    assert_int_equal(batch->parts[0].large, 0);
    assert_false(store_batch_is_full(batch, &large));
    store_batch_add(batch, &large);
    assert_int_equal(batch->parts[0].large, STORE_LARGE_BYTES);
    assert_true(store_batch_is_full(batch, &small));
    assert_false(store_batch_is_full(batch, &commit));
    batch_clear(batch);
    assert_false(store_batch_is_full(batch, &small));
    store_batch_reject(batch, &large);
    assert_int_equal(batch->parts[0].large, 0);
    store_batch_free(batch);
}

static void
test_notification_for_one_user_is_in_the_users_shard(void **state)
{
    struct store four = {.shards = shards, .shard_count = 4};
    unsigned own = shard_of_user(4, "u1", 2);
    const struct frame frames[] = {notification_for("USER", TARGETS_U1, 1, 1),
                                   notification_for("USER", TARGETS_TWO, 2, 2),
                                   notification_for("TEAM", TARGETS_U1, 1, 3), commit};
    struct store_batch *batch = store_batch_new(&four);

    (void)state;
    assert_in_range(own, 1, 3);
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++)
        store_batch_add(batch, &frames[i]);
    assert_int_equal(store_batch_count(batch), 4);
    for (unsigned k = 0; k < 4; k++)
        assert_int_equal(batch->parts[k].notifications, k == own ? 1 : k == 0 ? 2 : 0);
    batch_clear(batch);
    store_batch_add(batch, &commit);
    assert_true(store_batch_bytes(batch) > 0); /* a commit alone advances the progress */
    store_batch_free(batch);
}

/* The shard of a user must never change, because stored data depends on it. */
static void
test_users_keep_their_shards(void **state)
{
    (void)state;
    assert_int_equal(shard_of_user(1, "u1", 2), 0);
    assert_int_equal(shard_of_user(2, "u1", 2), 1);
    assert_int_equal(shard_of_user(16, "", 0), 1 + 0xcbf29ce484222325ull % 15);
    assert_int_equal(shard_of_user(16, "a", 1), 1 + 0xaf63dc4c8601ec8cull % 15);
    assert_int_equal(shard_of_user(16, "foobar", 6), 1 + 0x85944171f73967e8ull % 15);
}

static void
test_shard_receives_only_missing_frames(void **state)
{
    static struct shard ahead[4];
    struct store four = {.shards = ahead, .shard_count = 4};
    unsigned own = shard_of_user(4, "u1", 2);
    struct stats stats = {0};
    struct store_batch *batch;

    (void)state;
    four.stats = &stats;
    ahead[own].stored = (struct position){7, 5};
    batch = store_batch_new(&four);
    for (unsigned char i = 4; i <= 6; i++) {
        struct frame mine = notification_for("USER", TARGETS_U1, 1, i);
        struct frame group = notification_for("TEAM", TARGETS_U1, 1, i);

        store_batch_add(batch, &mine);
        store_batch_add(batch, &group);
    }
    assert_int_equal(batch->parts[own].notifications, 1);
    assert_int_equal(batch->parts[0].notifications, 3);
    assert_int_equal(store_batch_count(batch), 6);
    store_batch_free(batch);
}

/* Later entries of other shards depend on this notification. */
static void
test_newest_notification_of_each_shard_is_recorded(void **state)
{
    static struct shard noting[4];
    struct store four = {.shards = noting, .shard_count = 4};
    unsigned own = shard_of_user(4, "u1", 2);
    struct stats stats = {0};
    struct frame frames[] = {notification_for("USER", TARGETS_U1, 1, 2),
                             notification_for("TEAM", TARGETS_U1, 1, 3),
                             notification_for("USER", TARGETS_U1, 1, 4), commit};
    struct frame rejected = notification_for("TEAM", TARGETS_U1, 1, 9);
    struct store_batch *batch;

    (void)state;
    four.stats = &stats;
    /* shard 0 already has the notification for the team */
    noting[0].stored = (struct position){7, 5};
    batch = store_batch_new(&four);
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++)
        store_batch_add(batch, &frames[i]);
    store_batch_reject(batch, &rejected);
    batch_clear(batch); /* as after sending it */
    for (unsigned k = 0; k < 4; k++) {
        assert_int_equal(noting[k].newest_sent.lsn, k == 0 || k == own ? 7 : 0);
        assert_int_equal(noting[k].newest_sent.ordinal, k == 0 ? 3 : k == own ? 4 : 0);
    }
    store_batch_free(batch);
}

/* Sessions may have received newer notifications of another shard. */
static void
test_late_notifications_are_marked(void **state)
{
    static struct shard behind[4];
    struct store four = {.shards = behind, .shard_count = 4};
    unsigned own = shard_of_user(4, "u1", 2);
    struct store_batch *batch;
    struct batch_notification found;
    size_t at = 0;

    (void)state;
    behind[own].late_before = (struct position){7, 5};
    batch = store_batch_new(&four);
    for (unsigned char i = 4; i <= 5; i++) {
        struct frame mine = notification_for("USER", TARGETS_U1, 1, i);
        struct frame group = notification_for("TEAM", TARGETS_U1, 1, i);

        mine.as.notification.head = group.as.notification.head = text("HEADHEAD");
        store_batch_add(batch, &mine);
        store_batch_add(batch, &group);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(batch_next_notification(&batch->parts[own], &at, &found), RC_OK);
        assert_int_equal(found.route.at[FRAME_AT_FLAGS + 1] & FRAME_LATE, i == 0 ? FRAME_LATE : 0);
    }
    at = 0;
    assert_int_equal(batch_next_notification(&batch->parts[0], &at, &found), RC_OK);
    assert_int_equal(found.route.at[FRAME_AT_FLAGS + 1] & FRAME_LATE, 0);
    store_batch_free(batch);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notifications_without_acks_are_simple),
        cmocka_unit_test(test_a_member_has_its_transaction),
        cmocka_unit_test(test_a_reload_has_its_rule_and_transaction),
        cmocka_unit_test(test_iteration_is_in_order),
        cmocka_unit_test(test_batch_ends_where_the_method_changes),
        cmocka_unit_test(test_large_notification_ends_a_batch),
        cmocka_unit_test(test_notification_for_one_user_is_in_the_users_shard),
        cmocka_unit_test(test_users_keep_their_shards),
        cmocka_unit_test(test_shard_receives_only_missing_frames),
        cmocka_unit_test(test_newest_notification_of_each_shard_is_recorded),
        cmocka_unit_test(test_late_notifications_are_marked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
