/* test_arena.c: are items apart, bounded, used again, and does the system get them back? */
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
take_all(struct arena *arena, unsigned char *items[ITEMS])
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
test_round(void **state)
{
    struct arena arena = {.item_bytes = ITEM_BYTES, .most = ITEMS};
    unsigned char *items[ITEMS];

    (void)state;
    assert_false(arena_contains(&arena, &arena));
    for (int round = 0; round < 3; round++) {
        take_all(&arena, items);
        for (int i = 0; i < ITEMS; i++)
            arena_release(&arena, items[i]);
        assert_int_equal(arena.taken, 0);
        assert_true(resident_pages(&arena) <= ITEMS / 2);
    }
    assert_false(arena_contains(&arena, &arena));
    arena_free(&arena);
}

static void
test_used_again(void **state)
{
    struct arena arena = {.item_bytes = ITEM_BYTES, .most = 3};
    void *kept = arena_alloc(&arena);
    void *given = arena_alloc(&arena);

    (void)state;
    arena_release(&arena, given);
    assert_ptr_equal(arena_alloc(&arena), given);
    assert_non_null(arena_alloc(&arena));
    assert_null(arena_alloc(&arena));
    arena_release(&arena, given);
    assert_ptr_equal(arena_alloc(&arena), given);
    assert_ptr_not_equal(given, kept);
    arena_free(&arena);
    assert_non_null(arena_alloc(&arena)); /* it is an empty one */
    arena_free(&arena);
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
