/* audience_name.h: names and targets of audiences, as in clairon.watch. Pure. */
#ifndef CLAIRON_WIRE_AUDIENCE_NAME_H
#define CLAIRON_WIRE_AUDIENCE_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "decoder/protocol/limits.h"
#include "wire/bytes.h"

#define AUDIENCE_NAME_MAX LIMIT_AUDIENCE_WORD /* bytes */
#define AUDIENCE_TARGET_MAX LIMIT_TARGET      /* bytes of one part */
#define AUDIENCE_PARTS_MAX LIMIT_PARTS
#define AUDIENCE_COMPOSITE_MAX LIMIT_COMPOSITE

/* True for 1 to AUDIENCE_NAME_MAX letters, digits and _, not starting with a digit. */
bool audience_is_word(const char *name);

/* True for USER and ALL, case-insensitively: they are not memberships. */
bool audience_is_reserved(const char *name);

/*
 * The recipients of a composite audience such as "STRUCTURE+ROLE" belong to every part of a target
 * such as "s1+admin". "\\+" and "\\\\" are a plus sign and a backslash within a part.
 */
bool audience_is_composite(struct bytes kind);

/* True for 2 to AUDIENCE_PARTS_MAX names joined by +, none of them reserved. */
bool audience_is_composite_name(const char *name);

/* True if the kind is one of these parts. A name without a + has one part. */
bool audience_has_part(const char *name, struct bytes kind);

/* Points into `kind` and `room`. Self-referential: do not copy the struct. */
struct audience_parts {
    size_t count;
    struct bytes kinds[AUDIENCE_PARTS_MAX];
    struct bytes targets[AUDIENCE_PARTS_MAX]; /* unescaped */
    unsigned char room[AUDIENCE_COMPOSITE_MAX];
};

/*
 * False if the numbers of parts differ, or a part is empty or too long. Such a target has no users.
 */
bool audience_split(struct bytes kind, struct bytes target, struct audience_parts *ret_parts);

/* Writes the canonical form of the target, which is used in the store. Returns its length. */
size_t audience_join_parts(const struct audience_parts *parts,
                           unsigned char ret_text[AUDIENCE_COMPOSITE_MAX]);

#endif
