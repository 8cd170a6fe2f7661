/* hub_private.h: the state of the hub, shared by the files of this room. */
#ifndef CLAIRON_HUB_HUB_PRIVATE_H
#define CLAIRON_HUB_HUB_PRIVATE_H

#include <ev.h>

#include "hub/hub.h"
#include "hub/fanout/pressure.h"
#include "hub/fanout/recent.h"
#include "hub/resume.h"
#include "hub/fanout/run.h"
#include "hub/session_private.h"
#include "store/reader.h"
#include "store/store.h"

#define HUB_ACKS_MAX 100000
#define HUB_ACKS_STRANGE_MAX (HUB_ACKS_MAX / 2) /* of what no window here holds */
#define HUB_NACKS_MAX 8192                      /* ids under way */
#define HUB_BATCH_MAX 128

struct acks {
    struct store_ack *items; /* texts owned */
    size_t count;
    size_t room;
};

/* What is not taken is told now and then: who floods us must not flood the log. */
struct refusals {
    uint64_t count; /* not told yet */
    int64_t told_us;
};

struct shown; /* shown.c */
struct shown_call;

struct delivery_reports {
    struct shown *items; /* waiting for the store */
    size_t count;
    size_t room;
    struct shown_call *asked; /* utlist, in order: answers not handled yet, or to be asked again */
    unsigned calls;           /* so many of them */
    unsigned failed;          /* of these are to be asked again */
};

/*
 * A stretch is a time in which lines are left out. Lines made in it tell the position before it:
 * who comes back from one of them gets what was left out, if there is a place for it then. At its
 * end clients are told of a gap.
 */
struct shed {
    struct pressure pressure;
    ev_timer measure;
    int64_t measured_us;         /* monotonic, as the two below */
    const struct session *probe; /* in hub->waking, since: */
    int64_t probe_us;
    int64_t lag_us; /* the longest wait since measured_us */
    struct entry_id hold[STORE_SHARDS_MAX];
    int64_t began_us;
    uint64_t count; /* of lines, in this stretch */
};

struct hub {
    struct ev_loop *loop;
    const struct config *config;
    struct store *store;
    unsigned shards; /* of the store */
    struct stats *stats;
    struct reader *reader;
    struct store_listener store_listener;
    struct audience *audiences;
    struct session *sessions; /* utlist */
    uint64_t session_count_ever;
    bool has_position; /* the store was up once: recent.head means something */
    char epoch[NOTE_POS_EPOCH_MAX + 1];
    struct recent recent;
    struct note *batch[HUB_BATCH_MAX]; /* read in this turn of the loop, not yet offered */
    unsigned batch_count;
    struct run_joint joint;                   /* of the run that is being offered */
    struct entry_id newest[STORE_SHARDS_MAX]; /* read last, of each shard */
    struct session *waking; /* those with something to send, in the order they got it */
    struct session *waking_last;
    int64_t sending_us;      /* when sending began, by the wall clock */
    ev_prepare turn;         /* the end of a turn: offers the batch, sends */
    ev_idle more;            /* while sessions are left for the next turn */
    unsigned char *scratch;  /* a session's own lines, as a frame */
    unsigned deferred_count; /* sessions with inbox_is_deferred */
    bool refill_waits;       /* of some of them, for acks and reports that wait here */
    struct acks acks;        /* waiting for the store */
    struct acks acks_sent;   /* under way */
    struct delivery_reports shown;
    size_t nack_count; /* under way: ids */
    struct refusals acks_refused;
    struct refusals nacks_refused;
    ev_timer retry; /* hub_retry */
    ev_timer beat;  /* here_beat */
    bool is_untold; /* the store did not take who is here, or who went */
    struct shed shed;
    struct resumes resumes;
    size_t queued_bytes; /* of notes in queues, each counted once */
    bool closing;
};

/* shed.c */
void shed_start(struct hub *hub);
void shed_stop(struct hub *hub);
/* The store was emptied: what was left out is told with all the rest. */
void shed_forget(struct hub *hub);
/* Is it left out now? */
bool shed_takes(const struct hub *hub, const struct note *note);
/* How many of the first notes are not. */
unsigned shed_keeps(const struct hub *hub, struct note *const *notes, unsigned count);
/* The place that a line made now tells, where it would tell `place`. */
struct cursor shed_cursor(const struct session *session, struct cursor cursor);
/* The same of all shards, for a line that was just read. */
const struct entry_id *shed_heads(const struct hub *hub);
/* It was left out for this session. */
void session_shed(struct session *session, const struct note *note);
/* When that session gets its turn, what waits now has waited long enough to tell the lag. */
void shed_waits(struct hub *hub, const struct session *session);
void shed_had_turn(struct hub *hub);

/* shown.c: reports to the store, before any ack that comes later. */
void shown_add(struct session *session, const struct note *note);
/* The window was full: it stays in the user's inbox, or goes there, unless no ack is owed. */
void shown_defer(struct session *session, struct note *note);
/* It was shown before, which the store may have forgotten. */
void shown_keep(struct session *session, const struct inflight_entry *entry);
void shown_flush(struct hub *hub);
/* Some were not sent yet, or have to be again. */
bool shown_waits(const struct hub *hub);
void shown_free(struct hub *hub);

/* here.c: a user's first connection, and the end of the last one. */
void here_arrived(struct hub *hub, const char *user);
void here_left(struct hub *hub, const char *user);
/* Every few seconds. */
void here_beat(struct hub *hub);
/* The store is back, or forgot this relay: all users again. */
void here_announce(struct hub *hub);

/* acks.c */
/* `shard` is that of the message; -1: not known. */
void acks_add(struct hub *hub, const char *user, const char *id, int shard);
/* What was shown, then the acks. */
void acks_flush(struct hub *hub);
/* Nothing waits here any more: what had to wait for that is fetched. */
void acks_refill(struct hub *hub);
void acks_free(struct hub *hub);

/* hub.c */
/* In a second: sends what waits for the store again, and takes the next step of all sessions. */
void hub_retry(struct hub *hub);
/* Offers what was read in this turn. */
void hub_publish(struct hub *hub);
/*
 * Refills all sessions: for those that waited, and on each beat. An ack by itself makes room for
 * its own user, and looks at nobody else.
 */
void hub_refill(struct hub *hub, bool is_beat);
/* The sessions of a user, as members of an audience; NULL when there are none. */
struct audience *hub_find_user(struct hub *hub, struct bytes user);

#endif
