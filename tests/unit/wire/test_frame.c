/* test_frame.c: valid frames are parsed, all other frames are rejected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "wire/frame.h"

#define PACKET_ROOM 512
#define XID UINT64_C(0x300000007)
#define RULE_LEN 7

struct packet {
    unsigned char bytes[PACKET_ROOM];
    size_t len;
};

static void
put_u16(unsigned char *at, unsigned value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

static void
put_u32(unsigned char *at, size_t value)
{
    put_u16(at, (unsigned)(value >> 16));
    put_u16(at + 2, (unsigned)(value & 0xffff));
}

static void
put_common_header(struct packet *packet, char kind, size_t len)
{
    put_u32(packet->bytes + FRAME_AT_LENGTH, len);
    packet->bytes[FRAME_AT_KIND] = (unsigned char)kind;
    packet->bytes[FRAME_AT_VERSION] = FRAME_VERSION;
    put_u16(packet->bytes + FRAME_AT_FLAGS, FRAME_ACK_REQUIRED);
    bytes_put_u64(packet->bytes + FRAME_AT_COMMIT_LSN, 0x16B3748);
    bytes_put_u64(packet->bytes + FRAME_AT_ORDINAL, UINT64_C(0x10004));
    packet->len = len;
}

static struct packet
notification_packet(void)
{
    static const char tail[] = "USER"
                               "app.t"
                               "default"
                               "\0\2u1"
                               "\0\0"
                               "{\"a\":1}";
    struct packet packet = {.len = 0};

    memcpy(packet.bytes + FRAME_NOTIFICATION_HEAD_SIZE, tail, sizeof(tail) - 1);
    put_common_header(&packet, FRAME_KIND_NOTIFICATION,
                      FRAME_NOTIFICATION_HEAD_SIZE + sizeof(tail) - 1);
    for (int i = 0; i < 16; i++)
        packet.bytes[FRAME_NOTIFICATION_AT_ID + i] = (unsigned char)(i * 17);
    packet.bytes[FRAME_NOTIFICATION_AT_PRIORITY] = FRAME_PRIORITY_LOW;
    put_u16(packet.bytes + FRAME_NOTIFICATION_AT_RETRY_LIMIT, 5);
    put_u16(packet.bytes + FRAME_NOTIFICATION_AT_AUDIENCE_LEN, 4);
    put_u16(packet.bytes + FRAME_NOTIFICATION_AT_TOPIC_LEN, 5);
    put_u32(packet.bytes + FRAME_NOTIFICATION_AT_TARGETS_LEN, 6);
    put_u32(packet.bytes + FRAME_NOTIFICATION_AT_TARGET_COUNT, 2);
    bytes_put_u64(packet.bytes + FRAME_NOTIFICATION_AT_XID, XID);
    put_u16(packet.bytes + FRAME_NOTIFICATION_AT_RULE_LEN, RULE_LEN);
    return packet;
}

static enum rc
parse(const struct packet *packet, struct frame *ret_frame, size_t *ret_len)
{
    /* A copy of the exact size, so that ASan reports a read past its end. */
    unsigned char *exact = malloc(packet->len + 1);
    enum rc rc;

    memcpy(exact, packet->bytes, packet->len);
    rc = frame_parse((struct bytes){exact, packet->len}, ret_frame, ret_len);
    free(exact);
    return rc;
}

static void
test_notification_is_parsed(void **state)
{
    struct packet packet = notification_packet();
    struct bytes view = {packet.bytes, packet.len};
    struct bytes targets, target;
    struct frame frame;
    size_t len;
    char id[FRAME_UUID_TEXT + 1];

    (void)state;
    assert_int_equal(frame_parse(view, &frame, &len), RC_OK);
    assert_int_equal(len, packet.len);
    assert_int_equal(frame.commit_lsn, 0x16B3748);
    assert_int_equal(frame.as.notification.retry_limit, 5);
    assert_memory_equal(frame.as.notification.topic.at, "app.t", 5);
    assert_int_equal(frame.as.notification.xid, XID);
    assert_int_equal(frame.as.notification.rule.len, RULE_LEN);
    assert_memory_equal(frame.as.notification.rule.at, "default", RULE_LEN);
    assert_int_equal(frame.as.notification.data.len, 7);
    frame_id_text(frame.as.notification.id, id);
    assert_string_equal(id, "00112233-4455-6677-8899-aabbccddeeff");
    targets = frame.as.notification.targets;
    assert_int_equal(frame_next_target(&targets, &target), RC_OK);
    assert_memory_equal(target.at, "u1", 2);
    assert_int_equal(frame_next_target(&targets, &target), RC_OK);
    assert_int_equal(target.len, 0);
    assert_int_equal(frame_next_target(&targets, &target), RC_CLOSED);
}

static void
test_short_header_is_rejected(void **state)
{
    struct packet packet = notification_packet();
    struct frame frame;
    size_t len;

    (void)state;
    packet.len = FRAME_NOTIFICATION_HEAD_SIZE - 1;
    put_u32(packet.bytes + FRAME_AT_LENGTH, packet.len);
    assert_int_equal(parse(&packet, &frame, &len), RC_BAD);
}

static void
test_web_push_precedes_the_data(void **state)
{
    static const char text[] = "\0\3abc";
    struct packet packet = notification_packet();
    const size_t data_len = strlen("{\"a\":1}"), text_len = sizeof(text) - 1;
    const size_t at = packet.len - data_len;
    struct frame frame, header;
    size_t len;

    (void)state;
    assert_int_equal(parse(&packet, &frame, &len), RC_OK);
    assert_false(frame_has_web_push(&frame.as.notification));
    memmove(packet.bytes + at + text_len, packet.bytes + at, data_len);
    memcpy(packet.bytes + at, text, text_len);
    packet.len += text_len;
    put_u32(packet.bytes + FRAME_AT_LENGTH, packet.len);
    put_u16(packet.bytes + FRAME_AT_FLAGS, FRAME_WEB_PUSH);
    assert_int_equal(frame_parse((struct bytes){packet.bytes, packet.len}, &frame, &len), RC_OK);
    assert_true(frame_has_web_push(&frame.as.notification));
    assert_int_equal(frame.as.notification.web_push.len, 3);
    assert_memory_equal(frame.as.notification.web_push.at, "abc", 3);
    assert_int_equal(frame.as.notification.data.len, data_len);
    assert_int_equal(frame_parse_header(frame.as.notification.head, &header), RC_OK);
    assert_int_equal(header.as.notification.web_push.len, 3);
    put_u16(packet.bytes + at, 0);
    assert_int_equal(parse(&packet, &frame, &len), RC_OK);
    assert_false(frame_has_web_push(&frame.as.notification));
    put_u16(packet.bytes + at, (unsigned)(data_len + 4));
    assert_int_equal(parse(&packet, &frame, &len), RC_BAD);
    packet.len = at + 1;
    put_u32(packet.bytes + FRAME_AT_LENGTH, packet.len);
    assert_int_equal(parse(&packet, &frame, &len), RC_BAD);
}

static void
test_rule_names_have_a_limit(void **state)
{
    struct packet packet = notification_packet();
    struct frame frame;
    size_t len;

    (void)state;
    packet.len = PACKET_ROOM;
    put_u32(packet.bytes + FRAME_AT_LENGTH, packet.len);
    put_u32(packet.bytes + FRAME_NOTIFICATION_AT_TARGETS_LEN, 0);
    put_u32(packet.bytes + FRAME_NOTIFICATION_AT_TARGET_COUNT, 0);
    put_u16(packet.bytes + FRAME_NOTIFICATION_AT_RULE_LEN, LIMIT_RULE);
    assert_int_equal(parse(&packet, &frame, &len), RC_OK);
    assert_int_equal(frame.as.notification.rule.len, LIMIT_RULE);
    put_u16(packet.bytes + FRAME_NOTIFICATION_AT_RULE_LEN, LIMIT_RULE + 1);
    assert_int_equal(parse(&packet, &frame, &len), RC_BAD);
}

static void
test_header_without_data_is_parsed(void **state)
{
    struct packet packet = notification_packet();
    struct frame frame, again;
    size_t len;

    (void)state;
    assert_int_equal(frame_parse((struct bytes){packet.bytes, packet.len}, &frame, &len), RC_OK);
    assert_int_equal(frame_parse_header(frame.as.notification.head, &again), RC_OK);
    assert_int_equal(again.as.notification.data.len, 0);
    assert_int_equal(again.as.notification.targets.len, 6);
}

static void
test_truncated_frames_are_rejected(void **state)
{
    struct packet packet = notification_packet();
    size_t whole = packet.len;
    struct frame frame;
    size_t len;

    (void)state;
    for (packet.len = 0; packet.len < whole; packet.len++)
        assert_int_equal(parse(&packet, &frame, &len), RC_BAD);
}

static void
test_invalid_header_bytes_are_rejected(void **state)
{
    static const struct {
        size_t at;
        unsigned char value;
    } invalid[] = {
        {FRAME_AT_LENGTH + 3, 3},
        {FRAME_AT_LENGTH, 0xff},
        {FRAME_AT_VERSION, 0},
        {FRAME_AT_VERSION, FRAME_VERSION + 1},
        {FRAME_AT_KIND, 'X'},
        {FRAME_NOTIFICATION_AT_AUDIENCE_LEN, 0xff},
        {FRAME_NOTIFICATION_AT_AUDIENCE_LEN + 1, 0},
        {FRAME_NOTIFICATION_AT_TOPIC_LEN, 0xff},
        {FRAME_NOTIFICATION_AT_RULE_LEN, 1},
        {FRAME_NOTIFICATION_AT_RULE_LEN + 1, 0xff},
        {FRAME_NOTIFICATION_AT_TARGETS_LEN, 0xff},
        {FRAME_NOTIFICATION_AT_TARGETS_LEN + 3, 5},
        {FRAME_NOTIFICATION_AT_TARGET_COUNT + 3, 1},
        {FRAME_NOTIFICATION_AT_PRIORITY, 3},
        {FRAME_NOTIFICATION_AT_TYPE, 3},
        {FRAME_NOTIFICATION_AT_OPERATION, 5},
        {FRAME_NOTIFICATION_AT_BACKOFF, 3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
        struct packet packet = notification_packet();
        struct frame frame;
        size_t len;

        packet.bytes[invalid[i].at] = invalid[i].value;
        if (parse(&packet, &frame, &len) != RC_BAD)
            fail_msg("byte %zu = %d was accepted", invalid[i].at, invalid[i].value);
    }
}

static void
test_member_and_commit_are_parsed(void **state)
{
    struct packet packet = {.len = 0};
    struct frame frame;
    size_t len;

    (void)state;
    memcpy(packet.bytes + FRAME_MEMBER_HEAD_SIZE, "ROLEadminu1", 11);
    put_common_header(&packet, FRAME_KIND_MEMBER, FRAME_MEMBER_HEAD_SIZE + 11);
    packet.bytes[FRAME_MEMBER_AT_CHANGE] = '-';
    put_u16(packet.bytes + FRAME_MEMBER_AT_AUDIENCE_LEN, 4);
    put_u16(packet.bytes + FRAME_MEMBER_AT_TARGET_LEN, 5);
    put_u16(packet.bytes + FRAME_MEMBER_AT_USER_LEN, 2);
    bytes_put_u64(packet.bytes + FRAME_MEMBER_AT_XID, XID);
    assert_int_equal(frame_parse((struct bytes){packet.bytes, packet.len}, &frame, &len), RC_OK);
    assert_false(frame.as.member.added);
    assert_int_equal(frame.as.member.xid, XID);
    assert_memory_equal(frame.as.member.user.at, "u1", 2);
    packet.bytes[FRAME_MEMBER_AT_CHANGE] = '?';
    assert_int_equal(parse(&packet, &frame, &len), RC_BAD);
    packet.bytes[FRAME_MEMBER_AT_CHANGE] = '+';
    put_u16(packet.bytes + FRAME_MEMBER_AT_USER_LEN, 3);
    assert_int_equal(parse(&packet, &frame, &len), RC_BAD);

    put_common_header(&packet, FRAME_KIND_COMMIT, FRAME_COMMIT_SIZE);
    bytes_put_u64(packet.bytes + FRAME_COMMIT_AT_END_LSN, 77);
    assert_int_equal(parse(&packet, &frame, &len), RC_OK);
    assert_int_equal(frame.as.commit.end_lsn, 77);
    put_common_header(&packet, FRAME_KIND_COMMIT, FRAME_COMMIT_SIZE + 1);
    assert_int_equal(parse(&packet, &frame, &len), RC_BAD);
}

static void
test_reload_is_parsed(void **state)
{
    struct packet packet = {.len = 0};
    struct frame frame;
    size_t len;

    (void)state;
    memcpy(packet.bytes + FRAME_RELOAD_HEAD_SIZE, "s.tasksmine", 11);
    put_common_header(&packet, FRAME_KIND_RELOAD, FRAME_RELOAD_HEAD_SIZE + 11);
    put_u16(packet.bytes + FRAME_RELOAD_AT_SOURCE_LEN, 7);
    put_u16(packet.bytes + FRAME_RELOAD_AT_RULE_LEN, 4);
    bytes_put_u64(packet.bytes + FRAME_RELOAD_AT_XID, XID);
    assert_int_equal(frame_parse((struct bytes){packet.bytes, packet.len}, &frame, &len), RC_OK);
    assert_int_equal(len, packet.len);
    assert_int_equal(frame.kind, FRAME_KIND_RELOAD);
    assert_int_equal(frame.as.reload.xid, XID);
    assert_int_equal(frame.as.reload.source.len, 7);
    assert_memory_equal(frame.as.reload.source.at, "s.tasks", 7);
    assert_int_equal(frame.as.reload.rule.len, 4);
    assert_memory_equal(frame.as.reload.rule.at, "mine", 4);
    put_u16(packet.bytes + FRAME_RELOAD_AT_RULE_LEN, 5);
    assert_int_equal(parse(&packet, &frame, &len), RC_BAD);
    put_u16(packet.bytes + FRAME_RELOAD_AT_SOURCE_LEN, 11);
    put_u16(packet.bytes + FRAME_RELOAD_AT_RULE_LEN, 0);
    assert_int_equal(parse(&packet, &frame, &len), RC_OK);
    assert_int_equal(frame.as.reload.source.len, 11);
    assert_int_equal(frame.as.reload.rule.len, 0);
    put_u16(packet.bytes + FRAME_RELOAD_AT_SOURCE_LEN, 0);
    put_u16(packet.bytes + FRAME_RELOAD_AT_RULE_LEN, 11);
    assert_int_equal(parse(&packet, &frame, &len), RC_BAD);
    put_common_header(&packet, FRAME_KIND_RELOAD, FRAME_RELOAD_HEAD_SIZE - 1);
    assert_int_equal(parse(&packet, &frame, &len), RC_BAD);
}

static void
test_random_bytes_are_safe(void **state)
{
    struct packet packet;
    struct frame frame;
    size_t len;

    (void)state;
    srand(20251121);
    for (int round = 0; round < 20000; round++) {
        packet = notification_packet();
        for (int i = 0; i < 4; i++)
            packet.bytes[(size_t)rand() % packet.len] = (unsigned char)rand();
        if (parse(&packet, &frame, &len) == RC_OK)
            assert_true(len <= packet.len);
    }
}

static void
test_position_text_sorts_by_lsn(void **state)
{
    char low[FRAME_POSITION_TEXT + 1], high[FRAME_POSITION_TEXT + 1];
    uint64_t lsn, ordinal;

    (void)state;
    frame_position_text(0x9, FRAME_ORDINAL_COMMIT, low);
    frame_position_text(0x10, 1, high);
    assert_true(strcmp(low, high) < 0);
    assert_int_equal(frame_position_parse(high, 32, &lsn, &ordinal), RC_OK);
    assert_int_equal(lsn, 0x10);
    assert_int_equal(ordinal, 1);
    assert_int_equal(frame_position_parse("xyz", 3, &lsn, &ordinal), RC_BAD);
    high[3] = 'G';
    assert_int_equal(frame_position_parse(high, 32, &lsn, &ordinal), RC_BAD);
}

static void
test_uuid_is_validated_and_lower_cased(void **state)
{
    char text[FRAME_UUID_TEXT + 1];

    (void)state;
    assert_true(frame_is_uuid("00112233-4455-6677-8899-AAbbccddeeff", 36));
    assert_false(frame_is_uuid("00112233-4455-6677-8899-aabbccddeef", 35));
    assert_false(frame_is_uuid("0011223304455-6677-8899-aabbccddeeff", 36));
    assert_false(frame_is_uuid("g0112233-4455-6677-8899-aabbccddeeff", 36));
    assert_true(frame_uuid_parse("00112233-4455-6677-8899-AAbbccddeeff", 36, text));
    assert_string_equal(text, "00112233-4455-6677-8899-aabbccddeeff");
    assert_false(frame_uuid_parse("g0112233-4455-6677-8899-aabbccddeeff", 36, text));
}

static void
test_id_is_parsed_as_written(void **state)
{
    static const unsigned char id[16] = {0x01, 0x9f, 0xa0, 0xbc, 0xde, 0xf9, 0x88, 0x77,
                                         0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00, 0xff};
    unsigned char read[16] = {0};
    char text[FRAME_UUID_TEXT + 1];

    (void)state;
    frame_id_text(id, text);
    assert_true(frame_id_parse(text, strlen(text), read));
    assert_memory_equal(read, id, 16);
    assert_true(frame_id_parse("019FA0BC-DEF9-8877-6655-4433221100FF", 36, read));
    assert_memory_equal(read, id, 16);
    assert_false(frame_id_parse("019fa0bc-def9-8877-6655-4433221100f", 35, read));
    assert_false(frame_id_parse("019fa0bc-def9-8877-6655-4433221100fg", 36, read));
}

static void
test_replication_messages_are_parsed(void **state)
{
    unsigned char keepalive[18] = {'k', 0, 0, 0, 0, 0, 0, 0, 42, [17] = 1};
    unsigned char data[27] = {'w', [25] = 'h', [26] = 'i'};
    unsigned char status[WALMSG_STATUS_SIZE];
    struct walmsg message;

    (void)state;
    assert_int_equal(walmsg_parse((struct bytes){keepalive, 18}, &message), RC_OK);
    assert_int_equal(message.wal_end, 42);
    assert_true(message.reply_requested);
    assert_int_equal(walmsg_parse((struct bytes){keepalive, 17}, &message), RC_BAD);
    assert_int_equal(walmsg_parse((struct bytes){data, 27}, &message), RC_OK);
    assert_int_equal(message.data.len, 2);
    assert_int_equal(walmsg_parse((struct bytes){data, 24}, &message), RC_BAD);
    assert_int_equal(walmsg_parse((struct bytes){data, 0}, &message), RC_BAD);
    walmsg_status(status, 3, 2, 0);
    assert_int_equal(status[0], 'r');
    assert_int_equal(bytes_get_u64(status + 9), 2);
    assert_int_equal(status[33], 0);
}

static void
test_attempts_are_found_behind_the_payload(void **state)
{
    static const char text[] =
        "{\"payload\":{\"a\":\",\\\"attempts\\\":9,\"},\"routing\":{\"retry\":{"
        "\"enabled\":true,\"attempts\":12,\"limit\":20,\"backoff\":\"FIXED\"}}}";
    const struct bytes json = {(const unsigned char *)text, sizeof(text) - 1};
    const struct bytes found = notification_attempts(json);

    (void)state;
    assert_int_equal(found.len, 2);
    assert_memory_equal(found.at, "12", 2);
    assert_int_equal(notification_attempts((struct bytes){json.at, 30}).len, 0);
    assert_int_equal(notification_attempts((struct bytes){json.at, 0}).len, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notification_is_parsed),
        cmocka_unit_test(test_short_header_is_rejected),
        cmocka_unit_test(test_web_push_precedes_the_data),
        cmocka_unit_test(test_rule_names_have_a_limit),
        cmocka_unit_test(test_header_without_data_is_parsed),
        cmocka_unit_test(test_truncated_frames_are_rejected),
        cmocka_unit_test(test_invalid_header_bytes_are_rejected),
        cmocka_unit_test(test_member_and_commit_are_parsed),
        cmocka_unit_test(test_reload_is_parsed),
        cmocka_unit_test(test_random_bytes_are_safe),
        cmocka_unit_test(test_position_text_sorts_by_lsn),
        cmocka_unit_test(test_uuid_is_validated_and_lower_cased),
        cmocka_unit_test(test_id_is_parsed_as_written),
        cmocka_unit_test(test_replication_messages_are_parsed),
        cmocka_unit_test(test_attempts_are_found_behind_the_payload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
