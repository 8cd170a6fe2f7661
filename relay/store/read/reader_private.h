/* reader_private.h: the reader's state, shared by its files. */
#ifndef CLAIRON_STORE_READER_PRIVATE_H
#define CLAIRON_STORE_READER_PRIVATE_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "store/read/control.h"
#include "store/read/order.h"
#include "store/reader.h"
#include "store/servers/link.h"
#include "store/servers/topology.h"
#include "store/shards/shard.h"
#include "store/store.h"

/* The streams of one shard. */
struct shard_stream {
    struct server_reader *server;
    unsigned number;
    struct entry_id at;        /* id of the last stream entry read */
    struct entry_id delivered; /* id of the last one that was delivered: others wait in `order` */
    struct history history;    /* of the server of this connection */
    char stream_key[STORE_KEY_MAX];
    char epoch[STORE_EPOCH_TEXT + 1]; /* epoch of the shard at the last reader_seek */
    struct tail ack_events;           /* keeps its position across a reconnect */
};

/*
 * Which stream had more entries than fit into the last reply. Dependent streams are not read until
 * that stream is read to its end.
 */
enum lag {
    LAG_NONE,
    LAG_NOTIFICATIONS, /* acknowledgements follow their notifications */
    LAG_MEMBERS        /* memberships precede the notifications that they route */
};

/* The shards of a cluster are followed while a session needs them (follow.c). */
enum follow_state {
    FOLLOW_NONE,    /* not followed: no connection */
    FOLLOW_OPENING, /* the shard's start position is not known yet */
    FOLLOW_MERGING, /* the shard is read, but commit order does not apply yet */
    FOLLOW_DONE
};

/* A connection to one server, for the shards that topology.h assigns to it. */
struct server_reader {
    struct reader *reader;
    unsigned number; /* server 0 also has the control stream */
    struct link *link;
    enum follow_state follow;
    struct reader_followed begin; /* start position of a merge in progress */
    int64_t merging_us;           /* monotonic time at which the merge started */
    bool is_positioned; /* the control stream's newest id is known: XREAD misses no later entry */
    bool reading;       /* an XREAD is in flight */
    /* the XREAD in flight uses positions from before the last reader_seek */
    bool is_stale;
    size_t entries_requested; /* COUNT of the XREAD in flight */
    enum lag lag;
    char name[24]; /* name in the log */
    char heartbeat_key[STORE_KEY_MAX];
};

struct reader {
    struct stats *stats;
    struct reader_events events;
    bool has_start; /* reader_seek has been called */
    struct store *store;
    const struct config *config;
    struct ev_loop *loop;
    struct order *order; /* NULL with a single shard */
    ev_timer order_timer;
    struct tail control;
    size_t streams_max; /* streams of a server */
    size_t entries_max; /* entries of one stream in a reply */
    size_t entry_bytes; /* size of the largest recent entry */
    struct topology topology;
    unsigned server_count;
    struct server_reader servers[STORE_SHARDS_MAX];
    unsigned stream_count;
    struct shard_stream streams[];
};

/*
 * A relay reads shard 0. In a cluster it also reads the shards of its connected users. A shard that
 * is followed later is read and ordered from its newest stream entry on. Earlier deliveries from
 * shard 0 may depend on entries of the shard that are not stored yet. The newest entry may depend
 * on entries of shard 0 that were not read yet. Once all of these entries are delivered, sessions
 * can continue from this point (events.on_followed). They read all earlier entries from the store.
 */

/* Requests the start position. RC_AGAIN: the link is down. */
MUST_CHECK enum rc follow_request(struct server_reader *server, link_reply *reply);
/* Starts at the position in the reply. Returns NULL or an error message. */
const char *follow_begin(struct server_reader *server, const struct redisReply *reply);
/*
 * Part of reader_seek: the shard starts at its position. Only the first reader_seek has a position
 * for a shard that is being opened. After later calls the reply to follow_request contains the
 * position. A shard that is being merged remains in that state: other shards may lack the stream
 * entries that it waits for.
 */
void follow_seek(struct server_reader *server);
/* Calls on_followed for shards that have joined the commit order. Call it after each release. */
void follow_advance(struct reader *reader);
/* A shard is being merged: call follow_advance again later. */
bool follow_waits(const struct reader *reader);

#endif
