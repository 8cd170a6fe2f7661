/* history.h: the generations of a shard's stream. */
#ifndef CLAIRON_STORE_HISTORY_H
#define CLAIRON_STORE_HISTORY_H

#include "store/entry.h"

/*
 * A failover or a crash may lose the end of a stream, and the former primary may still add entries
 * to its own copy. A generation begins when hello.lua first runs on a server that has started or
 * was promoted: it ends the generation before at the newest id that the stream has then. So all
 * streams that contain a generation are equal up to the lower of their ends of it.
 *
 * Entries are labelled with their generation where they are read (history_label), by the history of
 * the connection that they arrive on. A cursor is limited to the end of its generation where it is
 * sent to a server (history_position): all later entries of that server are of another generation,
 * so they are unread, whatever their ids are. A cursor of a generation that a history does not
 * contain is not comparable with it: its entries count as lost (a gap).
 *
 * tests/model/failover.pml is a model of these rules.
 */
#define HISTORY_MAX 64 /* generations; cursors of earlier generations are not accepted */

struct history {
    unsigned count; /* the last one is the current one; 0: unknown, ids are not labelled */
    struct history_generation {
        uint32_t number;
        struct entry_id end; /* id in the store; not used for the current generation */
    } generations[HISTORY_MAX];
};

/* Parses `history` in KEY_META: number and end of each generation, then the current number. */
MUST_CHECK enum rc history_read(struct bytes text, struct history *ret_history);

static inline uint32_t
history_current(const struct history *history)
{
    return history->count > 0 ? history->generations[history->count - 1].number : 0;
}

/* Returns the id of an entry in the store, with its generation. */
struct entry_id history_label(const struct history *history, struct entry_id id);

/*
 * Limits an id to the end of its generation, which it keeps. RC_AGAIN: the generation is later than
 * those of the history: this connection has not followed a failover yet. RC_CLOSED: the history
 * does not contain the generation.
 */
MUST_CHECK enum rc history_limit(const struct history *history, struct entry_id *id);

/*
 * The same for an id from `former`, the history that was read before: if the generation was lost,
 * the id is limited to the end of the newest earlier generation that both histories contain.
 */
MUST_CHECK enum rc history_translate(const struct history *former, const struct history *history,
                                     struct entry_id *id);

/* Returns the id in the store after which entries are unread, if history_limit accepts the id. */
struct entry_id history_position(const struct history *history, struct entry_id id);

#endif
