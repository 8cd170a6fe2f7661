/* frame.c: parses replication messages and the decoder's frames, and checks every length. */
#include "wire/frame.h"

#include <stdlib.h>

#include "base/text.h"
#include "decoder/protocol/envelope.h"

static const char hex_digits[] = "0123456789abcdef";

static struct bytes
bytes_slice(const unsigned char *at, size_t len)
{
    return (struct bytes){.at = at, .len = len};
}

static bool
targets_fit(struct bytes targets, uint32_t count)
{
    struct bytes target;
    uint32_t seen = 0;

    while (targets.len > 0) {
        if (frame_next_target(&targets, &target) != RC_OK)
            return false;
        seen++;
    }
    return seen == count;
}

/* Parses the text of the Web Push, which follows the targets, and adds its length to *len. */
static enum rc
parse_web_push(struct bytes whole, size_t *len, struct bytes *ret_text)
{
    size_t text_len;

    if (whole.len - *len < 2)
        return RC_BAD;
    text_len = bytes_get_u16(whole.at + *len);
    if (whole.len - *len - 2 < text_len)
        return RC_BAD;
    *ret_text = bytes_slice(whole.at + *len + 2, text_len);
    *len += 2 + text_len;
    return RC_OK;
}

/* Parses the names and targets after the header, and the text of the Web Push. */
static enum rc
parse_texts(struct bytes whole, bool has_web_push, struct frame_notification *notification)
{
    const unsigned char *at = whole.at;
    size_t audience_len = bytes_get_u16(at + FRAME_NOTIFICATION_AT_AUDIENCE_LEN);
    size_t topic_len = bytes_get_u16(at + FRAME_NOTIFICATION_AT_TOPIC_LEN);
    size_t targets_len = bytes_get_u32(at + FRAME_NOTIFICATION_AT_TARGETS_LEN);
    size_t rule_len = bytes_get_u16(at + FRAME_NOTIFICATION_AT_RULE_LEN);
    size_t len = FRAME_NOTIFICATION_HEAD_SIZE + audience_len + topic_len + rule_len + targets_len;

    if (audience_len == 0 || rule_len > LIMIT_RULE || len > whole.len)
        return RC_BAD;
    notification->audience = bytes_slice(at + FRAME_NOTIFICATION_HEAD_SIZE, audience_len);
    notification->topic = bytes_slice(notification->audience.at + audience_len, topic_len);
    notification->rule = bytes_slice(notification->topic.at + topic_len, rule_len);
    notification->targets = bytes_slice(notification->rule.at + rule_len, targets_len);
    notification->web_push = bytes_slice(at + len, 0);
    if (has_web_push && parse_web_push(whole, &len, &notification->web_push) != RC_OK)
        return RC_BAD;
    notification->head = bytes_slice(at, len);
    notification->data = bytes_slice(at + len, whole.len - len);
    return RC_OK;
}

/* `whole` may contain only the header: then data is empty. */
static enum rc
parse_notification(struct bytes whole, const struct frame *frame,
                   struct frame_notification *notification)
{
    const unsigned char *at = whole.at;

    if (whole.len < FRAME_NOTIFICATION_HEAD_SIZE ||
        parse_texts(whole, (frame->flags & FRAME_WEB_PUSH) != 0, notification) != RC_OK)
        return RC_BAD;
    memcpy(notification->id, at + FRAME_NOTIFICATION_AT_ID, sizeof(notification->id));
    notification->commit_us = (int64_t)bytes_get_u64(at + FRAME_NOTIFICATION_AT_COMMIT_US);
    notification->expires_us = (int64_t)bytes_get_u64(at + FRAME_NOTIFICATION_AT_EXPIRES_US);
    notification->is_live = (frame->flags & FRAME_LIVE) != 0;
    notification->priority = at[FRAME_NOTIFICATION_AT_PRIORITY];
    notification->type = at[FRAME_NOTIFICATION_AT_TYPE];
    notification->operation = at[FRAME_NOTIFICATION_AT_OPERATION];
    notification->retry_limit = bytes_get_u16(at + FRAME_NOTIFICATION_AT_RETRY_LIMIT);
    notification->attempts = bytes_get_u16(at + FRAME_NOTIFICATION_AT_ATTEMPTS);
    notification->xid = bytes_get_u64(at + FRAME_NOTIFICATION_AT_XID);
    notification->target_count = bytes_get_u32(at + FRAME_NOTIFICATION_AT_TARGET_COUNT);
    if (notification->priority > FRAME_PRIORITY_LOW || notification->type > FRAME_TYPE_SYSTEM ||
        notification->operation > FRAME_OPERATION_NOTIFY ||
        at[FRAME_NOTIFICATION_AT_BACKOFF] > FRAME_BACKOFF_FIXED ||
        notification->target_count > FRAME_TARGETS_MAX ||
        !targets_fit(notification->targets, notification->target_count))
        return RC_BAD;
    return RC_OK;
}

static enum rc
parse_member(struct bytes whole, struct frame_member *member)
{
    const unsigned char *at = whole.at;
    size_t audience_len, target_len, user_len;

    if (whole.len < FRAME_MEMBER_HEAD_SIZE)
        return RC_BAD;
    audience_len = bytes_get_u16(at + FRAME_MEMBER_AT_AUDIENCE_LEN);
    target_len = bytes_get_u16(at + FRAME_MEMBER_AT_TARGET_LEN);
    user_len = bytes_get_u16(at + FRAME_MEMBER_AT_USER_LEN);
    if (FRAME_MEMBER_HEAD_SIZE + audience_len + target_len + user_len != whole.len)
        return RC_BAD;
    if (at[FRAME_MEMBER_AT_CHANGE] != '+' && at[FRAME_MEMBER_AT_CHANGE] != '-')
        return RC_BAD;
    member->added = at[FRAME_MEMBER_AT_CHANGE] == '+';
    member->xid = bytes_get_u64(at + FRAME_MEMBER_AT_XID);
    member->audience = bytes_slice(at + FRAME_MEMBER_HEAD_SIZE, audience_len);
    member->target = bytes_slice(member->audience.at + audience_len, target_len);
    member->user = bytes_slice(member->target.at + target_len, user_len);
    return RC_OK;
}

static enum rc
parse_reload(struct bytes whole, struct frame_reload *reload)
{
    size_t source_len, rule_len;

    if (whole.len < FRAME_RELOAD_HEAD_SIZE)
        return RC_BAD;
    source_len = bytes_get_u16(whole.at + FRAME_RELOAD_AT_SOURCE_LEN);
    rule_len = bytes_get_u16(whole.at + FRAME_RELOAD_AT_RULE_LEN);
    if (source_len == 0 || rule_len > LIMIT_RULE ||
        FRAME_RELOAD_HEAD_SIZE + source_len + rule_len != whole.len)
        return RC_BAD;
    reload->xid = bytes_get_u64(whole.at + FRAME_RELOAD_AT_XID);
    reload->source = bytes_slice(whole.at + FRAME_RELOAD_HEAD_SIZE, source_len);
    reload->rule = bytes_slice(reload->source.at + source_len, rule_len);
    return RC_OK;
}

static enum rc
parse_commit(struct bytes whole, struct frame_commit *commit)
{
    if (whole.len != FRAME_COMMIT_SIZE)
        return RC_BAD;
    commit->end_lsn = bytes_get_u64(whole.at + FRAME_COMMIT_AT_END_LSN);
    commit->commit_us = (int64_t)bytes_get_u64(whole.at + FRAME_COMMIT_AT_COMMIT_US);
    return RC_OK;
}

static enum rc
parse_common(struct bytes whole, struct frame *frame)
{
    if (whole.len < FRAME_COMMON_SIZE)
        return RC_BAD;
    frame->kind = (char)whole.at[FRAME_AT_KIND];
    frame->flags = bytes_get_u16(whole.at + FRAME_AT_FLAGS);
    if (whole.at[FRAME_AT_VERSION] != FRAME_VERSION)
        return RC_BAD;
    frame->commit_lsn = bytes_get_u64(whole.at + FRAME_AT_COMMIT_LSN);
    frame->ordinal = bytes_get_u64(whole.at + FRAME_AT_ORDINAL);
    switch (frame->kind) {
    case FRAME_KIND_NOTIFICATION:
        return parse_notification(whole, frame, &frame->as.notification);
    case FRAME_KIND_MEMBER:
        return parse_member(whole, &frame->as.member);
    case FRAME_KIND_RELOAD:
        return parse_reload(whole, &frame->as.reload);
    case FRAME_KIND_COMMIT:
        return parse_commit(whole, &frame->as.commit);
    default:
        return RC_BAD;
    }
}

enum rc
frame_parse(struct bytes bytes, struct frame *ret_frame, size_t *ret_len)
{
    struct frame frame;
    size_t len;

    if (bytes.len < FRAME_COMMON_SIZE)
        return RC_BAD;
    len = bytes_get_u32(bytes.at + FRAME_AT_LENGTH);
    if (len < FRAME_COMMON_SIZE || len > bytes.len)
        return RC_BAD;
    if (parse_common(bytes_slice(bytes.at, len), &frame) != RC_OK)
        return RC_BAD;
    *ret_frame = frame;
    *ret_len = len;
    return RC_OK;
}

enum rc
frame_parse_header(struct bytes head, struct frame *ret_frame)
{
    struct frame frame;

    if (parse_common(head, &frame) != RC_OK || frame.kind != FRAME_KIND_NOTIFICATION)
        return RC_BAD;
    *ret_frame = frame;
    return RC_OK;
}

enum rc
frame_next_target(struct bytes *targets, struct bytes *ret_target)
{
    size_t len;

    if (targets->len == 0)
        return RC_CLOSED;
    if (targets->len < 2)
        return RC_BAD;
    len = bytes_get_u16(targets->at);
    if (len + 2 > targets->len)
        return RC_BAD;
    *ret_target = bytes_slice(targets->at + 2, len);
    *targets = bytes_slice(targets->at + 2 + len, targets->len - 2 - len);
    return RC_OK;
}

void
frame_id_text(const unsigned char id[16], char ret_text[FRAME_UUID_TEXT + 1])
{
    char *out = ret_text;

    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = hex_digits[id[i] >> 4];
        *out++ = hex_digits[id[i] & 15];
    }
    *out = '\0';
}

bool
frame_id_parse(const char *text, size_t len, unsigned char ret_id[16])
{
    unsigned char id[16];
    int all = 0;

    if (len != FRAME_UUID_TEXT || text[8] != '-' || text[13] != '-' || text[18] != '-' ||
        text[23] != '-')
        return false;
    for (int i = 0; i < 16; i++, text += 2) {
        int high, low;

        text += i == 4 || i == 6 || i == 8 || i == 10;
        high = hex_value(text[0]);
        low = hex_value(text[1]);
        all |= high | low;
        id[i] = (unsigned char)((unsigned)high << 4 | (unsigned)low);
    }
    if (all < 0)
        return false;
    memcpy(ret_id, id, sizeof(id));
    return true;
}

bool
frame_is_uuid(const char *text, size_t len)
{
    unsigned char id[16];

    return frame_id_parse(text, len, id);
}

bool
frame_uuid_parse(const char *text, size_t len, char ret_text[FRAME_UUID_TEXT + 1])
{
    unsigned char id[16];

    if (!frame_id_parse(text, len, id))
        return false;
    frame_id_text(id, ret_text);
    return true;
}

int64_t
frame_uuid_ms(const char *id)
{
    char hex[13];

    memcpy(hex, id, 8);
    memcpy(hex + 8, id + 9, 4);
    hex[12] = '\0';
    return (int64_t)strtoll(hex, NULL, 16);
}

void
frame_position_text(uint64_t lsn, uint64_t ordinal, char ret_text[FRAME_POSITION_TEXT + 1])
{
    unsigned char position[FRAME_POSITION_TEXT / 2];

    bytes_put_u64(position, lsn);
    bytes_put_u64(position + sizeof(lsn), ordinal);
    bytes_hex(position, sizeof(position), ret_text);
}

enum rc
frame_position_parse(const char *text, size_t len, uint64_t *ret_lsn, uint64_t *ret_ordinal)
{
    uint64_t halves[2] = {0, 0};

    if (len != FRAME_POSITION_TEXT)
        return RC_BAD;
    for (size_t i = 0; i < len; i++) {
        const char *digit = text[i] != '\0' ? strchr(hex_digits, text[i]) : NULL;
        if (digit == NULL)
            return RC_BAD;
        halves[i / 16] = halves[i / 16] << 4 | (uint64_t)(digit - hex_digits);
    }
    *ret_lsn = halves[0];
    *ret_ordinal = halves[1];
    return RC_OK;
}

/*
 * Parts of the JSON of a notification, without parsing it. User text cannot match the search
 * strings: quotes inside JSON strings are escaped.
 */

/*
 * routing is the last member of a notification, retry is the last member of routing, and retry
 * contains no user text. So the last RETRY in the document is that member, for any payload. The
 * last TARGETS before it is in routing.audience. A long list was replaced by an empty one and its
 * length (ENVELOPE_RECIPIENTS_TEXT), so there is nothing to find if RETRY does not follow an array.
 */
static const char TARGETS[] = ENVELOPE_TARGETS_TEXT "[";
static const char RETRY[] = ENVELOPE_ACK_REQUIRED_TEXT;

/* Finds the last occurrence of `text` in the first `len` bytes; NULL: not found. */
static const unsigned char *
find_last(struct bytes json, size_t len, const char *text, size_t text_len)
{
    for (size_t at = len; at >= text_len; at--) {
        const unsigned char *found = json.at + at - text_len;

        if (found[0] == (unsigned char)text[0] && memcmp(found, text, text_len) == 0)
            return found;
    }
    return NULL;
}

struct bytes
notification_targets(struct bytes json)
{
    const unsigned char *end = find_last(json, json.len, RETRY, sizeof(RETRY) - 1);
    const unsigned char *start = NULL;

    if (end != NULL && end > json.at && end[-1] == ']')
        start = find_last(json, (size_t)(--end - json.at), TARGETS, sizeof(TARGETS) - 1);
    if (start == NULL)
        return (struct bytes){json.at, 0};
    start += sizeof(TARGETS) - 1;
    return (struct bytes){start, (size_t)(end - start)};
}

/* The metadata is the first member of a notification and ends before the payload. */
struct bytes
notification_metadata(struct bytes json, const char *before)
{
    static const char END[] = ENVELOPE_PAYLOAD_TEXT;
    const struct bytes none = {json.at, 0};
    const unsigned char *end = memmem(json.at, json.len, END, sizeof(END) - 1);
    const unsigned char *at =
        end != NULL ? memmem(json.at, (size_t)(end - json.at), before, strlen(before)) : NULL;
    const unsigned char *last;

    if (at == NULL)
        return none;
    at += strlen(before);
    if (at == end || *at++ != '"')
        return none;
    last = memchr(at, '"', (size_t)(end - at));
    return last != NULL ? (struct bytes){at, (size_t)(last - at)} : none;
}

#define TAIL_MAX 512 /* contains routing.retry */

struct bytes
notification_attempts(struct bytes json)
{
    static const char before[] = ENVELOPE_ATTEMPTS_TEXT, after[] = ENVELOPE_RETRY_LIMIT_TEXT;
    const size_t before_len = sizeof(before) - 1, after_len = sizeof(after) - 1;
    const size_t min = json.len > TAIL_MAX ? json.len - TAIL_MAX : 0;

    for (size_t end = json.len; end >= min + after_len + 1; end--) {
        size_t at = end - after_len, len = 0;

        if (memcmp(json.at + at, after, after_len) != 0)
            continue;
        while (at > min && json.at[at - 1] >= '0' && json.at[at - 1] <= '9') {
            at--;
            len++;
        }
        if (len > 0 && at >= before_len &&
            memcmp(json.at + at - before_len, before, before_len) == 0)
            return (struct bytes){json.at + at, len};
    }
    return (struct bytes){json.at, 0};
}

bool
notification_traceparent(struct bytes json, char ret_text[TRACEPARENT_LEN + 1])
{
    struct bytes found = notification_metadata(json, ENVELOPE_TRACEPARENT_TEXT);

    return found.len == TRACEPARENT_LEN &&
           traceparent_read((const char *)found.at, found.len, ret_text);
}

/* Messages of the streaming replication protocol. */

#define DATA_HEAD_SIZE 25                          /* 'w', start, end, clock */
#define KEEPALIVE_SIZE 18                          /* 'k', end, clock, reply */
#define POSTGRES_EPOCH_US INT64_C(946684800000000) /* 2000-01-01 in Unix µs */

enum rc
walmsg_parse(struct bytes message, struct walmsg *ret_message)
{
    if (message.len >= DATA_HEAD_SIZE && message.at[0] == 'w') {
        *ret_message = (struct walmsg){
            .kind = WALMSG_DATA,
            .wal_end = bytes_get_u64(message.at + 9),
            .data = {message.at + DATA_HEAD_SIZE, message.len - DATA_HEAD_SIZE},
        };
        return RC_OK;
    }
    if (message.len == KEEPALIVE_SIZE && message.at[0] == 'k') {
        *ret_message = (struct walmsg){
            .kind = WALMSG_KEEPALIVE,
            .wal_end = bytes_get_u64(message.at + 1),
            .reply_requested = message.at[17] != 0,
        };
        return RC_OK;
    }
    return RC_BAD;
}

void
walmsg_status(unsigned char ret_status[WALMSG_STATUS_SIZE], uint64_t received, uint64_t stored,
              int64_t now_us)
{
    ret_status[0] = 'r';
    bytes_put_u64(ret_status + 1, received);
    bytes_put_u64(ret_status + 9, stored);
    bytes_put_u64(ret_status + 17, stored);
    bytes_put_u64(ret_status + 25, (uint64_t)(now_us - POSTGRES_EPOCH_US));
    ret_status[33] = 0; /* 0: do not request a reply (decoder/FRAMES.md) */
}
