/* test_region.c: are items apart, bounded, used again, and does the system get them back? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/region.h"

#define ITEM_BYTES 4096
#define ITEMS 200

static size_t
resident_pages(const struct region *region)
{
    unsigned char pages[ITEMS * ITEM_BYTES / 4096];
    size_t count = 0;

    assert_int_equal(mincore(region->first, (size_t)ITEMS * ITEM_BYTES, pages), 0);
    for (size_t i = 0; i < sizeof(pages); i++)
        count += pages[i] & 1;
    return count;
}

static void
take_all(struct region *region, unsigned char *items[ITEMS])
{
    for (int i = 0; i < ITEMS; i++) {
        items[i] = region_take(region);
        assert_non_null(items[i]);
        assert_true(region_has(region, items[i]));
        memset(items[i], i, ITEM_BYTES);
    }
    assert_null(region_take(region));
    for (int i = 0; i < ITEMS; i++)
        assert_int_equal(items[i][ITEM_BYTES - 1], i);
}

static void
test_round(void **state)
{
    struct region region = {.item_bytes = ITEM_BYTES, .most = ITEMS};
    unsigned char *items[ITEMS];

    (void)state;
    assert_false(region_has(&region, &region));
    for (int round = 0; round < 3; round++) {
        take_all(&region, items);
        for (int i = 0; i < ITEMS; i++)
            region_give(&region, items[i]);
        assert_int_equal(region.taken, 0);
        assert_true(resident_pages(&region) <= ITEMS / 2);
    }
    assert_false(region_has(&region, &region));
    region_free(&region);
}

static void
test_used_again(void **state)
{
    struct region region = {.item_bytes = ITEM_BYTES, .most = 3};
    void *kept = region_take(&region);
    void *given = region_take(&region);

    (void)state;
    region_give(&region, given);
    assert_ptr_equal(region_take(&region), given);
    assert_non_null(region_take(&region));
    assert_null(region_take(&region));
    region_give(&region, given);
    assert_ptr_equal(region_take(&region), given);
    assert_ptr_not_equal(given, kept);
    region_free(&region);
    assert_non_null(region_take(&region)); /* it is an empty one */
    region_free(&region);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_used_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
