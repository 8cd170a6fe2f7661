/* test_send_rest.c: the rest of a partly sent WebSocket frame is kept, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <cmocka.h>

#include "gate/ws/websocket.h"
#include "hub/hub.h"
#include "wire/ws_frame.h"

#define TEXT_MAX 10000

/* Two short frames in one piece, and a long frame in two pieces of separate blocks. */
static unsigned char sent_bytes[3 * TEXT_MAX];
static struct iovec parts[] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
static struct shared blocks[] = {
    {.refs = 1, .size = 1}, {.refs = 1, .size = 10}, {.refs = 1, .size = 100}};
static struct shared *owners[] = {&blocks[0], &blocks[1], &blocks[2]};
static const struct session_pieces pieces = {parts, owners, 3, -1};
static size_t ends[4]; /* ends of the frames */

static size_t
add_frame(size_t at, size_t len)
{
    unsigned char head[WS_TEXT_HEAD_MAX];
    size_t head_len = ws_text_header(len, head + sizeof(head));

    memcpy(sent_bytes + at, head + sizeof(head) - head_len, head_len);
    for (size_t i = 0; i < len; i++)
        sent_bytes[at + head_len + i] = (unsigned char)(i * 7 + at);
    return at + head_len + len;
}

static int
set_up(void **state)
{
    (void)state;
    ends[1] = add_frame(0, 3);
    ends[2] = add_frame(ends[1], 200);
    ends[3] = add_frame(ends[2], TEXT_MAX);
    parts[0] = (struct iovec){sent_bytes, ends[2]};
    parts[1] = (struct iovec){sent_bytes + ends[2], 100};
    parts[2] = (struct iovec){sent_bytes + ends[2] + 100, ends[3] - ends[2] - 100};
    return 0;
}

static size_t
end_of_frame(size_t sent)
{
    int i = 0;

    while (ends[i] < sent)
        i++;
    return ends[i];
}

static void
the_rest_ends_at_the_end_of_the_frame(void **state)
{
    (void)state;
    for (size_t sent = 0; sent <= ends[3]; sent++) {
        size_t waiting = 0;
        struct out rest = {.waiting_bytes = &waiting};
        size_t at = sent;

        assert_int_equal(gate_send_rest(&rest, &pieces, sent), end_of_frame(sent) - sent);
        assert_int_equal(rest.len, end_of_frame(sent) - sent);
        for (const struct out_part *part = rest.first; part != NULL; part = part->next) {
            assert_memory_equal(part->at, sent_bytes + at, part->len);
            at += part->len;
        }
        assert_int_equal(at, end_of_frame(sent));
        out_free(&rest);
        assert_int_equal(waiting, 0);
    }
}

static void
long_bytes_are_referred_to_and_counted_once(void **state)
{
    size_t waiting = 0;
    struct out rest[2] = {{.waiting_bytes = &waiting}, {.waiting_bytes = &waiting}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_true(gate_send_rest(&rest[i], &pieces, ends[2] + 1) > TEXT_MAX);
        assert_ptr_equal(rest[i].last->at, parts[2].iov_base);
        assert_int_equal(waiting, 100); /* the end of the piece before it is short: it was copied */
    }
    assert_int_equal(blocks[2].refs, 3);
    out_free(&rest[0]);
    assert_int_equal(waiting, 100);
    out_free(&rest[1]);
    assert_int_equal(waiting, 0);
    assert_int_equal(blocks[2].refs, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_rest_ends_at_the_end_of_the_frame, set_up),
        cmocka_unit_test_setup(long_bytes_are_referred_to_and_counted_once, set_up),
    };

    return cmocka_run_group_tests_name("rest of a frame", tests, NULL, NULL);
}
