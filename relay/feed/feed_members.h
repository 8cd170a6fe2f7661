/* feed_members.h: the initial copy of clairon.member, for a store without progress. */
#ifndef CLAIRON_FEED_FEED_MEMBERS_H
#define CLAIRON_FEED_FEED_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/frame.h"

struct feed;

struct feed_copy {
    char to[FRAME_POSITION_TEXT + 1]; /* progress after the copy; "": the start */
    uint64_t rows;
    uint64_t ordinal;
};

bool feed_needs_members(const struct feed *feed);
void feed_copy_members(struct feed *feed);
void feed_on_member_rows(struct feed *feed);

#endif
