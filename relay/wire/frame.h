/* frame.h: reads the decoder's frames; the picture of them is in decoder/protocol/frame.h. */
#ifndef CLAIRON_WIRE_FRAME_H
#define CLAIRON_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "decoder/protocol/frame.h"
#include "wire/bytes.h"

#define FRAME_UUID_TEXT 36     /* without the terminating zero */
#define FRAME_POSITION_TEXT 32 /* likewise: 16 hex digits of LSN, 16 of ordinal */
#define FRAME_TARGETS_MAX 1000000
#define FRAME_MEMBER_TEXT_MAX 255

struct frame_note {
    unsigned char id[16];
    int64_t commit_us;
    int64_t expires_us; /* 0: never */
    uint8_t priority;
    uint8_t type;
    uint8_t operation;
    uint8_t backoff;
    uint16_t retry_limit;
    uint16_t attempts;
    uint32_t ack_timeout_ms; /* 0: the relay's setting */
    struct bytes audience;
    struct bytes topic;
    struct bytes targets; /* walk with frame_next_target */
    uint32_t target_count;
    struct bytes head; /* from the frame's start up to data */
    struct bytes data; /* the JSON line */
};

struct frame_member {
    bool added;
    struct bytes audience;
    struct bytes target;
    struct bytes user;
};

struct frame_commit {
    uint64_t end_lsn;
    int64_t commit_us;
};

/* A view into the bytes it was read from. */
struct frame {
    char kind;
    uint16_t flags;
    uint64_t commit_lsn;
    uint64_t ordinal;
    union {
        struct frame_note note;
        struct frame_member member;
        struct frame_commit commit;
    } as;
};

/*
 * Reads the frame at the start of `packet`; *ret_len is its length. RC_BAD when
 * the bytes are no frame of this version. Any bytes may be given.
 */
MUST_CHECK enum rc frame_parse(struct bytes packet, struct frame *ret_frame, size_t *ret_len);

/* Reads a note's head alone, as the store keeps it; `data` stays empty. */
MUST_CHECK enum rc frame_parse_head(struct bytes head, struct frame *ret_frame);

/* Takes the next target off *targets. RC_CLOSED after the last. */
MUST_CHECK enum rc frame_next_target(struct bytes *targets, struct bytes *ret_target);

void frame_id_text(const unsigned char id[16], char ret_text[FRAME_UUID_TEXT + 1]);

/* Reads what frame_id_text wrote, in either case; false for any other bytes. */
MUST_CHECK bool frame_id_read(const char *text, size_t len, unsigned char ret_id[16]);

/* True when `text` (any bytes) is a UUID in its usual 36-character form. */
bool frame_is_uuid(const char *text, size_t len);

/* Takes such a one in lower case, as ids are kept; false for anything else. */
bool frame_read_uuid(const char *text, size_t len, char ret_text[FRAME_UUID_TEXT + 1]);

/* A position as text whose byte order is the order of positions. */
void frame_position_text(uint64_t lsn, uint64_t ordinal, char ret_text[FRAME_POSITION_TEXT + 1]);

/* Reads what frame_position_text wrote. */
MUST_CHECK enum rc frame_position_read(const char *text, size_t len, uint64_t *ret_lsn,
                                       uint64_t *ret_ordinal);

#endif
