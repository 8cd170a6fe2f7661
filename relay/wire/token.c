/* token.c: verifies a JSON Web Token and copies its claims. */
#include "wire/token.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <jwt.h>

#include "base/memory.h"

#define TIME_MAX_S 253402300799.0 /* the year 9999; prevents overflow */

static enum rc
token_reject(char error[TOKEN_ERROR_MAX], const char *sentence)
{
    snprintf(error, TOKEN_ERROR_MAX, "%s", sentence);
    return RC_BAD;
}

/* This check is cheaper than libjwt's decoder, and independent of libjwt. */
static bool
token_has_shape(const char *text, size_t len)
{
    static const char ALPHABET[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t part_len = 0;
    int dots = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '.') {
            if (part_len == 0 || ++dots > 2)
                return false;
            part_len = 0;
        } else if (text[i] != '\0' && strchr(ALPHABET, text[i]) != NULL) {
            part_len++;
        } else {
            return false;
        }
    }
    return dots == 2 && part_len > 0;
}

/* Compares case-sensitively, as RFC 7515 requires; libjwt ignores the case. */
static bool
token_alg_allowed(const struct token_rules *rules, jwt_t *jwt)
{
    const char *name = jwt_get_header(jwt, "alg");
    jwt_alg_t alg = jwt_get_alg(jwt);

    if (name == NULL)
        return false;
    if (rules->kind == TOKEN_KEY_HS256)
        return alg == JWT_ALG_HS256 && strcmp(name, "HS256") == 0;
    return (alg == JWT_ALG_RS256 && strcmp(name, "RS256") == 0) ||
           (alg == JWT_ALG_ES256 && strcmp(name, "ES256") == 0);
}

static bool
token_opens(const char *text, const char *key, size_t key_len, jwt_t **ret_jwt)
{
    return key != NULL && key_len > 0 && key_len <= INT_MAX &&
           jwt_decode(ret_jwt, text, (const unsigned char *)key, (int)key_len) == 0;
}

/*
 * RFC 7515, section 4.1.11: unknown critical extensions must be rejected, and no extension is
 * supported.
 */
static bool
token_has_critical_extensions(jwt_t *jwt)
{
    char *critical = jwt_get_headers_json(jwt, "crit");
    bool has_extensions = critical != NULL;

    free(critical);
    return has_extensions;
}

/*
 * The claims are parsed by jansson: libjwt's getters return 0 for fractions, missing claims and
 * wrong types. The caller owns *ret_claims.
 */
static enum rc
token_decode(const struct token_rules *rules, const char *text, json_t **ret_claims,
             char error[TOKEN_ERROR_MAX])
{
    jwt_t *jwt = NULL;
    char *dump = NULL;
    bool is_plain;
    bool allowed;

    if (rules->key == NULL || rules->key_len == 0 || rules->key_len > INT_MAX)
        return token_reject(error, "no key configured to verify tokens");
    if (!token_opens(text, rules->key, rules->key_len, &jwt) &&
        !token_opens(text, rules->previous, rules->previous_len, &jwt))
        return token_reject(error, TOKEN_BAD_SIGNATURE);
    /*
     * jwt_decode trusts the algorithm in the header. This check prevents the use of a PEM as an
     * HMAC secret.
     */
    allowed = token_alg_allowed(rules, jwt);
    is_plain = !token_has_critical_extensions(jwt);
    if (allowed && is_plain)
        dump = jwt_get_grants_json(jwt, NULL);
    jwt_free(jwt);
    if (!allowed)
        return token_reject(error, "token algorithm does not match the configured key");
    if (!is_plain)
        return token_reject(error, "unsupported critical token header (crit)");
    *ret_claims = dump != NULL ? json_loads(dump, 0, NULL) : NULL;
    free(dump);
    if (!json_is_object(*ret_claims)) {
        json_decref(*ret_claims);
        *ret_claims = NULL;
        return token_reject(error, "token claims are not a JSON object");
    }
    return RC_OK;
}

/* RC_AGAIN: the claim is absent. Fractions are truncated, as RFC 7519 allows. */
static enum rc
token_read_time(const json_t *claims, const char *name, int64_t *ret_time_s)
{
    const json_t *value = json_object_get(claims, name);
    double seconds;

    if (value == NULL)
        return RC_AGAIN;
    if (!json_is_number(value))
        return RC_BAD;
    seconds = json_number_value(value);
    if (!(seconds >= 0.0 && seconds <= TIME_MAX_S))
        return RC_BAD;
    *ret_time_s = (int64_t)floor(seconds);
    return RC_OK;
}

static enum rc
token_check_times(const struct token_rules *rules, const json_t *claims, int64_t now_s,
                  int64_t *ret_expires_s, char error[TOKEN_ERROR_MAX])
{
    int64_t expires_s = 0;
    int64_t begins_s = 0;
    enum rc rc = token_read_time(claims, "nbf", &begins_s);

    if (rc == RC_BAD)
        return token_reject(error, "token claim nbf is not a time in Unix seconds");
    if (rc == RC_OK && now_s + rules->leeway_s < begins_s)
        return token_reject(error, "token not valid yet");
    rc = token_read_time(claims, "exp", &expires_s);
    if (rc == RC_AGAIN)
        return token_reject(error, "token has no exp: tokens must expire");
    if (rc != RC_OK)
        return token_reject(error, "token claim exp is not a time in Unix seconds");
    *ret_expires_s = expires_s;
    return RC_OK;
}

static bool
json_text_is(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

static bool
token_names_audience(const json_t *claim, const char *audience)
{
    size_t i;
    const json_t *entry;

    if (!json_is_array(claim))
        return json_text_is(claim, audience);
    json_array_foreach(claim, i, entry)
    {
        if (json_text_is(entry, audience))
            return true;
    }
    return false;
}

static enum rc
token_check_origin(const struct token_rules *rules, const json_t *claims,
                   char error[TOKEN_ERROR_MAX])
{
    if (rules->issuer != NULL && !json_text_is(json_object_get(claims, "iss"), rules->issuer))
        return token_reject(error, "token claim iss is not the configured issuer");
    /* RFC 7519, 4.1.3: a recipient that aud does not name must reject the token. */
    if (rules->audience == NULL && json_object_get(claims, "aud") != NULL)
        return token_reject(error, "token has an aud claim, but auth.audience is not set");
    if (rules->audience != NULL &&
        !token_names_audience(json_object_get(claims, "aud"), rules->audience))
        return token_reject(error, "token claim aud does not contain the configured audience");
    return RC_OK;
}

static char *
claim_copy(const json_t *value)
{
    return memory_text(json_string_value(value), json_string_length(value));
}

static bool
json_is_text(const json_t *value, size_t max)
{
    size_t len = json_is_string(value) ? json_string_length(value) : 0;

    return len > 0 && len <= max;
}

/* USER and ALL are reserved: a token with such a group could read other users' notifications. */
static bool
token_audience_allowed(const char *name)
{
    /* In particular, a colon is invalid: it separates audience and target in keys. */
    return audience_is_word(name) && !audience_is_reserved(name);
}

/*
 * Membership in a composite audience follows from its parts. A group with such a name is ignored.
 */
static enum rc
token_count_groups(json_t *groups, size_t *ret_count, char error[TOKEN_ERROR_MAX])
{
    const char *name;
    json_t *targets;
    size_t count = 0;

    if (!json_is_object(groups))
        return token_reject(error, "token claim groups is not an object of arrays");
    json_object_foreach(groups, name, targets)
    {
        size_t i;
        const json_t *target;

        if (audience_is_composite_name(name))
            continue;
        if (!token_audience_allowed(name))
            return token_reject(error, "audience in token claim groups must be 1 to 63 letters, "
                                       "digits and _, and not USER or ALL");
        if (!json_is_array(targets))
            return token_reject(error, "token claim groups is not an object of arrays");
        if (json_array_size(targets) > TOKEN_GROUPS_MAX - count)
            return token_reject(error, "token claim groups has more than 256 targets");
        json_array_foreach(targets, i, target)
        {
            if (!json_is_text(target, TOKEN_TARGET_MAX))
                return token_reject(error, "target in token claim groups is not a string of 1 to "
                                           "255 bytes");
        }
        count += json_array_size(targets);
    }
    *ret_count = count;
    return RC_OK;
}

static void
token_copy_groups(json_t *groups, size_t count, struct token *token)
{
    const char *name;
    json_t *targets;

    if (count == 0)
        return;
    token->groups = memory_new(count * sizeof(token->groups[0]));
    json_object_foreach(groups, name, targets)
    {
        size_t i;
        const json_t *target;

        if (audience_is_composite_name(name))
            continue;
        json_array_foreach(targets, i, target)
        {
            struct token_group *group = &token->groups[token->group_count++];

            group->audience = memory_text(name, strlen(name));
            group->target = claim_copy(target);
        }
    }
}

/*
 * Validates all claims before any is copied. `publish` and `admin` need the JSON value true; any
 * other value is ignored.
 */
static enum rc
token_read_claims(const struct token_rules *rules, const json_t *claims, int64_t now_s,
                  struct token *ret_token, char error[TOKEN_ERROR_MAX])
{
    const json_t *user = json_object_get(claims, "sub");
    json_t *groups = json_object_get(claims, "groups");
    size_t group_count = 0;
    int64_t expires_s = 0;

    if (token_check_times(rules, claims, now_s, &expires_s, error) != RC_OK ||
        token_check_origin(rules, claims, error) != RC_OK)
        return RC_BAD;
    if (!json_is_text(user, TOKEN_USER_MAX))
        return token_reject(
            error, "token claim sub must be a string of 1 to 255 bytes, such as \"42\", not 42");
    if (groups != NULL && token_count_groups(groups, &group_count, error) != RC_OK)
        return RC_BAD;
    if (now_s - rules->leeway_s >= expires_s) {
        snprintf(error, TOKEN_ERROR_MAX, "token expired");
        return RC_CLOSED;
    }
    *ret_token = (struct token){.user = claim_copy(user),
                                .expires_s = expires_s,
                                .publish = json_is_true(json_object_get(claims, "publish")),
                                .admin = json_is_true(json_object_get(claims, "admin"))};
    token_copy_groups(groups, group_count, ret_token);
    return RC_OK;
}

enum rc
token_verify(const struct token_rules *rules, const char *text, size_t len, int64_t now_s,
             struct token *ret_token, char error[TOKEN_ERROR_MAX])
{
    json_t *claims = NULL;
    char *copy;
    enum rc rc;

    if (len == 0)
        return token_reject(error, "empty token");
    if (len > TOKEN_BYTES_MAX)
        return token_reject(error, "token longer than 8192 bytes");
    if (!token_has_shape(text, len))
        return token_reject(error, "token is not three base64url parts joined by dots");
    copy = memory_text(text, len);
    rc = token_decode(rules, copy, &claims, error);
    free(copy);
    if (rc == RC_OK)
        rc = token_read_claims(rules, claims, now_s, ret_token, error);
    json_decref(claims);
    return rc;
}

static json_t *
groups_object(const struct token *token)
{
    json_t *groups = json_object();

    for (size_t i = 0; i < token->group_count; i++) {
        const struct token_group *group = &token->groups[i];
        json_t *targets = json_object_get(groups, group->audience);

        if (targets == NULL) {
            targets = json_array();
            json_object_set_new(groups, group->audience, targets);
        }
        json_array_append_new(targets, json_string(group->target));
    }
    return groups;
}

enum rc
token_write_groups(const struct token *token, struct buffer *out)
{
    json_t *groups = groups_object(token);
    char *text = json_dumps(groups, JSON_COMPACT);
    enum rc rc = text != NULL ? buffer_add(out, text, strlen(text)) : RC_BAD;

    free(text);
    json_decref(groups);
    return rc;
}

enum rc
token_write(const struct token *token, struct buffer *out)
{
    json_t *root = json_pack("{s:s, s:I, s:b, s:b, s:o}", "sub", token->user, "exp",
                             (json_int_t)token->expires_s, "publish", (int)token->publish, "admin",
                             (int)token->admin, "groups", groups_object(token));
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    enum rc rc = text != NULL ? buffer_add(out, text, strlen(text)) : RC_BAD;

    free(text);
    json_decref(root);
    return rc;
}

enum rc
token_parse(const char *text, size_t len, int64_t now_s, struct token *ret_token,
            char error[TOKEN_ERROR_MAX])
{
    const struct token_rules rules = {.kind = TOKEN_KEY_HS256};
    json_t *claims = json_loadb(text, len, 0, NULL);
    enum rc rc = json_is_object(claims) ? token_read_claims(&rules, claims, now_s, ret_token, error)
                                        : token_reject(error, "token claims are not a JSON object");

    json_decref(claims);
    return rc;
}

void
token_free(struct token *token)
{
    for (size_t i = 0; i < token->group_count; i++) {
        free(token->groups[i].audience);
        free(token->groups[i].target);
    }
    free(token->groups);
    free(token->user);
    *token = (struct token){0};
}
