/* reader_private.h: the reader's state, shared by its two files. */
#ifndef CLAIRON_STORE_READER_PRIVATE_H
#define CLAIRON_STORE_READER_PRIVATE_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "store/connection/topology.h"
#include "store/read/order.h"
#include "store/read/tail.h"
#include "store/reader.h"
#include "store/shards/shard.h"
#include "store/store.h"

/* What is followed of one shard. */
struct channel {
    struct entry_id at;
    char stream_key[STORE_KEY_MAX];
    struct tail receipts; /* goes on where it was when the connection comes back */
};

/* What of the last answer there was more of: what hangs on that is not asked for meanwhile. */
enum lag {
    LAG_NONE,
    LAG_NOTES,  /* acks come after what they are for */
    LAG_MEMBERS /* and memberships before what they decide about */
};

/*
 * A server, with the shards that topology.h places on it; the first has the control
 * stream.
 */
struct lane {
    struct reader *reader;
    unsigned number;
    struct link *link;
    bool is_placed; /* "$" was resolved: where to read on is exact */
    bool reading;   /* an XREAD is under way .. */
    bool is_stale;  /* .. for what comes after places that do not count any more */
    size_t asked;   /* .. and for so many entries of each stream */
    enum lag lag;
    char name[24]; /* in the log */
    char beat_key[STORE_KEY_MAX];
};

struct reader {
    struct stats *stats;
    struct reader_events events;
    bool seeking; /* reader_seek was called: we know where to read */
    struct store *store;
    struct ev_loop *loop;
    struct order *order; /* of several shards */
    ev_timer order_timer;
    struct tail control;
    size_t each;       /* streams of a server, at most */
    size_t most;       /* entries of one stream in an answer */
    size_t note_bytes; /* of the largest lately */
    struct topology topology;
    unsigned lane_count;
    struct lane lanes[STORE_SHARDS_MAX];
    unsigned channel_count;
    struct channel channels[];
};

/* reader.c: asks for what comes next, unless that is under way. */
void reader_read(struct lane *lane);

/* reader_reply.c */
/* Hands on what an answer holds, and moves the places behind it. Stale: its notes do not count. */
void reader_take(struct lane *lane, const struct redisReply *reply, bool is_stale);
/* Gives up waiting for notes of shards that are behind; every half a second while some wait. */
void reader_order_timer(struct ev_loop *loop, ev_timer *timer, int events);

#endif
