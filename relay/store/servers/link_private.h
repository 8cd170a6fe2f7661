/* link_private.h: the state of link.h, shared by its files. */
#ifndef CLAIRON_STORE_LINK_PRIVATE_H
#define CLAIRON_STORE_LINK_PRIVATE_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "store/connection/connect.h"
#include "store/scripts/constants.h"
#include "store/servers/link.h"
#include "store/servers/servers.h"

#define LINK_REASON_MAX 256
#define SHA_TEXT 40
#define LINK_POLL_S 0.2 /* interval while the server loads its dataset or runs a script */

struct redisAsyncContext;
struct request; /* link_requests.c */
struct reply_arena;
struct send_queue;

/*
 * DOWN -> CONNECTING -> HANDSHAKE -> UP. Each of the last three states may return to DOWN, and UP
 * to HANDSHAKE: a server that is busy with a script is polled like one that loads its dataset.
 */
enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_HANDSHAKE, LINK_UP };

struct link {
    enum link_state state;
    struct ev_loop *loop;
    const char *name;
    struct link_events events;
    struct stats *stats; /* NULL: scripts are not measured */
    struct servers *servers;
    struct servers_user user;
    struct url address; /* host "" and path "": unknown */
    struct connect connect;
    struct redisAsyncContext *redis; /* NULL while down */
    struct reply_arena *arena;
    struct send_queue *queue;
    struct backoff backoff;
    ev_timer retry; /* LINK_DOWN: runs the next attempt; LINK_HANDSHAKE: repeats INFO */
    ev_timer watchdog;
    int64_t watchdog_us; /* time of the last watchdog */
    double timeout_s;
    struct request *requests; /* utlist, in flight */
    unsigned pending;         /* commands in flight */
    int64_t received_us;      /* time of the last reply, or start of the wait */
    double was_silent_s;      /* seconds without a reply when the link last went down */
    int scripts_loaded;
    bool is_loading;
    bool is_busy;      /* the server runs a script (fault_is_busy) */
    bool is_usable;    /* the connection works: the backoff is reset */
    int64_t usable_us; /* end of the last usable connection; at first the time of link_open */
    char none_key[STORE_KEY_MAX];
    bool closing;
    char shas[STORE_SCRIPT_COUNT][SHA_TEXT + 1];
};

/* The only transition to LINK_DOWN; used in every other state. */
void link_fail(struct link *link, const char *reason);
/* Seconds since the last reply or, if no command was pending, since the next command. */
double link_silent_s(const struct link *link);

/* Sends a command of up to three words in any state with a connection. */
void link_send_setup(struct link *link, link_reply *reply, int argc, const char *a, const char *b,
                     const char *c);

/* Authenticates, waits until the dataset is loaded, and loads the scripts; then on_up is called. */
void link_begin_handshake(struct link *link);

/*
 * The server is busy with a script: pending requests end as if the connection was lost, and the
 * link is down until the server replies again. The connection is kept.
 */
void link_wait_while_busy(struct link *link);

#endif
