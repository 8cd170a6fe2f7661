/*
 * subscription.h: parses the JSON of a browser's PushSubscription, and matches its endpoint with
 * the origins of push services. Pure.
 */
#ifndef CLAIRON_WIRE_SUBSCRIPTION_H
#define CLAIRON_WIRE_SUBSCRIPTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "wire/json_doc.h"
#include "wire/push_encryption.h"

#define SUBSCRIPTION_ENDPOINT_MAX 2048

struct subscription {
    char *endpoint;
    size_t origin_len; /* bytes of scheme, host and port at the start of the endpoint */
    struct web_push_keys keys;
    char key[WEB_PUSH_POINT_TEXT + 1]; /* the VAPID key that it was made with; "": not in it */
};

/*
 * RC_BAD: `error` names the field. `origins` as in the setting webpush.origins. Members that a
 * PushSubscription may get in the future are ignored.
 */
MUST_CHECK enum rc subscription_parse(const char *text, size_t len, const char *origins,
                                      struct subscription *ret_subscription,
                                      char error[WIRE_ERROR_MAX]);

/* Adds the subscription in the form in which the store keeps it. */
MUST_CHECK enum rc subscription_write(const struct subscription *subscription, struct buffer *out);

/* Parses that form. RC_BAD: not written by subscription_write. */
MUST_CHECK enum rc subscription_read(const char *text, size_t len,
                                     struct subscription *ret_subscription);

/* Identifies an endpoint by its hash. */
#define SUBSCRIPTION_ID_TEXT BASE64URL_LEN(32)
void subscription_id(const char *endpoint, char ret_id[SUBSCRIPTION_ID_TEXT + 1]);

/* Accepts a zeroed subscription. */
void subscription_free(struct subscription *subscription);

/* Parses {"endpoint":".."}. The caller frees the endpoint. */
MUST_CHECK enum rc subscription_parse_endpoint(const char *text, size_t len, char **ret_endpoint,
                                               char error[WIRE_ERROR_MAX]);

/*
 * Returns the length of the endpoint's origin if the list contains it, otherwise 0. An item is
 * scheme, host and optional port, compared byte for byte. With https, "*." before a domain matches
 * one label or more.
 */
size_t subscription_match_origin(const char *origins, const char *endpoint);

/* Returns the number of the item that contains the endpoint's origin, from 1. 0: none. */
size_t subscription_origin_item(const char *origins, const char *endpoint);

#endif
