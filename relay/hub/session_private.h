/* session_private.h: what the files of this room do with a session, by file. */
#ifndef CLAIRON_HUB_SESSION_PRIVATE_H
#define CLAIRON_HUB_SESSION_PRIVATE_H

#include "hub/session_state.h"
#include "store/store.h"

#define SESSION_QUEUE_BYTES (512u * 1024)
#define SESSION_SAID_MAX 65536
#define SESSION_PAGE 256
#define SESSION_NAME_MAX 320

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
struct cursor session_head(const struct session *session);
/* All before it was given to this session, or was not for it. */
struct cursor session_reached(const struct session *session);
/* A note, or another's, that tells a place of this session alone. The caller owns one reference. */
/* The line of an entry, with its targets unless delivery.hide_targets is on. */
struct note *hub_note(const struct hub *hub, const struct entry *entry, const struct entry_id *pos);
struct note *session_note(const struct session *session, const struct entry *entry,
                          struct cursor cursor);
struct note *session_note_at(const struct session *session, const struct note *note,
                             struct cursor cursor, const struct note *overtaken);
/* What its name in the log, and `connected`, call it by; lives as long as it does. */
struct bytes session_conn(const struct session *session);
void session_pos_text(const struct session *session, struct cursor cursor,
                      char ret_text[NOTE_POS_MAX]);
/*
 * A client goes on from `to`: it is moved before all that still waits for the socket, or that
 * was left out and is to be told later.
 */
void session_gap(struct session *session, struct cursor from, struct cursor to, const char *why);
/* The place behind this note. */
struct cursor session_cursor_behind(const struct session *session, const struct note *note);
/* This note will not come. */
void session_tell_missed(struct session *session, const struct note *note, const char *why);
/* session_gap with `to` as it is; later, if there is no room for it now. */
void session_say_gap(struct session *session, struct cursor from, struct cursor to,
                     const char *why);
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
struct cursor session_before_queue(const struct session *session, struct cursor to);
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
const struct backlog *backlog_told(const struct session *session, struct cursor cursor,
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

#endif
