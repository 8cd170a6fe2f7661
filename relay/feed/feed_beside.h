/* feed_beside.h: queries beside the stream: to the primary, to the standby, for the console. */
#ifndef CLAIRON_FEED_FEED_BESIDE_H
#define CLAIRON_FEED_FEED_BESIDE_H

#include <stdint.h>

#include "feed/feed_inquiry.h"

struct feed;

/* feed_primary.c: while CREATING a slot on a standby. Ending what was not begun does nothing. */
struct feed_primary {
    struct feed_inquiry inquiry;
    ev_timer time;
    bool complained;
};

void feed_primary_begin(struct feed *feed);
void feed_primary_end(struct feed *feed);

/* feed_standby.c: while STREAMING from a standby. Likewise. */
struct feed_standby {
    struct feed_inquiry inquiry;
    ev_timer time;
    bool is_mute;      /* it could not be asked the last time */
    unsigned troubles; /* bad answers in a row, as far as they are counted */
};

void feed_standby_begin(struct feed *feed);
void feed_standby_end(struct feed *feed);

/* feed_rules.c: while the console looks at the rules. */
struct feed_rules {
    struct feed_inquiry inquiry;
    ev_timer idle;   /* active: so it is */
    char *text;      /* JSON, as they were read last; NULL: never */
    int64_t read_us; /* and when */
};

void feed_rules_end(struct feed *feed);

#endif
