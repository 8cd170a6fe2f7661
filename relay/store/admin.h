/* admin.h: the store's state and its error log, for the console. */
#ifndef CLAIRON_STORE_ADMIN_H
#define CLAIRON_STORE_ADMIN_H

#include "store/store.h"

/* RC_OK and RC_AGAIN as in store.h. */

/* A JSON text, valid during the callback; overview.lua and errors.lua define it. */
typedef void store_described(void *ctx, enum rc rc, struct bytes json);
MUST_CHECK enum rc store_overview(struct store *store, store_described *done, void *ctx);
/* A page of the error log, newest first: entries older than `before`; NULL: the newest. */
MUST_CHECK enum rc store_errors(struct store *store, const struct entry_id *before,
                                store_described *done, void *ctx);
/* The newest notifications after `after` (NULL: any), newest first, without payloads. */
MUST_CHECK enum rc store_latest(struct store *store, const struct entry_id *after,
                                store_described *done, void *ctx);
/* The relays that a user is connected to, and the pending notifications; form: user.lua. */
MUST_CHECK enum rc store_user(struct store *store, const char *user, store_described *done,
                              void *ctx);

enum store_error_change {
    STORE_ERROR_CHANGED,
    STORE_ERROR_GONE,    /* no such entry */
    STORE_ERROR_NO_USERS /* no users, or invalid: it can only be dropped */
};
/* `users`: number of users the notification is sent to again. */
typedef void store_error_changed(void *ctx, enum rc rc, enum store_error_change outcome,
                                 long long users);
/* Like direct_redrive, for all users of the entry. */
MUST_CHECK enum rc store_redrive(struct store *store, struct entry_id entry,
                                 store_error_changed *done, void *ctx);
MUST_CHECK enum rc store_drop(struct store *store, struct entry_id entry, store_error_changed *done,
                              void *ctx);

#endif
