/* hub_private.h: the hub's and a session's state, shared by the files of this room. */
#ifndef CLAIRON_HUB_HUB_PRIVATE_H
#define CLAIRON_HUB_HUB_PRIVATE_H

#include <ev.h>
#include <stddef.h>

#include "hub/fanout/audience.h"
#include "hub/hub.h"
#include "hub/fanout/pressure.h"
#include "hub/fanout/recent.h"
#include "hub/resume.h"
#include "hub/session/inbox.h"
#include "hub/session/inflight.h"
#include "hub/session/outbound.h"
#include "hub/fanout/run.h"
#include "hub/fanout/topics.h"
#include "store/reader.h"
#include "store/store.h"

#define HUB_ACKS_MAX 100000
#define HUB_ACKS_STRANGE_MAX (HUB_ACKS_MAX / 2) /* of what no window here holds */
#define HUB_NACKS_MAX 8192                      /* ids under way */
#define HUB_BATCH_MAX 128
#define SESSION_QUEUE_BYTES (512u * 1024)
#define SESSION_SAID_MAX 65536
#define SESSION_PAGE 256
#define SESSION_NAME_MAX 320

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
    struct shown *shown;     /* waiting for the store */
    size_t shown_count;
    size_t shown_room;
    struct shown_call *shown_asked; /* utlist, in order: answers not taken yet, or to ask again */
    unsigned shown_calls;           /* so many of them */
    unsigned shown_failed;          /* of these are to be asked again */
    size_t nack_count;              /* likewise: ids */
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

/*
 * What a session does next; session_step starts it, and session_set_state alone changes it. In all
 * but LIVE and CLOSED at most one request to the store is under way for the session itself.
 *
 * GROUPING: it asks the store for its user's memberships. Nothing was sent, not even `connected`.
 * Then: CHECKING.
 *
 * CHECKING: it looks up whether all that follows the client's position still exists, and whether
 * the backlog that the position reports still waits. It ends with `connected`, after a `gap` if
 * something was lost. Then: INBOX.
 *
 * INBOX: it reads its user's inbox page by page: notifications up to its cursor that wait for an
 * acknowledgement. It ends at the last page, or when the in-flight window is full. New
 * notifications are not offered: they follow the cursor. Then: CATCHING_UP.
 *
 * CATCHING_UP: it reads what follows its cursor, from the replay buffer or from the store. A full
 * outbound queue suspends that until the socket took something. Then: LIVE.
 *
 * LIVE: the hub offers it new notifications. It falls back to CATCHING_UP when its queue is full,
 * and to INBOX when notifications there can be sent now (see enum inbox_refill).
 *
 * CLOSED: the socket is gone. It is freed once no answer of the store and no list holds it.
 */
enum __attribute__((packed)) session_state {
    SESSION_GROUPING,
    SESSION_CHECKING,
    SESSION_INBOX,
    SESSION_CATCHING_UP,
    SESSION_LIVE,
    SESSION_CLOSED
};

/*
 * The memberships of clairon.member, as the store answered last. Nothing is judged by them while
 * they may be those of before.
 *
 * CURRENT: they are followed change by change.
 * WANTED: they are asked for once the store is back.
 * ASKED: the answer is under way.
 * STALE: likewise, but it may have been made before a change: then they are asked for again.
 */
enum groups_state { GROUPS_CURRENT, GROUPS_WANTED, GROUPS_ASKED, GROUPS_STALE };

struct session_groups {
    struct membership *memberships;
    enum groups_state state;
};

/* What the client brought, and what `connected` reports of it. */
struct session_client {
    char *user;
    char *name; /* for the log */
    int64_t expires_s;
    int64_t request_id;
    bool has_request_id;
    unsigned char own_shard; /* of its user */
};

/* Lines of its own, sent before notifications, and the gaps that are to be announced by them. */
struct session_control {
    struct buffer lines;    /* each with its '\n' */
    struct place lost_from; /* where a gap that is not announced yet begins .. */
    const char *lost_why;   /* .. and why; NULL: there is none */
    bool has_shed;          /* notifications were left out in this stretch */
};

/* How its socket takes what is sent. */
struct session_socket {
    void *handle;
    const struct session_transport *transport;
};

/* While the socket takes nothing; both 0 unless session->is_timed. */
struct session_stall {
    size_t passed_bytes; /* offered while the session was paused */
    int64_t taken_us;    /* when it last took something; monotonic */
};

/* Answers of the store. */
struct session_requests {
    unsigned count;  /* under way, that hold the session's address */
    bool is_awaited; /* one of them, or its turn to resume, will call session_step */
    bool has_failed; /* the last one reported an error */
};

struct session_order {
    struct backlog *backlog; /* NULL: none, and nothing to report of one */
    struct row_order *rows;  /* NULL: no notification of a row that needs an ack was queued yet */
};

struct session { /* from a pool: at the start of a cache line */
    struct hub *hub;
    struct topics *topics; /* that it is shown; NULL: all */
    struct session *next;
    struct session *prev;
    struct session_requests requests;
    struct outbound outbound;
    /* With the second half of `outbound` one cache line: all that a fan-out reads of a session. */
    enum session_state state;
    bool is_blocked;  /* the transport calls session_writable */
    bool is_waking;   /* in hub->waking: not freed before it is taken out */
    bool has_said;    /* lines of its own wait, or a gap that is not told yet */
    bool has_topics;  /* it is not shown all: see topics */
    bool is_timed;    /* see stall */
    bool has_backlog; /* its lines report one: see order */
    bool is_poll;     /* it lasts for one answer */
    struct session *waking_next;
    struct session_socket socket;
    struct place cursor; /* all up to here was queued, or was not for this user */
    /* The rest, from the cursor's own half on. */
    struct session_groups groups;
    struct session_client client;
    struct session_control control;
    struct session_stall stall;
    struct session_order order;
    struct session_resume resume;
    struct inbox inbox;
    struct inflight inflight;
};

_Static_assert(offsetof(struct session, outbound.run) == 64 &&
                   offsetof(struct session, cursor.own) == 128,
               "a fan-out reads one cache line of a session");

/* session.c */
/* Aborts on a transition that the states above do not name: every one can become CLOSED. */
void session_set_state(struct session *session, enum session_state state);
/*
 * Queues it (a reference of its own), unless it needs an ack and the window is full: then it stays
 * in the user's inbox, and what needs no ack goes on.
 */
void session_enqueue(struct session *session, struct note *note);
/* The same of one from the inbox. */
void session_enqueue_owed(struct session *session, struct note *note);
/* It is offered nothing any more: session_step fetches what comes. */
void session_pause(struct session *session);
/* A new note for this session's audience. */
void session_offer(struct session *session, struct note *note);
/* A retry of a note for this session's user. */
void session_offer_again(struct session *session, struct note *note);
/* Queues a note that was held back although no ack of this user is waited for. */
void session_give_unowed(struct session *session, struct note *note);
/* The same for a run. */
void session_offer_run(struct hub *hub, struct session *session, struct run *run);
/* Says a gap that had to wait, such as one of notes that expired before they were queued. */
void session_tell_lost(struct session *session);
bool session_is_for(const struct session *session, const struct frame *frame);
/*
 * The hub's place as this session sees it. The store's pages are taken up to there: memberships are
 * known as far. And two streams are not asked in one moment: of what is behind, something may be
 * missing that is earlier than what is there of the other.
 */
struct place session_head(const struct session *session);
/* All before it was given to this session, or was not for it. */
struct place session_reached(const struct session *session);
/* A note, or another's, that tells a place of this session alone. The caller owns one reference. */
/* The line of an entry, with its targets unless delivery.hide_targets is on. */
struct note *hub_note(const struct hub *hub, const struct entry *entry, const struct entry_id *pos);
struct note *session_note(const struct session *session, const struct entry *entry,
                          struct place place);
struct note *session_note_at(const struct session *session, const struct note *note,
                             struct place place, const struct note *overtaken);
/* What its name in the log, and `connected`, call it by; lives as long as it does. */
struct bytes session_conn(const struct session *session);
void session_pos_text(const struct session *session, struct place place,
                      char ret_text[NOTE_POS_MAX]);
/*
 * A client goes on from `to`: it is moved before all that still waits for the socket, or that
 * was left out and is to be told later.
 */
void session_gap(struct session *session, struct place from, struct place to, const char *why);
/* The place behind this note. */
struct place session_place_behind(const struct session *session, const struct note *note);
/* This note will not come. */
void session_tell_missed(struct session *session, const struct note *note, const char *why);
/* session_gap with `to` as it is; later, if there is no room for it now. */
void session_say_gap(struct session *session, struct place from, struct place to, const char *why);
void session_free_if_done(struct session *session);
/* session_acks.c */
/* Another relay stored these acks, or they were given up: `ids` in lower case. */
void hub_settled(struct hub *hub, const char *user, const char *const *ids, size_t count,
                 bool was_acked);
/* Nobody waits for an ack of it by this user. */
void hub_free_place(struct hub *hub, const char *user, const char *id);

/* session_queue.c */
bool session_is_full(const struct session *session);
/* Nothing waits for its socket, apart from lines of its own. */
bool session_is_idle(const struct session *session);
/* There is room for a line of its own of so many bytes. */
bool session_can_say(const struct session *session, size_t len);
/* What goes out next, apart from lines of its own; NULL: nothing, or a run. */
const struct note *session_first_queued(const struct session *session);
/* `to`, or where to go on so as to get all of the queue. */
struct place session_before_queue(const struct session *session, struct place to);
/* HIGH goes before NORMAL before LOW, save in a poll; else in the order of the calls. */
void session_queue(struct session *session, struct note *note);
/* False when it is to be queued note by note, as others wait or the socket is full. */
bool session_queue_run(struct hub *hub, struct session *session, struct run *run);
void session_drop_queue(struct session *session);
/* Something waits: it is sent at the end of this turn, or when the socket can take it. */
void session_wake(struct session *session);
/*
 * Gives the sockets of the first `most` sessions that wait what they take, forgetting those that
 * are gone; true when others are left.
 */
bool hub_send_some(struct hub *hub, unsigned most);

/* row_order.c */
/*
 * Order: what one rule reports of one row reaches a session in commit order. Those that need an
 * ack are the only ones that can be late: they wait in the inbox for a place in the window, for
 * their user's return to a group or to a topic, for a redrive. Two places hold the order:
 *
 * - backlog_decide: one that is not in the inbox (acked elsewhere) never goes past those that wait
 *   there; it is left out, with a gap behind them.
 * - row_order_pass, which session_queue asks of each notification, whatever brought it: one that is
 *   older than another of its topic in this session is sent with `attempts` above 0, so that the
 *   client does not apply it over the newer one.
 *
 * A rule has one topic; a rule that was replaced is another rule. Returns a reference.
 */
struct note *row_order_pass(struct session *session, struct note *note);
/* Positions of another epoch mean nothing in this one. */
void row_order_free(struct session *session);

/* session_slow.c */
/* It was offered something while its socket took nothing. */
void session_passed(struct session *session, size_t bytes);

/* session_check.c */
/* CHECKING: says `connected`, or asks the store first. */
void session_check(struct session *session);

/* session_load.c */
void session_step(struct session *session);
/*
 * Common to all answers. False when the session is gone, had to be closed, or waits: the store's
 * return will call session_step.
 */
bool session_answered(struct session *session, enum rc rc);
/* Asked: the answer calls session_step; not asked: the store's return does. */
void session_await(struct session *session, enum rc asked);
void session_regroup(struct session *session);
/* The answer that is under way may have been made before a change of the memberships. */
bool session_awaits_groups(const struct session *session);
/* clairon.member has its user in this audience from now on. */
void session_join(struct session *session, const char *key, size_t len);
/* The store was emptied: nothing before the hub's head exists any more. */
void session_change_epoch(struct session *session);

/* session_refill.c */
/*
 * Fetches from the inbox what was deferred, once acks have made room: half of the window, or on a
 * beat any.
 */
void session_refill(struct session *session, bool is_beat);
/* Asks the store whether what this session waits for is still to be acked. */
void session_doubt(struct session *session);

/* backlog.c */
void backlog_free(struct session *session);
/* Its client came with this one. */
void backlog_carry(struct session *session, const struct backlog *told);
/* There was no room for a new note, the next behind the cursor; then: the store is asked of it. */
void backlog_add(struct session *session, const struct note *note);
void backlog_asked(struct session *session, const struct note *note);
bool backlog_waits(const struct session *session);
/*
 * The store's answer about a note that was held back. True when it goes as it is: nobody waits for
 * this user's ack, nor do older ones wait, counted here or unread in the inbox. Behind those it is
 * missed, with a gap behind them.
 */
bool backlog_decide(struct session *session, const struct note *note, bool is_unowed);
/* What is in the inbox with this score is of it. */
bool backlog_has(const struct session *session, unsigned shard, uint64_t score);
/* A note from the inbox found room. */
void backlog_take(struct session *session, const struct note *note);
/* Nothing waits in the inbox any more: what is left of it is gone. */
void backlog_lose(struct session *session);
/* All of it was told as a gap. */
void backlog_forget(struct session *session);
/*
 * What a line with this place tells of it: if it goes before others, what the first of these, which
 * may be NULL, told. NULL: nothing. It lives as long as both.
 */
const struct backlog *backlog_told(const struct session *session, struct place place,
                                   const struct note *overtaken);
/* Says that some of it is gone, once what came before that was sent. */
void session_tell_gone(struct session *session);

/* window.c */
/*
 * Takes a place in the window for a note that needs an ack. Whether this user's ack is waited for
 * is the store's to say: who has left a group's rows may still owe it, and be of the group by a
 * token. False when the note is not to be queued now.
 */
bool window_enter(struct session *session, struct note *note);
/* The same of one from the inbox: there it stays when there is no room. */
bool window_enter_owed(struct session *session, struct note *note);
/* Its topics hide that note, one of the inbox: those that wait are counted all the same. */
void window_hide(struct session *session, struct note *note);
void window_hide_owed(struct session *session, const struct note *note);
/* The line was handed to the socket: from now the time of its ack runs. */
void window_wrote(struct session *session, struct note *note);
/* A retry is to be queued: by window_enter, now or when the inbox is read again. */
void window_miss(struct session *session, const struct note *note);
/* The inbox is to be read again, once there is room. */
void window_defer(struct session *session);
/*
 * Gives its place back: it was acked, or left the queue unwritten. The shard of what had it, or -1.
 */
int window_forget(struct session *session, const unsigned char id[16]);
void window_drop(struct session *session, const struct note *note);
/* It was shown, and nobody waits for it any more. */
void window_give_up(struct session *session, const unsigned char id[16]);

/*
 * The whole inbox was read to reconcile the window with it: entries that were not found there leave
 * the window, and those that stay are reported to the store.
 */
void window_drop_refuted(struct session *session);

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
struct place shed_place(const struct session *session, struct place place);
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
