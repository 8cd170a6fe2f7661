/* token.h: verifies JSON Web Tokens. Pure: no clock, no log. */
#ifndef CLAIRON_WIRE_TOKEN_H
#define CLAIRON_WIRE_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decoder/protocol/limits.h"
#include "base/memory.h"
#include "base/rc.h"
#include "wire/audience_name.h"
#include "wire/cutoff.h"
#include "wire/jws.h"

#define TOKEN_BYTES_MAX 8192
#define TOKEN_USER_MAX 255
#define TOKEN_AUDIENCE_MAX AUDIENCE_NAME_MAX
#define TOKEN_TARGET_MAX LIMIT_TARGET
#define TOKEN_GROUPS_MAX 256
#define TOKEN_ERROR_MAX 160
#define TOKEN_PATH_MAX 255 /* bytes of a name in a path of claims */
#define TOKEN_BAD_SIGNATURE "invalid token signature"
#define TOKEN_UNKNOWN_KEY "token header kid names no known key of the issuer"
#define TOKEN_NO_KEYS "no keys of the issuer are known yet"

/* Why a token is rejected. */
enum token_fault {
    TOKEN_FAULT_MALFORMED, /* no JWS of a JSON object, or an unsupported header */
    TOKEN_FAULT_ALGORITHM, /* no key of the issuer is of this algorithm */
    TOKEN_FAULT_SIGNATURE,
    TOKEN_FAULT_CLAIMS, /* a claim is missing or has an invalid value */
    TOKEN_FAULT_ISSUER,
    TOKEN_FAULT_AUDIENCE,
    TOKEN_FAULT_EARLY, /* nbf, iat */
    TOKEN_FAULT_EXPIRED
};

struct token_error {
    enum token_fault fault;
    size_t issuer;              /* of RC_AGAIN: its index in the rules */
    char text[TOKEN_ERROR_MAX]; /* does not contain the token */
};

/*
 * Who issues tokens, with the keys that verify them and the claims that are read. Strings belong to
 * the settings. Paths of claims are names joined by dots; a backslash precedes a dot in a name.
 */
struct token_issuer {
    const char *issuer;         /* NULL: not checked */
    bool is_default;            /* [auth]: tokens of issuers that no other entry names */
    struct key_set keys;        /* of files and secrets */
    struct key_set fetched;     /* of a URL */
    bool is_fetched;            /* it has a URL: an unknown key may be fetched */
    const char *audience;       /* comma-separated; NULL: tokens with aud are rejected */
    const char *audience_claim; /* path; NULL: aud */
    const char *required;       /* path=value, comma-separated; NULL: none */
    const char *user_claim;     /* paths, comma-separated; the first that exists; NULL: sub */
    const char *groups_claim;   /* [KIND=]path, comma-separated; NULL: groups */
    const char *user_prefix;    /* NULL: none */
    bool admin, publish;        /* these claims count */
};

struct token_rules {
    struct token_issuer *issuers;
    size_t count;
    int64_t leeway_s;
};

struct token_group {
    char *audience; /* "STRUCTURE" */
    char *target;   /* "s1" */
};

struct token {
    char *user; /* "sub" */
    int64_t expires_s;
    struct token_group *groups; /* groups in the order of the claim */
    size_t group_count;
    bool lacks_groups; /* the provider left out groups, because there are too many */
    bool publish;
    char *publish_limits; /* the claim `publish`, if it is an object; NULL: no limits */
    bool admin;           /* may use the console and the kill switch */
    struct cutoff_marks marks;
};

/*
 * Verifies `text` at now_s (Unix seconds). RC_OK: *ret_token is filled; the caller frees it with
 * token_free. RC_CLOSED: valid but expired. RC_AGAIN: the keys of its issuer must be fetched, which
 * may have the key of this token. RC_BAD: any other error. *error is set on failure.
 */
MUST_CHECK enum rc token_verify(const struct token_rules *rules, const char *text, size_t len,
                                int64_t now_s, struct token *ret_token, struct token_error *error);

/*
 * Like token_verify, for a logout token (OpenID Connect Back-Channel Logout 1.0, section 2.6). With
 * sid, `marks.session` is set and `user` is NULL; otherwise `user` is set.
 */
MUST_CHECK enum rc token_verify_logout(const struct token_rules *rules, const char *text,
                                       size_t len, int64_t now_s, struct token *ret_token,
                                       struct token_error *error);

/* Adds the claims as a JSON object. Use it only for trusted storage. */
MUST_CHECK enum rc token_write(const struct token *token, struct buffer *out);

/* Adds the groups as a JSON object of arrays. */
MUST_CHECK enum rc token_write_groups(const struct token *token, struct buffer *out);

/* Parses the output of token_write with the checks of token_verify, except the signature. */
MUST_CHECK enum rc token_parse(const char *text, size_t len, int64_t now_s, struct token *ret_token,
                               struct token_error *error);

/* Whether a user has U+0001 to U+001F or U+007F to U+009F, which is rejected. */
bool token_has_controls(const char *text);

/* Whether the claim `publish` allows notifications with this kind of audience and this topic. */
bool token_may_publish(const struct token *token, const char *audience, const char *topic);

struct token token_copy(const struct token *token);
/* Frees and resets. Accepts a zeroed token. */
void token_free(struct token *token);

#endif
