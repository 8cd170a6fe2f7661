/* audience.h: which words name an audience, as clairon.watch has it. Pure. */
#ifndef CLAIRON_WIRE_AUDIENCE_H
#define CLAIRON_WIRE_AUDIENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "decoder/protocol/limits.h"
#include "wire/bytes.h"

#define AUDIENCE_NAME_MAX LIMIT_AUDIENCE_WORD /* bytes */
#define AUDIENCE_TARGET_MAX LIMIT_TARGET      /* likewise, of one part */
#define AUDIENCE_PARTS_MAX LIMIT_PARTS
#define AUDIENCE_COMPOSITE_MAX LIMIT_COMPOSITE

/* 1 to AUDIENCE_NAME_MAX letters, digits and _, the first no digit. */
bool audience_is_word(const char *name);

/* USER or ALL, in whatever case: what they mean is not a member's to say. */
bool audience_is_reserved(const char *name);

/*
 * A composite audience, as "STRUCTURE+ROLE", is those who belong to all parts of a target, as
 * "s1+admin"; "\\+" and "\\\\" are a plus and a backslash within a part.
 */
bool audience_is_composite(struct bytes kind);

/* True for 2 to AUDIENCE_PARTS_MAX words joined by +, none of them reserved. */
bool audience_is_composite_name(const char *name);

/* Views of `kind` and of `room`, which makes this too large to be copied about. */
struct audience_parts {
    size_t count;
    struct bytes kinds[AUDIENCE_PARTS_MAX];
    struct bytes targets[AUDIENCE_PARTS_MAX]; /* without escapes */
    unsigned char room[AUDIENCE_COMPOSITE_MAX];
};

/* False when they have not as many parts, or one of them is empty or too long: it means nobody. */
bool audience_split(struct bytes kind, struct bytes target, struct audience_parts *ret_parts);

/* Writes the target in the one form that is stored; returns its length. */
size_t audience_join_parts(const struct audience_parts *parts,
                           unsigned char ret_text[AUDIENCE_COMPOSITE_MAX]);

#endif
