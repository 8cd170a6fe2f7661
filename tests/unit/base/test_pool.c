/* test_pool.c: items of a pool are zeroed, do not overlap and are reused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"

#define ITEMS 200
#define ITEM_BYTES 100

static void
assert_zeroed(const unsigned char *item)
{
    for (size_t i = 0; i < ITEM_BYTES; i++)
        assert_int_equal(item[i], 0);
}

static void
use_pool(struct pool pool, size_t alignment)
{
    unsigned char *items[ITEMS];

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < ITEMS; i++) {
            items[i] = pool_alloc(&pool);
            assert_int_equal((uintptr_t)items[i] % alignment, 0);
            assert_zeroed(items[i]);
            memset(items[i], i + 1, ITEM_BYTES);
        }
        for (int i = 0; i < ITEMS; i++) {
            assert_int_equal(items[i][0], (i + 1) & 0xff);
            assert_int_equal(items[i][ITEM_BYTES - 1], (i + 1) & 0xff);
            pool_release(&pool, items[i]);
        }
    }
    pool_release(&pool, NULL);
}

static void
items_are_zeroed_and_reused(void **state)
{
    (void)state;
    use_pool((struct pool){.size = ITEM_BYTES}, _Alignof(max_align_t));
    use_pool((struct pool){.size = ITEM_BYTES, .is_line_aligned = true}, 64);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(items_are_zeroed_and_reused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
