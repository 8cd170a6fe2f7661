/* test_idempotency_cache.c: repeated keys return the first id; the oldest entries are evicted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "gate/routes.h"

#define RETENTION_US 100
#define ID "01234567-89ab-8def-8123-456789abcdef"

static bool is_same;
static char id[FRAME_UUID_TEXT + 1];

static bool
find(struct idempotency_cache *cache, const char *client, const char *key, const char *digest,
     int64_t now_us)
{
    return idempotency_cache_find(cache, "e1", client, key, digest, now_us, RETENTION_US, &is_same,
                                  id);
}

static void
test_repeated_key_returns_the_id(void **state)
{
    struct idempotency_cache *cache = idempotency_cache_new();

    (void)state;
    assert_false(find(cache, "ann", "k", "d", 0));
    idempotency_cache_add(cache, "e1", "ann", "k", "d", ID, 0);
    assert_true(find(cache, "ann", "k", "d", RETENTION_US));
    assert_true(is_same);
    assert_string_equal(id, ID);
    assert_true(find(cache, "ann", "k", "other", 0));
    assert_false(is_same);
    assert_false(find(cache, "bob", "k", "d", 0));
    assert_false(find(cache, "ann", "K", "d", 0));
    idempotency_cache_free(cache);
}

static void
test_entries_expire_by_age_and_epoch(void **state)
{
    struct idempotency_cache *cache = idempotency_cache_new();

    (void)state;
    idempotency_cache_add(cache, "e1", "ann", "k", "d", ID, 0);
    assert_false(find(cache, "ann", "k", "d", RETENTION_US + 1));
    idempotency_cache_add(cache, "e1", "ann", "k", "d2", ID,
                          50); /* the store has accepted the key again */
    assert_true(find(cache, "ann", "k", "d2", RETENTION_US + 1));
    assert_false(
        idempotency_cache_find(cache, "e2", "ann", "k", "d2", 51, RETENTION_US, &is_same, id));
    assert_false(find(cache, "ann", "k", "d2", 51));
    idempotency_cache_free(cache);
}

static void
test_oldest_key_is_evicted(void **state)
{
    struct idempotency_cache *cache = idempotency_cache_new();
    char key[16];

    (void)state;
    for (int i = 0; i <= IDEMPOTENCY_KEYS_PER_CLIENT; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        idempotency_cache_add(cache, "e1", "ann", key, "d", ID, i);
    }
    assert_false(find(cache, "ann", "k0", "d", 0));
    for (int i = 1; i <= IDEMPOTENCY_KEYS_PER_CLIENT; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        assert_true(find(cache, "ann", key, "d", i));
    }
    idempotency_cache_free(cache);
}

static void
test_least_recent_client_is_evicted(void **state)
{
    struct idempotency_cache *cache = idempotency_cache_new();
    char name[16];

    (void)state;
    for (int i = 0; i < IDEMPOTENCY_CLIENTS_MAX; i++) {
        snprintf(name, sizeof(name), "u%d", i);
        idempotency_cache_add(cache, "e1", name, "k", "d", ID, 0);
    }
    idempotency_cache_add(cache, "e1", "u0", "k2", "d", ID,
                          0); /* no longer the least recently used client */
    idempotency_cache_add(cache, "e1", "one more", "k", "d", ID, 0);
    assert_true(find(cache, "u0", "k", "d", 0));
    assert_false(find(cache, "u1", "k", "d", 0));
    assert_true(find(cache, "u2", "k", "d", 0));
    assert_true(find(cache, "one more", "k", "d", 0));
    idempotency_cache_free(cache);
}

static void
test_long_digest_or_id_is_not_cached(void **state)
{
    struct idempotency_cache *cache = idempotency_cache_new();
    char digest[IDEMPOTENCY_DIGEST_MAX + 2];

    (void)state;
    memset(digest, 'd', sizeof(digest) - 1);
    digest[sizeof(digest) - 1] = '\0';
    idempotency_cache_add(cache, "e1", "ann", "k", digest, ID, 0);
    idempotency_cache_add(cache, "e1", "ann", "k", "d", ID "0", 0);
    assert_false(find(cache, "ann", "k", "d", 0));
    idempotency_cache_free(cache);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeated_key_returns_the_id),
        cmocka_unit_test(test_entries_expire_by_age_and_epoch),
        cmocka_unit_test(test_oldest_key_is_evicted),
        cmocka_unit_test(test_least_recent_client_is_evicted),
        cmocka_unit_test(test_long_digest_or_id_is_not_cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
