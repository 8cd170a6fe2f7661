/* test_arena.c: items are limited, disjoint and reused; free pages return to the system. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/arena.h"

#define ITEM_BYTES 4096
#define ITEMS 200

static size_t
resident_pages(const struct arena *arena)
{
    unsigned char pages[ITEMS * ITEM_BYTES / 4096];
    size_t count = 0;

    assert_int_equal(mincore(arena->first, (size_t)ITEMS * ITEM_BYTES, pages), 0);
    for (size_t i = 0; i < sizeof(pages); i++)
        count += pages[i] & 1;
    return count;
}

static void
alloc_all(struct arena *arena, unsigned char *items[ITEMS])
{
    for (int i = 0; i < ITEMS; i++) {
        items[i] = arena_alloc(arena);
        assert_non_null(items[i]);
        assert_true(arena_contains(arena, items[i]));
        memset(items[i], i, ITEM_BYTES);
    }
    assert_null(arena_alloc(arena));
    for (int i = 0; i < ITEMS; i++)
        assert_int_equal(items[i][ITEM_BYTES - 1], i);
}

static void
pages_return_to_the_system_after_release(void **state)
{
    struct arena arena = {.item_bytes = ITEM_BYTES, .max = ITEMS};
    unsigned char *items[ITEMS];

    (void)state;
    assert_false(arena_contains(&arena, &arena));
    for (int round = 0; round < 3; round++) {
        alloc_all(&arena, items);
        for (int i = 0; i < ITEMS; i++)
            arena_release(&arena, items[i]);
        assert_int_equal(arena.in_use, 0);
        assert_true(resident_pages(&arena) <= ITEMS / 2);
    }
    assert_false(arena_contains(&arena, &arena));
    arena_free(&arena);
}

static void
released_items_are_reused(void **state)
{
    struct arena arena = {.item_bytes = ITEM_BYTES, .max = 3};
    void *kept = arena_alloc(&arena);
    void *released = arena_alloc(&arena);

    (void)state;
    arena_release(&arena, released);
    assert_ptr_equal(arena_alloc(&arena), released);
    assert_non_null(arena_alloc(&arena));
    assert_null(arena_alloc(&arena));
    arena_release(&arena, released);
    assert_ptr_equal(arena_alloc(&arena), released);
    assert_ptr_not_equal(released, kept);
    arena_free(&arena);
    assert_non_null(arena_alloc(&arena)); /* a freed arena can be used like an empty arena */
    arena_free(&arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_return_to_the_system_after_release),
        cmocka_unit_test(released_items_are_reused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
