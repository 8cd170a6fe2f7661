/* forget.h: removes a user from the store: `clairon forget`, and POST /v1/users/<id>/forget. */
#ifndef CLAIRON_STORE_FORGET_H
#define CLAIRON_STORE_FORGET_H

#include <stdint.h>

#include "base/memory.h"
#include "store/command.h"
#include "store/store.h"

/* Where the name remains, in entries that others need too. */
enum forget_place {
    FORGET_STREAM,   /* notifications that are also addressed to others, or that name the user */
    FORGET_ERRORS,   /* the same, in the error log */
    FORGET_RECEIPTS, /* until each sink has them, or they are trimmed */
    FORGET_CONTROL,  /* membership changes and ack events that relays may still read */
    FORGET_PLACES
};

struct forget_remainder {
    uint64_t entries;
    int64_t until_ms; /* Unix time: at the latest; 0: no entries */
    bool has_no_end;  /* an entry is pending for others, and does not expire */
};

struct store_forgotten {
    uint64_t pairs;         /* pending pairs that ended as forgotten */
    uint64_t notifications; /* stream entries that were deleted */
    uint64_t removed;       /* other keys, fields and entries that were removed or changed */
    uint64_t memberships;   /* in clairon.member, which is the application's */
    bool is_connected;      /* a relay has not ended the user's sessions */
    struct forget_remainder remain[FORGET_PLACES];
};

/*
 * Ends the sessions and pairs of a user, and removes the name from all shards, in many small steps.
 * After a failure, call it again: it removes what is left. RC_OK and RC_AGAIN have the same meaning
 * as in store.h. RC_IO: not all was removed.
 */
typedef void store_forget_done(void *ctx, enum rc rc, const struct store_forgotten *forgotten);
MUST_CHECK enum rc store_forget(struct store *store, const char *user, store_forget_done *done,
                                void *ctx);

/* Like store_forget, for a command; waits several seconds for shards. RC_IO: command_error. */
MUST_CHECK enum rc command_forget(struct command *command, const char *user,
                                  struct store_forgotten *ret_forgotten);

/* Writes the result as a JSON object. */
MUST_CHECK enum rc store_forgotten_write(const struct store_forgotten *forgotten,
                                         struct buffer *out);

#endif
