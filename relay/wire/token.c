/* token.c: verifies a JSON Web Token and copies its claims. */
#include "wire/token.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "wire/json_doc.h"

#define TIME_MAX_S 253402300799.0 /* the year 9999; prevents overflow */

static enum rc
token_reject(struct token_error *error, enum token_fault fault, const char *sentence)
{
    error->fault = fault;
    snprintf(error->text, sizeof(error->text), "%s", sentence);
    return RC_BAD;
}

/* A null member is absent. */
static const struct json_value *
member(const struct json_doc *doc, const char *name)
{
    const struct json_value *value = json_doc_member(doc, json_doc_root(doc), name);

    return json_is(value, JSON_KIND_NULL) ? NULL : value;
}

/*
 * Parses a decoded part, which must outlive the document. False: not a JSON object, or a member is
 * given twice. The caller frees the document in any case.
 */
static bool
read_object(struct json_doc *doc, const char *part, size_t len)
{
    struct json_doc_error error;

    return json_doc_parse(doc, part != NULL ? part : "", part != NULL ? len : 0, false, &error) ==
               RC_OK &&
           json_is(json_doc_root(doc), JSON_KIND_OBJECT);
}

/* RFC 7515, section 4.1.9: the prefix may be left out. at+jwt: an access token (RFC 9068). */
static bool
type_is_allowed(struct json_doc *header)
{
    static const char PREFIX[] = "application/";
    const struct json_value *type = member(header, "typ");
    const char *text = json_doc_text(header, type);

    if (type == NULL)
        return true;
    if (text == NULL)
        return false;
    if (strncasecmp(text, PREFIX, sizeof(PREFIX) - 1) == 0)
        text += sizeof(PREFIX) - 1;
    return strcasecmp(text, "JWT") == 0 || strcasecmp(text, "at+jwt") == 0;
}

static enum rc
check_header(struct json_doc *header, struct token_error *error)
{
    if (!json_is(member(header, "alg"), JSON_KIND_TEXT))
        return token_reject(error, TOKEN_FAULT_MALFORMED, "token header has no alg");
    if (!type_is_allowed(header))
        return token_reject(error, TOKEN_FAULT_MALFORMED,
                            "token header typ must be JWT or at+jwt, or absent");
    /*
     * RFC 7515, section 4.1.11: unknown critical extensions must be rejected, and no extension is
     * supported.
     */
    if (json_doc_member(header, json_doc_root(header), "crit") != NULL)
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

/* Reads the header and verifies the signature. */
static enum rc
check_jws(const struct token_rules *rules, const struct jws *jws, struct token_error *error)
{
    size_t len = 0;
    char *part = jws_header(jws, &len);
    struct json_doc header;
    enum rc rc = read_object(&header, part, len)
                     ? check_header(&header, error)
                     : token_reject(error, TOKEN_FAULT_MALFORMED,
                                    "token header is not a JSON object in base64url");

    if (rc == RC_OK)
        rc = check_signature(rules, jws, json_doc_text(&header, member(&header, "alg")), error);
    json_doc_free(&header);
    free(part);
    return rc;
}

/* RC_AGAIN: the claim is absent. Fractions are truncated, as RFC 7519 allows. */
static enum rc
token_read_time(struct json_doc *claims, const char *name, int64_t *ret_time_s)
{
    const struct json_value *value = member(claims, name);
    double seconds;

    if (value == NULL)
        return RC_AGAIN;
    if (!json_is_numeric(value))
        return RC_BAD;
    seconds = json_doc_number(claims, value);
    if (!(seconds >= 0.0 && seconds <= TIME_MAX_S))
        return RC_BAD;
    *ret_time_s = (int64_t)floor(seconds);
    return RC_OK;
}

static enum rc
token_check_times(const struct token_rules *rules, struct json_doc *claims, int64_t now_s,
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
text_is(struct json_doc *claims, const struct json_value *value, const char *text)
{
    return json_is(value, JSON_KIND_TEXT) && strcmp(json_doc_text(claims, value), text) == 0;
}

static bool
token_names_audience(struct json_doc *claims, const char *audience)
{
    const struct json_value *claim = member(claims, "aud"), *entry;

    if (!json_is(claim, JSON_KIND_ARRAY))
        return text_is(claims, claim, audience);
    entry = json_doc_first(claims, claim);
    for (; entry != NULL; entry = json_doc_next(claims, claim, entry)) {
        if (text_is(claims, entry, audience))
            return true;
    }
    return false;
}

static enum rc
token_check_origin(const struct token_rules *rules, struct json_doc *claims,
                   struct token_error *error)
{
    if (rules->issuer != NULL && !text_is(claims, member(claims, "iss"), rules->issuer))
        return token_reject(error, TOKEN_FAULT_ISSUER,
                            "token claim iss is not the configured issuer");
    /* RFC 7519, 4.1.3: a recipient that aud does not name must reject the token. */
    if (rules->audience == NULL && member(claims, "aud") != NULL)
        return token_reject(error, TOKEN_FAULT_AUDIENCE,
                            "token has an aud claim, but auth.audience is not set");
    if (rules->audience != NULL && !token_names_audience(claims, rules->audience))
        return token_reject(error, TOKEN_FAULT_AUDIENCE,
                            "token claim aud does not contain the configured audience");
    return RC_OK;
}

static char *
claim_copy(struct json_doc *claims, const struct json_value *value)
{
    return memory_text(json_doc_text(claims, value), json_text_len(value));
}

static bool
has_length(const struct json_value *text, size_t max)
{
    return json_text_len(text) > 0 && json_text_len(text) <= max;
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
token_count_groups(struct json_doc *claims, const struct json_value *groups, size_t *ret_count,
                   struct token_error *error)
{
    const struct json_value *group = json_doc_first(claims, groups), *targets, *target;
    size_t count = 0;

    if (!json_is(groups, JSON_KIND_OBJECT))
        return token_reject(error, TOKEN_FAULT_CLAIMS,
                            "token claim groups is not an object of arrays");
    for (; group != NULL; group = json_doc_next(claims, groups, group)) {
        const char *name = json_doc_text(claims, group);

        if (audience_is_composite_name(name))
            continue;
        if (!token_audience_allowed(name))
            return token_reject(error, TOKEN_FAULT_CLAIMS,
                                "audience in token claim groups must be 1 to 63 letters, "
                                "digits and _, and not USER or ALL");
        targets = json_value_of(group);
        if (!json_is(targets, JSON_KIND_ARRAY))
            return token_reject(error, TOKEN_FAULT_CLAIMS,
                                "token claim groups is not an object of arrays");
        if (json_doc_count(claims, targets) > TOKEN_GROUPS_MAX - count)
            return token_reject(error, TOKEN_FAULT_CLAIMS,
                                "token claim groups has more than 256 targets");
        target = json_doc_first(claims, targets);
        for (; target != NULL; target = json_doc_next(claims, targets, target), count++) {
            if (!has_length(target, TOKEN_TARGET_MAX))
                return token_reject(error, TOKEN_FAULT_CLAIMS,
                                    "target in token claim groups is not a string of 1 to "
                                    "255 bytes");
        }
    }
    *ret_count = count;
    return RC_OK;
}

static void
token_copy_groups(struct json_doc *claims, const struct json_value *groups, size_t count,
                  struct token *token)
{
    const struct json_value *group = json_doc_first(claims, groups), *targets, *target;

    if (count == 0)
        return;
    token->groups = memory_new(count * sizeof(token->groups[0]));
    for (; group != NULL; group = json_doc_next(claims, groups, group)) {
        if (audience_is_composite_name(json_doc_text(claims, group)))
            continue;
        targets = json_value_of(group);
        target = json_doc_first(claims, targets);
        for (; target != NULL; target = json_doc_next(claims, targets, target))
            token->groups[token->group_count++] = (struct token_group){
                .audience = claim_copy(claims, group), .target = claim_copy(claims, target)};
    }
}

/*
 * Validates all claims before any is copied. `publish` and `admin` need the JSON value true; any
 * other value is ignored.
 */
static enum rc
token_read_claims(const struct token_rules *rules, struct json_doc *claims, int64_t now_s,
                  struct token *ret_token, struct token_error *error)
{
    const struct json_value *user = member(claims, "sub");
    const struct json_value *groups = member(claims, "groups");
    size_t group_count = 0;
    int64_t expires_s = 0;

    if (token_check_times(rules, claims, now_s, &expires_s, error) != RC_OK ||
        token_check_origin(rules, claims, error) != RC_OK)
        return RC_BAD;
    if (!json_is(user, JSON_KIND_TEXT))
        return token_reject(error, TOKEN_FAULT_CLAIMS,
                            "token claim sub must be a string, such as \"42\", not 42");
    if (!has_length(user, TOKEN_USER_MAX))
        return token_reject(error, TOKEN_FAULT_CLAIMS, "token claim sub must have 1 to 255 bytes");
    if (groups != NULL && token_count_groups(claims, groups, &group_count, error) != RC_OK)
        return RC_BAD;
    if (now_s - rules->leeway_s >= expires_s) {
        (void)token_reject(error, TOKEN_FAULT_EXPIRED, "token expired");
        return RC_CLOSED;
    }
    *ret_token = (struct token){.user = claim_copy(claims, user),
                                .expires_s = expires_s,
                                .publish = json_is(member(claims, "publish"), JSON_KIND_TRUE),
                                .admin = json_is(member(claims, "admin"), JSON_KIND_TRUE)};
    token_copy_groups(claims, groups, group_count, ret_token);
    return RC_OK;
}

enum rc
token_verify(const struct token_rules *rules, const char *text, size_t len, int64_t now_s,
             struct token *ret_token, struct token_error *error)
{
    struct json_doc claims;
    struct jws jws;
    char *part;
    enum rc rc;

    if (len == 0)
        return token_reject(error, TOKEN_FAULT_MALFORMED, "empty token");
    if (len > TOKEN_BYTES_MAX)
        return token_reject(error, TOKEN_FAULT_MALFORMED, "token longer than 8192 bytes");
    if (!jws_split(text, len, &jws))
        return token_reject(error, TOKEN_FAULT_MALFORMED,
                            "token is not three base64url parts joined by dots");
    rc = check_jws(rules, &jws, error);
    if (rc != RC_OK)
        return rc;
    part = jws_payload(&jws, &len);
    rc = read_object(&claims, part, len)
             ? token_read_claims(rules, &claims, now_s, ret_token, error)
             : token_reject(error, TOKEN_FAULT_MALFORMED,
                            "token claims are not a JSON object, or a claim is given twice");
    json_doc_free(&claims);
    free(part);
    return rc;
}

/* Whether an earlier group has the same audience. */
static bool
is_repeated(const struct token *token, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(token->groups[i].audience, token->groups[index].audience) == 0)
            return true;
    }
    return false;
}

/* Adds "audience":["target",..] with all targets of the audience of this group. */
static enum rc
write_audience(const struct token *token, size_t index, struct buffer *out)
{
    const char *audience = token->groups[index].audience;
    const char *separator = ":[";
    enum rc rc = buffer_add_json(out, audience, strlen(audience));

    for (size_t i = index; i < token->group_count && rc == RC_OK; i++) {
        const struct token_group *group = &token->groups[i];

        if (strcmp(group->audience, audience) != 0)
            continue;
        rc = buffer_add(out, separator, strlen(separator));
        if (rc == RC_OK)
            rc = buffer_add_json(out, group->target, strlen(group->target));
        separator = ",";
    }
    return rc == RC_OK ? buffer_add(out, "]", 1) : rc;
}

enum rc
token_write_groups(const struct token *token, struct buffer *out)
{
    enum rc rc = buffer_add(out, "{", 1);

    for (size_t i = 0; i < token->group_count && rc == RC_OK; i++) {
        if (is_repeated(token, i))
            continue;
        if (i > 0)
            rc = buffer_add(out, ",", 1);
        if (rc == RC_OK)
            rc = write_audience(token, i, out);
    }
    return rc == RC_OK ? buffer_add(out, "}", 1) : rc;
}

enum rc
token_write(const struct token *token, struct buffer *out)
{
    enum rc rc = buffer_add(out, "{\"sub\":", 7);

    if (rc == RC_OK)
        rc = buffer_add_json(out, token->user, strlen(token->user));
    if (rc == RC_OK)
        rc = buffer_addf(
            out, ",\"exp\":%" PRId64 ",\"publish\":%s,\"admin\":%s,\"groups\":", token->expires_s,
            token->publish ? "true" : "false", token->admin ? "true" : "false");
    if (rc == RC_OK)
        rc = token_write_groups(token, out);
    return rc == RC_OK ? buffer_add(out, "}", 1) : rc;
}

enum rc
token_parse(const char *text, size_t len, int64_t now_s, struct token *ret_token,
            struct token_error *error)
{
    const struct token_rules rules = {.issuer = NULL};
    struct json_doc claims;
    enum rc rc =
        read_object(&claims, text, len)
            ? token_read_claims(&rules, &claims, now_s, ret_token, error)
            : token_reject(error, TOKEN_FAULT_MALFORMED, "token claims are not a JSON object");

    json_doc_free(&claims);
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
