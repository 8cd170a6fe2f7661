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

#define LOGOUT_EVENT "http://schemas.openid.net/event/backchannel-logout"
#define LOGOUT_AGE_S 600 /* of a logout token without exp */

enum token_kind { TOKEN_ACCESS, TOKEN_LOGOUT };

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
type_is_allowed(struct json_doc *header, enum token_kind kind)
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
    return strcasecmp(text, "JWT") == 0 ||
           strcasecmp(text, kind == TOKEN_LOGOUT ? "logout+jwt" : "at+jwt") == 0;
}

static enum rc
check_header(struct json_doc *header, enum token_kind kind, struct token_error *error)
{
    if (!json_is(member(header, "alg"), JSON_KIND_TEXT))
        return token_reject(error, TOKEN_FAULT_MALFORMED, "token header has no alg");
    if (member(header, "kid") != NULL && !json_is(member(header, "kid"), JSON_KIND_TEXT))
        return token_reject(error, TOKEN_FAULT_MALFORMED, "token header kid is not a string");
    if (!type_is_allowed(header, kind))
        return token_reject(error, TOKEN_FAULT_MALFORMED,
                            kind == TOKEN_LOGOUT
                                ? "logout token header typ must be logout+jwt or JWT, or absent"
                                : "token header typ must be JWT or at+jwt, or absent");
    /*
     * RFC 7515, section 4.1.11: unknown critical extensions must be rejected, and no extension is
     * supported.
     */
    if (json_doc_member(header, json_doc_root(header), "crit") != NULL)
        return token_reject(error, TOKEN_FAULT_MALFORMED,
                            "unsupported critical token header (crit)");
    return RC_OK;
}

/* The search for the key of a token, and what it found. */
struct key_search {
    const struct jws *jws;
    const char *algorithm;
    const char *id;     /* kid of the token; NULL: none */
    bool has_id;        /* a key has this kid */
    bool has_algorithm; /* a key fits */
    bool is_ambiguous;  /* several keys fit a token without kid */
};

/* Whether one key of the JWK Sets fits, which a token without kid requires. */
static bool
is_only_key(const struct key_search *search, const struct token_issuer *issuer)
{
    const struct key_set *const sets[] = {&issuer->keys, &issuer->fetched};
    size_t count = 0;

    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < sets[i]->count; j++)
            count +=
                !sets[i]->keys[j].fits_any_id && jws_key_fits(&sets[i]->keys[j], search->algorithm);
    return count == 1;
}

/* Returns true if a key of the set verifies the signature. */
static bool
search_keys(struct key_search *search, const struct token_issuer *issuer, const struct key_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct jws_key *key = &set->keys[i];
        bool is_named = search->id != NULL && key->id != NULL && strcmp(key->id, search->id) == 0;

        search->has_id |= is_named;
        if (!jws_key_fits(key, search->algorithm))
            continue;
        search->has_algorithm = true;
        if (!key->fits_any_id && search->id == NULL && !is_only_key(search, issuer))
            search->is_ambiguous = true;
        else if ((key->fits_any_id || search->id == NULL || is_named) &&
                 jws_verify(search->jws, search->algorithm, key))
            return true;
    }
    return false;
}

/*
 * The issuer's keys alone verify its tokens; keys in the header (jwk, jku, x5u, x5c) are ignored.
 * An unknown kid may name a key that the issuer uses since the last fetch.
 */
static enum rc
check_signature(const struct token_issuer *issuer, const struct jws *jws, struct json_doc *header,
                struct token_error *error)
{
    struct key_search search = {.jws = jws,
                                .algorithm = json_doc_text(header, member(header, "alg")),
                                .id = json_doc_text(header, member(header, "kid"))};

    if (search_keys(&search, issuer, &issuer->keys) ||
        search_keys(&search, issuer, &issuer->fetched))
        return RC_OK;
    if (issuer->is_fetched && jws_is_public(search.algorithm) &&
        (search.id != NULL ? !search.has_id : issuer->fetched.count == 0)) {
        (void)token_reject(error, TOKEN_FAULT_SIGNATURE,
                           issuer->fetched.count > 0 ? TOKEN_UNKNOWN_KEY : TOKEN_NO_KEYS);
        return RC_AGAIN;
    }
    if (search.is_ambiguous)
        return token_reject(error, TOKEN_FAULT_SIGNATURE,
                            "token header has no kid, and several keys fit");
    if (!search.has_algorithm)
        return token_reject(error, TOKEN_FAULT_ALGORITHM,
                            "token algorithm does not match the configured key");
    return token_reject(error, TOKEN_FAULT_SIGNATURE, TOKEN_BAD_SIGNATURE);
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
token_check_times(int64_t leeway_s, struct json_doc *claims, int64_t now_s, int64_t *ret_expires_s,
                  struct token_error *error)
{
    int64_t expires_s = 0;
    int64_t begins_s = 0;
    enum rc rc = token_read_time(claims, "nbf", &begins_s);

    if (rc == RC_BAD)
        return token_reject(error, TOKEN_FAULT_CLAIMS,
                            "token claim nbf is not a time in Unix seconds");
    if (rc == RC_OK && now_s + leeway_s < begins_s)
        return token_reject(error, TOKEN_FAULT_EARLY, "token not valid yet");
    rc = token_read_time(claims, "iat", &begins_s);
    if (rc == RC_BAD)
        return token_reject(error, TOKEN_FAULT_CLAIMS,
                            "token claim iat is not a time in Unix seconds");
    if (rc == RC_OK && now_s + leeway_s < begins_s)
        return token_reject(error, TOKEN_FAULT_EARLY, "token was issued in the future (iat)");
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
text_is(struct json_doc *claims, const struct json_value *value, const char *text, size_t len)
{
    return json_is(value, JSON_KIND_TEXT) && json_text_len(value) == len &&
           memcmp(json_doc_text(claims, value), text, len) == 0;
}

/* The next item of a comma-separated list, without blanks. False: none. */
static bool
list_next(const char **list, const char **ret_item, size_t *ret_len)
{
    const char *at = *list;
    size_t len;

    if (at == NULL)
        return false;
    at += strspn(at, ", \t");
    len = strcspn(at, ",");
    *list = at + len;
    while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t'))
        len--;
    *ret_item = at;
    *ret_len = len;
    return len > 0;
}

/* The claim at a path: names joined by dots, where a backslash precedes a dot in a name. */
static const struct json_value *
claim_at(struct json_doc *claims, const char *path, size_t len)
{
    const struct json_value *value = json_doc_root(claims);
    char name[TOKEN_PATH_MAX + 1];
    size_t name_len = 0;

    for (size_t i = 0; value != NULL && i <= len; i++) {
        if (i < len && path[i] != '.') {
            if (path[i] == '\\' && i + 1 < len)
                i++;
            if (name_len == TOKEN_PATH_MAX)
                return NULL;
            name[name_len++] = path[i];
            continue;
        }
        name[name_len] = '\0';
        name_len = 0;
        value = json_doc_member(claims, value, name);
    }
    return json_is(value, JSON_KIND_NULL) ? NULL : value;
}

static bool
list_has(struct json_doc *claims, const char *list, const struct json_value *text)
{
    const char *item;
    size_t len;

    while (list_next(&list, &item, &len))
        if (text_is(claims, text, item, len))
            return true;
    return false;
}

static bool
token_names_audience(struct json_doc *claims, const struct json_value *claim, const char *audience)
{
    const struct json_value *entry;

    if (!json_is(claim, JSON_KIND_ARRAY))
        return list_has(claims, audience, claim);
    entry = json_doc_first(claims, claim);
    for (; entry != NULL; entry = json_doc_next(claims, claim, entry)) {
        if (list_has(claims, audience, entry))
            return true;
    }
    return false;
}

/* A boolean claim is compared with true or false; any other claim must be this string. */
static bool
claim_equals(struct json_doc *claims, const struct json_value *claim, const char *text, size_t len)
{
    if (json_is(claim, JSON_KIND_TRUE))
        return len == 4 && memcmp(text, "true", 4) == 0;
    if (json_is(claim, JSON_KIND_FALSE))
        return len == 5 && memcmp(text, "false", 5) == 0;
    return text_is(claims, claim, text, len);
}

static bool
has_required_claims(struct json_doc *claims, const char *required)
{
    const char *item, *equals;
    size_t len;

    while (list_next(&required, &item, &len)) {
        equals = memchr(item, '=', len);
        if (equals == NULL || !claim_equals(claims, claim_at(claims, item, (size_t)(equals - item)),
                                            equals + 1, len - (size_t)(equals + 1 - item)))
            return false;
    }
    return true;
}

static enum rc
token_check_origin(const struct token_issuer *issuer, struct json_doc *claims,
                   struct token_error *error)
{
    const char *path = issuer->audience_claim != NULL ? issuer->audience_claim : "aud";
    const struct json_value *audience = claim_at(claims, path, strlen(path));

    if (issuer->issuer != NULL &&
        !text_is(claims, member(claims, "iss"), issuer->issuer, strlen(issuer->issuer)))
        return token_reject(error, TOKEN_FAULT_ISSUER,
                            "token claim iss is not the configured issuer");
    /* RFC 7519, 4.1.3: a recipient that aud does not name must reject the token. */
    if (issuer->audience == NULL && member(claims, "aud") != NULL)
        return token_reject(error, TOKEN_FAULT_AUDIENCE,
                            "token has an aud claim, but auth.audience is not set");
    if (issuer->audience != NULL && !token_names_audience(claims, audience, issuer->audience))
        return token_reject(error, TOKEN_FAULT_AUDIENCE,
                            "token claim aud does not contain the configured audience");
    if (!has_required_claims(claims, issuer->required))
        return token_reject(error, TOKEN_FAULT_CLAIMS, "token lacks a claim of auth.required");
    return RC_OK;
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

/* Adds the targets of one kind. */
static enum rc
token_add_targets(struct json_doc *claims, const char *kind, const struct json_value *targets,
                  struct token *token, struct token_error *error)
{
    const struct json_value *target = json_doc_first(claims, targets);
    const size_t count = json_doc_count(claims, targets);

    if (count > TOKEN_GROUPS_MAX - token->group_count)
        return token_reject(error, TOKEN_FAULT_CLAIMS,
                            "token claim groups has more than 256 targets");
    if (count > 0)
        token->groups =
            memory_grow(token->groups, (token->group_count + count) * sizeof(token->groups[0]));
    for (; target != NULL; target = json_doc_next(claims, targets, target)) {
        if (!has_length(target, TOKEN_TARGET_MAX))
            return token_reject(error, TOKEN_FAULT_CLAIMS,
                                "target in token claim groups is not a string of 1 to "
                                "255 bytes");
        token->groups[token->group_count++] = (struct token_group){
            .audience = memory_text(kind, strlen(kind)),
            .target = memory_text(json_doc_text(claims, target), json_text_len(target))};
    }
    return RC_OK;
}

/*
 * Adds the groups of an object of kinds. Membership in a composite audience follows from its parts,
 * so a group with such a name is ignored.
 */
static enum rc
token_add_kinds(struct json_doc *claims, const struct json_value *kinds, struct token *token,
                struct token_error *error)
{
    const struct json_value *each = json_doc_first(claims, kinds);
    enum rc rc = RC_OK;

    for (; each != NULL && rc == RC_OK; each = json_doc_next(claims, kinds, each)) {
        const char *kind = json_doc_text(claims, each);
        const struct json_value *targets = json_value_of(each);

        if (audience_is_composite_name(kind))
            continue;
        if (!token_audience_allowed(kind))
            return token_reject(error, TOKEN_FAULT_CLAIMS,
                                "audience in token claim groups must be 1 to 63 letters, "
                                "digits and _, and not USER or ALL");
        if (!json_is(targets, JSON_KIND_ARRAY))
            return token_reject(error, TOKEN_FAULT_CLAIMS,
                                "token claim groups is not an object of arrays");
        rc = token_add_targets(claims, kind, targets, token, error);
    }
    return rc;
}

/* An object has kinds, an array has targets of one kind; other types are ignored. */
static enum rc
token_add_groups(const struct token_issuer *issuer, struct json_doc *claims, struct token *token,
                 struct token_error *error)
{
    const char *paths = issuer->groups_claim != NULL ? issuer->groups_claim : "groups";
    const char *item;
    size_t len;
    enum rc rc = RC_OK;

    while (rc == RC_OK && list_next(&paths, &item, &len)) {
        const char *equals = memchr(item, '=', len);
        const char *path = equals != NULL ? equals + 1 : item;
        const struct json_value *groups = claim_at(claims, path, len - (size_t)(path - item));
        char kind[TOKEN_AUDIENCE_MAX + 1] = "ROLE";

        if (equals != NULL)
            snprintf(kind, sizeof(kind), "%.*s", (int)(equals - item), item);
        if (json_is(groups, JSON_KIND_OBJECT))
            rc = token_add_kinds(claims, groups, token, error);
        else if (json_is(groups, JSON_KIND_ARRAY))
            rc = token_add_targets(claims, kind, groups, token, error);
    }
    return rc;
}

bool
token_has_controls(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at < 0x20 || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0))
            return true;
    }
    return false;
}

/* The user is the prefix and the first claim that exists. */
static enum rc
token_read_user(const struct token_issuer *issuer, struct json_doc *claims, char **ret_user,
                struct token_error *error)
{
    const char *paths = issuer->user_claim != NULL ? issuer->user_claim : "sub";
    const char *prefix = issuer->user_prefix != NULL ? issuer->user_prefix : "";
    const size_t prefix_len = strlen(prefix);
    const struct json_value *user = NULL;
    const char *item;
    size_t len;

    while (user == NULL && list_next(&paths, &item, &len))
        user = claim_at(claims, item, len);
    if (!json_is(user, JSON_KIND_TEXT))
        return token_reject(error, TOKEN_FAULT_CLAIMS,
                            "token claim sub must be a string, such as \"42\", not 42");
    if (prefix_len >= TOKEN_USER_MAX || !has_length(user, TOKEN_USER_MAX - prefix_len))
        return token_reject(error, TOKEN_FAULT_CLAIMS, "token claim sub must have 1 to 255 bytes");
    if (token_has_controls(json_doc_text(claims, user)))
        return token_reject(error, TOKEN_FAULT_CLAIMS,
                            "token claim sub must not contain control characters");
    *ret_user = memory_new(prefix_len + json_text_len(user) + 1);
    memcpy(*ret_user, prefix, prefix_len);
    memcpy(*ret_user + prefix_len, json_doc_text(claims, user), json_text_len(user));
    return RC_OK;
}

/* True for an array of strings, and for an absent member. */
static bool
is_list(const struct json_doc *doc, const struct json_value *list)
{
    const struct json_value *item = json_doc_first(doc, list);

    if (list != NULL && !json_is(list, JSON_KIND_ARRAY))
        return false;
    for (; item != NULL; item = json_doc_next(doc, list, item))
        if (!json_is(item, JSON_KIND_TEXT))
            return false;
    return true;
}

/* True, or an object of the lists `audiences` and `topics`; any other value is no right. */
static void
token_read_publish(const struct json_doc *claims, struct token *token)
{
    const struct json_value *publish = member(claims, "publish");
    const struct json_value *audiences = json_doc_member(claims, publish, "audiences");
    const struct json_value *topics = json_doc_member(claims, publish, "topics");
    struct buffer limits;

    token->publish = json_is(publish, JSON_KIND_TRUE);
    if (!json_is(publish, JSON_KIND_OBJECT) || !is_list(claims, audiences) ||
        !is_list(claims, topics) ||
        json_doc_count(claims, publish) != (size_t)(audiences != NULL) + (topics != NULL))
        return;
    buffer_init(&limits, TOKEN_BYTES_MAX);
    if (json_doc_add(claims, publish, &limits) == RC_OK) {
        token->publish = true;
        token->publish_limits = memory_text(limits.bytes, limits.len);
    }
    buffer_free(&limits);
}

/* An absent list allows everything. With a trailing *, a topic is a prefix. */
static bool
list_allows(struct json_doc *doc, const char *name, const char *word, bool has_prefixes)
{
    const struct json_value *list = json_doc_member(doc, json_doc_root(doc), name), *item;
    bool is_allowed = list == NULL;

    for (item = json_doc_first(doc, list); item != NULL; item = json_doc_next(doc, list, item)) {
        const char *text = json_doc_text(doc, item);
        const size_t len = strlen(text);

        is_allowed |= strcmp(text, word) == 0 || (has_prefixes && len > 0 && text[len - 1] == '*' &&
                                                  strncmp(text, word, len - 1) == 0);
    }
    return is_allowed;
}

bool
token_may_publish(const struct token *token, const char *audience, const char *topic)
{
    const char *limits = token->publish_limits;
    struct json_doc doc;
    bool is_allowed;

    if (!token->publish || limits == NULL)
        return token->publish;
    is_allowed = read_object(&doc, limits, strlen(limits)) &&
                 list_allows(&doc, "audiences", audience, false) &&
                 list_allows(&doc, "topics", topic, true);
    json_doc_free(&doc);
    return is_allowed;
}

/* Whether it is a logout token, which grants nothing. */
static bool
has_logout_event(const struct json_doc *claims)
{
    return json_is(json_doc_member(claims, member(claims, "events"), LOGOUT_EVENT),
                   JSON_KIND_OBJECT);
}

/* A claim of another type, and the sid of an unknown issuer, are ignored. */
static struct cutoff_marks
read_marks(struct json_doc *claims, const char *user)
{
    const char *jti = json_doc_text(claims, member(claims, "jti"));
    const char *sid = json_doc_text(claims, member(claims, "sid"));
    const char *issuer = json_doc_text(claims, member(claims, "iss"));
    struct cutoff_marks marks = {.issued_s = -1, .user = cutoff_of_user(user)};

    (void)token_read_time(claims, "iat", &marks.issued_s);
    if (jti != NULL)
        marks.token = cutoff_of_token(user, jti);
    if (sid != NULL && issuer != NULL)
        marks.session = cutoff_of_session(issuer, sid);
    return marks;
}

/* `admin` needs the JSON value true; any other value is ignored. */
static enum rc
token_read_claims(const struct token_issuer *issuer, int64_t leeway_s, struct json_doc *claims,
                  int64_t now_s, struct token *ret_token, struct token_error *error)
{
    struct token token = {0};
    enum rc rc = token_check_times(leeway_s, claims, now_s, &token.expires_s, error);

    if (rc == RC_OK)
        rc = token_check_origin(issuer, claims, error);
    if (rc == RC_OK && has_logout_event(claims))
        rc = token_reject(error, TOKEN_FAULT_CLAIMS, "a logout token grants no access");
    if (rc == RC_OK)
        rc = token_read_user(issuer, claims, &token.user, error);
    if (rc == RC_OK)
        rc = token_add_groups(issuer, claims, &token, error);
    if (rc == RC_OK && now_s - leeway_s >= token.expires_s) {
        (void)token_reject(error, TOKEN_FAULT_EXPIRED, "token expired");
        rc = RC_CLOSED;
    }
    if (rc != RC_OK) {
        token_free(&token);
        return rc;
    }
    if (issuer->publish)
        token_read_publish(claims, &token);
    /* OpenID Connect, section 5.6.2: the claim is elsewhere, and is not fetched. */
    token.lacks_groups = json_doc_member(claims, member(claims, "_claim_names"), "groups") != NULL;
    token.admin = issuer->admin && json_is(member(claims, "admin"), JSON_KIND_TRUE);
    token.marks = read_marks(claims, token.user);
    *ret_token = token;
    return RC_OK;
}

/* Like token_check_times, but exp may be missing: earlier versions of the standard lack it. */
static enum rc
check_logout_times(int64_t leeway_s, struct json_doc *claims, int64_t now_s,
                   struct token_error *error)
{
    int64_t issued_s, expires_s;
    enum rc rc = token_read_time(claims, "exp", &expires_s);

    if (token_read_time(claims, "iat", &issued_s) != RC_OK || rc == RC_BAD)
        return token_reject(error, TOKEN_FAULT_CLAIMS,
                            "logout token claims iat and exp must be times in Unix seconds");
    if (now_s + leeway_s < issued_s)
        return token_reject(error, TOKEN_FAULT_EARLY, "logout token: issued in the future (iat)");
    if (rc == RC_AGAIN)
        expires_s = issued_s + LOGOUT_AGE_S;
    if (now_s - leeway_s < expires_s)
        return RC_OK;
    (void)token_reject(error, TOKEN_FAULT_EXPIRED, "logout token expired");
    return RC_CLOSED;
}

/*
 * It is issued to the client that signs users in, which may be another audience than that of access
 * tokens: audience_claim and required are for these.
 */
static enum rc
check_logout_origin(const struct token_issuer *issuer, struct json_doc *claims,
                    struct token_error *error)
{
    const struct json_value *name = member(claims, "iss");

    if (!json_is(name, JSON_KIND_TEXT) ||
        (issuer->issuer != NULL && !text_is(claims, name, issuer->issuer, strlen(issuer->issuer))))
        return token_reject(error, TOKEN_FAULT_ISSUER,
                            "logout token claim iss is not the configured issuer");
    if (issuer->audience == NULL ||
        !token_names_audience(claims, member(claims, "aud"), issuer->audience))
        return token_reject(error, TOKEN_FAULT_AUDIENCE,
                            "logout token claim aud does not contain a configured audience");
    return RC_OK;
}

static enum rc
read_logout_claims(const struct token_issuer *issuer, int64_t leeway_s, struct json_doc *claims,
                   int64_t now_s, struct token *ret_token, struct token_error *error)
{
    const struct json_value *sid = member(claims, "sid"), *jti = member(claims, "jti");
    struct token token = {0};
    enum rc rc = check_logout_origin(issuer, claims, error);

    if (rc == RC_OK)
        rc = check_logout_times(leeway_s, claims, now_s, error);
    if (rc != RC_OK)
        return rc;
    if (!has_logout_event(claims))
        return token_reject(error, TOKEN_FAULT_CLAIMS,
                            "logout token lacks the member backchannel-logout of the claim events");
    if (json_doc_member(claims, json_doc_root(claims), "nonce") != NULL)
        return token_reject(error, TOKEN_FAULT_CLAIMS, "logout token has a nonce");
    if (!json_is(jti, JSON_KIND_TEXT) || json_text_len(jti) == 0)
        return token_reject(error, TOKEN_FAULT_CLAIMS, "logout token has no jti");
    if (sid == NULL && (rc = token_read_user(issuer, claims, &token.user, error)) != RC_OK)
        return rc;
    if (sid != NULL && (!json_is(sid, JSON_KIND_TEXT) || !has_length(sid, TOKEN_USER_MAX)))
        return token_reject(error, TOKEN_FAULT_CLAIMS,
                            "logout token claim sid must have 1 to 255 bytes");
    if (sid != NULL)
        token.marks.session = cutoff_of_session(json_doc_text(claims, member(claims, "iss")),
                                                json_doc_text(claims, sid));
    else
        token.marks.user = cutoff_of_user(token.user);
    (void)token_read_time(claims, "iat", &token.marks.issued_s);
    *ret_token = token;
    return RC_OK;
}

/* The entry that the token's iss names; NULL: none. */
static const struct token_issuer *
find_issuer(const struct token_rules *rules, struct json_doc *claims)
{
    const struct json_value *name = member(claims, "iss");
    const struct token_issuer *found = NULL;

    for (size_t i = 0; i < rules->count; i++) {
        const struct token_issuer *issuer = &rules->issuers[i];

        if (issuer->is_default)
            found = issuer;
        else if (text_is(claims, name, issuer->issuer, strlen(issuer->issuer)))
            return issuer;
    }
    return found;
}

/* Reads the header and verifies the signature. */
static enum rc
check_jws(const struct token_issuer *issuer, enum token_kind kind, const struct jws *jws,
          struct token_error *error)
{
    size_t len = 0;
    char *part = jws_header(jws, &len);
    struct json_doc header;
    enum rc rc = read_object(&header, part, len)
                     ? check_header(&header, kind, error)
                     : token_reject(error, TOKEN_FAULT_MALFORMED,
                                    "token header is not a JSON object in base64url");

    if (rc == RC_OK)
        rc = check_signature(issuer, jws, &header, error);
    json_doc_free(&header);
    free(part);
    return rc;
}

static enum rc
check_token(const struct token_rules *rules, enum token_kind kind, const struct jws *jws,
            struct json_doc *claims, int64_t now_s, struct token *ret_token,
            struct token_error *error)
{
    const struct token_issuer *issuer = find_issuer(rules, claims);
    enum rc rc;

    if (issuer == NULL)
        return token_reject(error, TOKEN_FAULT_ISSUER, "token claim iss names no known issuer");
    error->issuer = (size_t)(issuer - rules->issuers);
    rc = check_jws(issuer, kind, jws, error);
    if (rc != RC_OK)
        return rc;
    return (kind == TOKEN_LOGOUT ? read_logout_claims : token_read_claims)(
        issuer, rules->leeway_s, claims, now_s, ret_token, error);
}

/* The claims are parsed before the signature is verified, because they name the issuer. */
static enum rc
verify(const struct token_rules *rules, enum token_kind kind, const char *text, size_t len,
       int64_t now_s, struct token *ret_token, struct token_error *error)
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
    part = jws_payload(&jws, &len);
    rc = read_object(&claims, part, len)
             ? check_token(rules, kind, &jws, &claims, now_s, ret_token, error)
             : token_reject(error, TOKEN_FAULT_MALFORMED,
                            "token claims are not a JSON object, or one is given twice, out of "
                            "range or has a NUL");
    json_doc_free(&claims);
    free(part);
    return rc;
}

enum rc
token_verify(const struct token_rules *rules, const char *text, size_t len, int64_t now_s,
             struct token *ret_token, struct token_error *error)
{
    return verify(rules, TOKEN_ACCESS, text, len, now_s, ret_token, error);
}

enum rc
token_verify_logout(const struct token_rules *rules, const char *text, size_t len, int64_t now_s,
                    struct token *ret_token, struct token_error *error)
{
    return verify(rules, TOKEN_LOGOUT, text, len, now_s, ret_token, error);
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
    char marks[CUTOFF_MARKS_TEXT];
    enum rc rc = buffer_add(out, "{\"sub\":", 7);

    cutoff_marks_write(&token->marks, marks);
    if (rc == RC_OK)
        rc = buffer_add_json(out, token->user, strlen(token->user));
    if (rc == RC_OK)
        rc = buffer_addf(
            out, ",\"exp\":%" PRId64 ",\"marks\":\"%s\",\"publish\":%s,\"admin\":%s,\"groups\":",
            token->expires_s, marks,
            token->publish_limits != NULL ? token->publish_limits
            : token->publish              ? "true"
                                          : "false",
            token->admin ? "true" : "false");
    if (rc == RC_OK)
        rc = token_write_groups(token, out);
    return rc == RC_OK ? buffer_add(out, "}", 1) : rc;
}

enum rc
token_parse(const char *text, size_t len, int64_t now_s, struct token *ret_token,
            struct token_error *error)
{
    const struct token_issuer issuer = {.publish = true, .admin = true};
    struct json_doc claims;
    enum rc rc =
        read_object(&claims, text, len)
            ? token_read_claims(&issuer, 0, &claims, now_s, ret_token, error)
            : token_reject(error, TOKEN_FAULT_MALFORMED, "token claims are not a JSON object");
    const char *marks = rc == RC_OK ? json_doc_text(&claims, member(&claims, "marks")) : NULL;

    /* Those of an earlier version have no marks, as a token without iat and jti. */
    if (marks != NULL && !cutoff_marks_read(marks, &ret_token->marks)) {
        token_free(ret_token);
        rc = token_reject(error, TOKEN_FAULT_MALFORMED, "token marks are invalid");
    }
    json_doc_free(&claims);
    return rc;
}

struct token
token_copy(const struct token *token)
{
    struct token copy = *token;

    copy.user = memory_text(token->user, strlen(token->user));
    if (token->publish_limits != NULL)
        copy.publish_limits = memory_text(token->publish_limits, strlen(token->publish_limits));
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
    free(token->publish_limits);
    *token = (struct token){0};
}
