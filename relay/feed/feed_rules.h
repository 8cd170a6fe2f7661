/* feed_rules.h: reads the rules for the console, over a separate connection. See also feed.h. */
#ifndef CLAIRON_FEED_FEED_RULES_H
#define CLAIRON_FEED_FEED_RULES_H

#include <stdint.h>

#include "postgres/query.h"

struct feed;

struct feed_rules {
    struct postgres_query query;
    char *text;      /* JSON; NULL: never read */
    int64_t read_us; /* time of the last read; wall clock */
};

#endif
