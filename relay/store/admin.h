/* admin.h: the store's state and its error log, for the console. */
#ifndef CLAIRON_STORE_ADMIN_H
#define CLAIRON_STORE_ADMIN_H

#include "store/store.h"

/* RC_OK and RC_AGAIN have the same meaning as in store.h. */

/*
 * A JSON string, valid during the callback; overview.lua, errors.lua, latest.lua and user.lua
 * define its form. `missing` lists the shards that did not reply, such as "3,7": the JSON lacks
 * their data. Without shard 0 the `relays` of an overview and of a user are null. RC_IO: no shard
 * replied.
 */
typedef void store_described(void *ctx, enum rc rc, struct bytes json, const char *missing);
MUST_CHECK enum rc store_overview(struct store *store, store_described *done, void *ctx);
/* Returns a page of the error log, newest first: dead letters before `before`; NULL: the newest. */
MUST_CHECK enum rc store_errors(struct store *store, const struct entry_id *before,
                                store_described *done, void *ctx);
/* Returns the newest notifications after `after` (NULL: all), newest first, without payloads. */
MUST_CHECK enum rc store_latest(struct store *store, const struct entry_id *after,
                                store_described *done, void *ctx);
/* Returns the relays to which a user is connected, and the number of pending notifications. */
MUST_CHECK enum rc store_user(struct store *store, const char *user, store_described *done,
                              void *ctx);

enum store_error_change {
    STORE_ERROR_CHANGED,
    STORE_ERROR_NOT_FOUND, /* the dead letter does not exist */
    STORE_ERROR_NO_USERS   /* it has no users or is invalid, so it can only be dropped */
};
/* `users`: number of users to whom the notification is sent again. */
typedef void store_error_changed(void *ctx, enum rc rc, enum store_error_change outcome,
                                 long long users);
/* Like command_redrive, for all users of the dead letter. */
MUST_CHECK enum rc store_redrive(struct store *store, struct entry_id entry,
                                 store_error_changed *done, void *ctx);
MUST_CHECK enum rc store_drop(struct store *store, struct entry_id entry, store_error_changed *done,
                              void *ctx);

#endif
