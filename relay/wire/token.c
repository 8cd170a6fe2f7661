/* token.c: verifies a JSON Web Token and copies its claims. */
#include "wire/token.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/memory.h"

#define TIME_MAX_S 253402300799.0 /* the year 9999; prevents overflow */

static enum rc
token_reject(struct token_error *error, enum token_fault fault, const char *sentence)
{
    error->fault = fault;
    snprintf(error->text, sizeof(error->text), "%s", sentence);
    return RC_BAD;
}

/* A null member is absent. */
static json_t *
member(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);

    return json_is_null(value) ? NULL : value;
}

/* Parses a decoded part and frees it. NULL: not a JSON object, or a member is given twice. */
static json_t *
object_of(char *part, size_t len)
{
    json_t *object = part != NULL ? json_loadb(part, len, JSON_REJECT_DUPLICATES, NULL) : NULL;

    free(part);
    if (json_is_object(object))
        return object;
    json_decref(object);
    return NULL;
}

/* RFC 7515, section 4.1.9: the prefix may be left out. at+jwt: an access token (RFC 9068). */
static bool
type_is_allowed(const json_t *header)
{
    static const char PREFIX[] = "application/";
    const json_t *type = member(header, "typ");
    const char *text = json_string_value(type);

    if (type == NULL)
        return true;
    if (text == NULL)
        return false;
    if (strncasecmp(text, PREFIX, sizeof(PREFIX) - 1) == 0)
        text += sizeof(PREFIX) - 1;
    return strcasecmp(text, "JWT") == 0 || strcasecmp(text, "at+jwt") == 0;
}

static enum rc
check_header(const json_t *header, struct token_error *error)
{
    if (header == NULL)
        return token_reject(error, TOKEN_FAULT_MALFORMED,
                            "token header is not a JSON object in base64url");
    if (!json_is_string(member(header, "alg")))
        return token_reject(error, TOKEN_FAULT_MALFORMED, "token header has no alg");
    if (!type_is_allowed(header))
        return token_reject(error, TOKEN_FAULT_MALFORMED,
                            "token header typ must be JWT or at+jwt, or absent");
    /*
     * RFC 7515, section 4.1.11: unknown critical extensions must be rejected, and no extension is
     * supported.
     */
    if (json_object_get(header, "crit") != NULL)
        return token_reject(error, TOKEN_FAULT_MALFORMED,
                            "unsupported critical token header (crit)");
    return RC_OK;
}

static enum rc
check_signature(const struct token_rules *rules, const struct jws *jws, const char *algorithm,
                struct token_error *error)
{
    enum jws_result result = jws_verify(jws, algorithm, &rules->key);

    if (result != JWS_VALID && rules->previous.len > 0) {
        const enum jws_result previous = jws_verify(jws, algorithm, &rules->previous);

        if (result == JWS_WRONG_ALGORITHM || previous == JWS_VALID)
            result = previous;
    }
    if (result == JWS_WRONG_ALGORITHM)
        return token_reject(error, TOKEN_FAULT_ALGORITHM,
                            "token algorithm does not match the configured key");
    if (result != JWS_VALID)
        return token_reject(error, TOKEN_FAULT_SIGNATURE, TOKEN_BAD_SIGNATURE);
    return RC_OK;
}

/* The caller owns *ret_claims. */
static enum rc
token_decode(const struct token_rules *rules, const struct jws *jws, json_t **ret_claims,
             struct token_error *error)
{
    size_t len = 0;
    char *part = jws_header(jws, &len);
    json_t *header = object_of(part, len);
    enum rc rc = check_header(header, error);

    if (rc == RC_OK)
        rc = check_signature(rules, jws, json_string_value(member(header, "alg")), error);
    json_decref(header);
    if (rc != RC_OK)
        return rc;
    part = jws_payload(jws, &len);
    *ret_claims = object_of(part, len);
    if (*ret_claims == NULL)
        return token_reject(error, TOKEN_FAULT_MALFORMED,
                            "token claims are not a JSON object, or a claim is given twice");
    return RC_OK;
}

/* RC_AGAIN: the claim is absent. Fractions are truncated, as RFC 7519 allows. */
static enum rc
token_read_time(const json_t *claims, const char *name, int64_t *ret_time_s)
{
    const json_t *value = member(claims, name);
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
                  int64_t *ret_expires_s, struct token_error *error)
{
    int64_t expires_s = 0;
    int64_t begins_s = 0;
    enum rc rc = token_read_time(claims, "nbf", &begins_s);

    if (rc == RC_BAD)
        return token_reject(error, TOKEN_FAULT_CLAIMS,
                            "token claim nbf is not a time in Unix seconds");
    if (rc == RC_OK && now_s + rules->leeway_s < begins_s)
        return token_reject(error, TOKEN_FAULT_EARLY, "token not valid yet");
    rc = token_read_time(claims, "exp", &expires_s);
    if (rc == RC_AGAIN)
        return token_reject(error, TOKEN_FAULT_CLAIMS, "token has no exp: tokens must expire");
    if (rc != RC_OK)
        return token_reject(error, TOKEN_FAULT_CLAIMS,
                            "token claim exp is not a time in Unix seconds");
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
token_check_origin(const struct token_rules *rules, const json_t *claims, struct token_error *error)
{
    if (rules->issuer != NULL && !json_text_is(member(claims, "iss"), rules->issuer))
        return token_reject(error, TOKEN_FAULT_ISSUER,
                            "token claim iss is not the configured issuer");
    /* RFC 7519, 4.1.3: a recipient that aud does not name must reject the token. */
    if (rules->audience == NULL && member(claims, "aud") != NULL)
        return token_reject(error, TOKEN_FAULT_AUDIENCE,
                            "token has an aud claim, but auth.audience is not set");
    if (rules->audience != NULL && !token_names_audience(member(claims, "aud"), rules->audience))
        return token_reject(error, TOKEN_FAULT_AUDIENCE,
                            "token claim aud does not contain the configured audience");
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
token_count_groups(json_t *groups, size_t *ret_count, struct token_error *error)
{
    const char *name;
    json_t *targets;
    size_t count = 0;

    if (!json_is_object(groups))
        return token_reject(error, TOKEN_FAULT_CLAIMS,
                            "token claim groups is not an object of arrays");
    json_object_foreach(groups, name, targets)
    {
        size_t i;
        const json_t *target;

        if (audience_is_composite_name(name))
            continue;
        if (!token_audience_allowed(name))
            return token_reject(error, TOKEN_FAULT_CLAIMS,
                                "audience in token claim groups must be 1 to 63 letters, "
                                "digits and _, and not USER or ALL");
        if (!json_is_array(targets))
            return token_reject(error, TOKEN_FAULT_CLAIMS,
                                "token claim groups is not an object of arrays");
        if (json_array_size(targets) > TOKEN_GROUPS_MAX - count)
            return token_reject(error, TOKEN_FAULT_CLAIMS,
                                "token claim groups has more than 256 targets");
        json_array_foreach(targets, i, target)
        {
            if (!json_is_text(target, TOKEN_TARGET_MAX))
                return token_reject(error, TOKEN_FAULT_CLAIMS,
                                    "target in token claim groups is not a string of 1 to "
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
                  struct token *ret_token, struct token_error *error)
{
    const json_t *user = member(claims, "sub");
    json_t *groups = member(claims, "groups");
    size_t group_count = 0;
    int64_t expires_s = 0;

    if (token_check_times(rules, claims, now_s, &expires_s, error) != RC_OK ||
        token_check_origin(rules, claims, error) != RC_OK)
        return RC_BAD;
    if (!json_is_string(user))
        return token_reject(error, TOKEN_FAULT_CLAIMS,
                            "token claim sub must be a string, such as \"42\", not 42");
    if (!json_is_text(user, TOKEN_USER_MAX))
        return token_reject(error, TOKEN_FAULT_CLAIMS, "token claim sub must have 1 to 255 bytes");
    if (groups != NULL && token_count_groups(groups, &group_count, error) != RC_OK)
        return RC_BAD;
    if (now_s - rules->leeway_s >= expires_s) {
        (void)token_reject(error, TOKEN_FAULT_EXPIRED, "token expired");
        return RC_CLOSED;
    }
    *ret_token = (struct token){.user = claim_copy(user),
                                .expires_s = expires_s,
                                .publish = json_is_true(member(claims, "publish")),
                                .admin = json_is_true(member(claims, "admin"))};
    token_copy_groups(groups, group_count, ret_token);
    return RC_OK;
}

enum rc
token_verify(const struct token_rules *rules, const char *text, size_t len, int64_t now_s,
             struct token *ret_token, struct token_error *error)
{
    json_t *claims = NULL;
    struct jws jws;
    enum rc rc;

    if (len == 0)
        return token_reject(error, TOKEN_FAULT_MALFORMED, "empty token");
    if (len > TOKEN_BYTES_MAX)
        return token_reject(error, TOKEN_FAULT_MALFORMED, "token longer than 8192 bytes");
    if (!jws_split(text, len, &jws))
        return token_reject(error, TOKEN_FAULT_MALFORMED,
                            "token is not three base64url parts joined by dots");
    rc = token_decode(rules, &jws, &claims, error);
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
            struct token_error *error)
{
    const struct token_rules rules = {.issuer = NULL};
    json_t *claims = json_loadb(text, len, 0, NULL);
    enum rc rc = json_is_object(claims) ? token_read_claims(&rules, claims, now_s, ret_token, error)
                                        : token_reject(error, TOKEN_FAULT_MALFORMED,
                                                       "token claims are not a JSON object");

    json_decref(claims);
    return rc;
}

struct token
token_copy(const struct token *token)
{
    struct token copy = *token;

    copy.user = memory_text(token->user, strlen(token->user));
    copy.groups = memory_new((token->group_count + 1) * sizeof(copy.groups[0]));
    for (size_t i = 0; i < token->group_count; i++) {
        const struct token_group *group = &token->groups[i];

        copy.groups[i].audience = memory_text(group->audience, strlen(group->audience));
        copy.groups[i].target = memory_text(group->target, strlen(group->target));
    }
    return copy;
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
