/* tally.h: represents a set of notifications by its count and a sum of hashes. */
#ifndef CLAIRON_HUB_FANOUT_TALLY_H
#define CLAIRON_HUB_FANOUT_TALLY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A set of notifications: their count and the sum of the hashes of their ids. The sum distinguishes
 * sets of the same size: an inbox may also contain notifications that the session skipped, because
 * its user was not in their group or they were outside its topics.
 */
struct tally {
    unsigned count;
    uint32_t sum;
};

void tally_add(struct tally *tally, const unsigned char id[16]);
void tally_remove(struct tally *tally, const unsigned char id[16]);
static inline bool
tally_equal(struct tally a, struct tally b)
{
    return a.count == b.count && a.sum == b.sum;
}

#endif
