/* subscription.c: parses PushSubscriptions, and matches their endpoints with origins. */
#include "wire/subscription.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/sha.h>

#include "base/memory.h"
#include "wire/json_doc.h"

#define SEPARATORS ", \t"
#define WILDCARD "https://*."
#define WILDCARD_SCHEME_LEN 8 /* "https://" */

/* ---- origins */

/*
 * True for one or more labels, each followed by a dot. All characters but these could end the host
 * in some parser of URLs.
 */
static bool
are_labels(const char *text, size_t len)
{
    size_t label_len = 0;

    for (size_t i = 0; i < len; i++) {
        bool is_letter = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9') ||
                         text[i] == '-' || text[i] == '_';

        if (!is_letter && (text[i] != '.' || label_len == 0))
            return false;
        label_len = is_letter ? label_len + 1 : 0;
    }
    return len > 0 && label_len == 0;
}

static bool
matches(const char *item, size_t item_len, const char *origin, size_t len)
{
    const size_t wildcard_len = strlen(WILDCARD);
    size_t domain_len;

    if (item_len <= wildcard_len || memcmp(item, WILDCARD, wildcard_len) != 0)
        return item_len == len && memcmp(item, origin, len) == 0;
    domain_len = item_len - wildcard_len;
    return len > WILDCARD_SCHEME_LEN + domain_len &&
           memcmp(origin, WILDCARD, WILDCARD_SCHEME_LEN) == 0 &&
           memcmp(origin + len - domain_len, item + wildcard_len, domain_len) == 0 &&
           are_labels(origin + WILDCARD_SCHEME_LEN, len - domain_len - WILDCARD_SCHEME_LEN);
}

/* Length of the endpoint's origin, 0 if it has none. */
static size_t
origin_length(const char *endpoint)
{
    const char *host = strstr(endpoint, "://");

    return host != NULL ? (size_t)(host + 3 - endpoint) + strcspn(host + 3, "/?#") : 0;
}

size_t
subscription_origin_item(const char *origins, const char *endpoint)
{
    const size_t len = origin_length(endpoint);

    for (size_t number = 1; len > 0; number++) {
        size_t item_len;

        origins += strspn(origins, SEPARATORS);
        item_len = strcspn(origins, SEPARATORS);
        if (item_len == 0)
            return 0;
        if (matches(origins, item_len, endpoint, len))
            return number;
        origins += item_len;
    }
    return 0;
}

size_t
subscription_match_origin(const char *origins, const char *endpoint)
{
    return subscription_origin_item(origins, endpoint) > 0 ? origin_length(endpoint) : 0;
}

/* ---- subscriptions */

/* A URL as browsers write it: printable ASCII. */
static bool
is_url(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    }
    return len > 0 && len <= SUBSCRIPTION_ENDPOINT_MAX;
}

static enum rc
read_endpoint(struct json_doc *doc, char *error, const char **ret_endpoint)
{
    const struct json_value *value = json_doc_member(doc, json_doc_root(doc), "endpoint");
    const char *text = json_doc_text(doc, value);

    if (text == NULL || !is_url(text, json_text_len(value)))
        return wire_reject(error, "endpoint must be a URL of 1 to %d bytes",
                           SUBSCRIPTION_ENDPOINT_MAX);
    *ret_endpoint = text;
    return RC_OK;
}

/* False if the text does not encode exactly `size` bytes. */
static bool
decode_exactly(const char *text, void *ret_bytes, size_t size)
{
    size_t len = 0;
    char *bytes = base64url_decode(text, strlen(text), &len);
    bool is_good = bytes != NULL && len == size;

    if (is_good)
        memcpy(ret_bytes, bytes, size);
    free(bytes);
    return is_good;
}

static bool
read_bytes(struct json_doc *doc, const struct json_value *value, unsigned char *ret_bytes,
           size_t size)
{
    const char *text = json_doc_text(doc, value);

    return text != NULL && decode_exactly(text, ret_bytes, size);
}

static enum rc
read_keys(struct json_doc *doc, char *error, struct web_push_keys *ret_keys)
{
    const struct json_value *keys = json_doc_member(doc, json_doc_root(doc), "keys");
    const struct json_value *point = json_doc_member(doc, keys, "p256dh");
    const struct json_value *auth = json_doc_member(doc, keys, "auth");

    if (!json_is(keys, JSON_KIND_OBJECT))
        return wire_reject(error, "keys must be an object");
    if (!read_bytes(doc, point, ret_keys->point, sizeof(ret_keys->point)) ||
        !web_push_point_is_valid(ret_keys->point, sizeof(ret_keys->point)))
        return wire_reject(error,
                           "keys.p256dh must be an uncompressed point of P-256 in base64url");
    if (!read_bytes(doc, auth, ret_keys->auth, sizeof(ret_keys->auth)))
        return wire_reject(error, "keys.auth must be %d bytes in base64url", WEB_PUSH_AUTH_BYTES);
    return RC_OK;
}

static enum rc
read_vapid_key(struct json_doc *doc, char *error, char ret_key[WEB_PUSH_POINT_TEXT + 1])
{
    const struct json_value *value = json_doc_member(doc, json_doc_root(doc), "key");
    unsigned char point[WEB_PUSH_POINT_BYTES];

    ret_key[0] = '\0';
    if (value == NULL || json_is(value, JSON_KIND_NULL))
        return RC_OK;
    if (!read_bytes(doc, value, point, sizeof(point)))
        return wire_reject(error, "key must be a VAPID public key in base64url");
    memcpy(ret_key, json_doc_text(doc, value), WEB_PUSH_POINT_TEXT + 1);
    return RC_OK;
}

static enum rc
read_subscription(struct json_doc *doc, const char *origins, char *error,
                  struct subscription *ret_subscription)
{
    const struct json_value *expires = json_doc_member(doc, json_doc_root(doc), "expirationTime");
    struct subscription read = {.endpoint = NULL};
    const char *endpoint;

    if (read_endpoint(doc, error, &endpoint) != RC_OK)
        return RC_BAD;
    read.origin_len = subscription_match_origin(origins, endpoint);
    if (read.origin_len == 0)
        return wire_reject(error, "endpoint is not of a push service in webpush.origins");
    if (expires != NULL && !json_is(expires, JSON_KIND_NULL) && !json_is_numeric(expires))
        return wire_reject(error, "expirationTime must be a number or null");
    if (read_keys(doc, error, &read.keys) != RC_OK || read_vapid_key(doc, error, read.key) != RC_OK)
        return RC_BAD;
    read.endpoint = memory_text(endpoint, strlen(endpoint));
    *ret_subscription = read;
    return RC_OK;
}

/* RC_BAD: not an object; `error` is set. The caller frees the document in any case. */
static enum rc
load_object(struct json_doc *doc, const char *text, size_t len, char *error)
{
    struct json_doc_error load;

    if (json_doc_parse(doc, text, len, false, &load) != RC_OK)
        return wire_reject(error, "body is not JSON: %.120s", load.text);
    return json_is(json_doc_root(doc), JSON_KIND_OBJECT)
               ? RC_OK
               : wire_reject(error, "body must be a JSON object");
}

enum rc
subscription_parse(const char *text, size_t len, const char *origins,
                   struct subscription *ret_subscription, char error[WIRE_ERROR_MAX])
{
    struct json_doc doc;
    enum rc rc = load_object(&doc, text, len, error);

    if (rc == RC_OK)
        rc = read_subscription(&doc, origins, error, ret_subscription);
    json_doc_free(&doc);
    return rc;
}

enum rc
subscription_parse_endpoint(const char *text, size_t len, char **ret_endpoint,
                            char error[WIRE_ERROR_MAX])
{
    struct json_doc doc;
    const char *endpoint;
    enum rc rc = load_object(&doc, text, len, error);

    if (rc == RC_OK)
        rc = read_endpoint(&doc, error, &endpoint);
    if (rc == RC_OK)
        *ret_endpoint = memory_text(endpoint, strlen(endpoint));
    json_doc_free(&doc);
    return rc;
}

void
subscription_free(struct subscription *subscription)
{
    free(subscription->endpoint);
    *subscription = (struct subscription){.endpoint = NULL};
}

/* ---- the store's form: "endpoint origin-length p256dh auth key", none of which has a space */

#define WORDS 5

enum rc
subscription_write(const struct subscription *subscription, struct buffer *out)
{
    char point[WEB_PUSH_POINT_TEXT + 1], auth[BASE64URL_LEN(WEB_PUSH_AUTH_BYTES) + 1];

    base64url_encode(subscription->keys.point, WEB_PUSH_POINT_BYTES, point);
    base64url_encode(subscription->keys.auth, WEB_PUSH_AUTH_BYTES, auth);
    return buffer_addf(out, "%s %zu %s %s %s", subscription->endpoint, subscription->origin_len,
                       point, auth, subscription->key);
}

enum rc
subscription_read(const char *text, size_t len, struct subscription *ret_subscription)
{
    struct subscription read = {.endpoint = memory_text(text, len)};
    char *rest = read.endpoint, *words[WORDS] = {NULL};

    for (size_t i = 0; i < WORDS && rest != NULL; i++)
        words[i] = strsep(&rest, " ");
    if (words[WORDS - 1] != NULL && rest == NULL) {
        read.origin_len = strtoul(words[1], NULL, 10);
        if (read.origin_len <= strlen(words[0]) &&
            decode_exactly(words[2], read.keys.point, sizeof(read.keys.point)) &&
            decode_exactly(words[3], read.keys.auth, sizeof(read.keys.auth)) &&
            strlen(words[4]) < sizeof(read.key)) {
            memcpy(read.key, words[4], strlen(words[4]) + 1);
            *ret_subscription = read;
            return RC_OK;
        }
    }
    subscription_free(&read);
    return RC_BAD;
}

void
subscription_id(const char *endpoint, char ret_id[SUBSCRIPTION_ID_TEXT + 1])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];

    (void)SHA256((const unsigned char *)endpoint, strlen(endpoint), digest);
    base64url_encode(digest, sizeof(digest), ret_id);
}
