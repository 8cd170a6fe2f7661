/* token.h: verifies JSON Web Tokens. Pure: no clock, no log. */
#ifndef CLAIRON_WIRE_TOKEN_H
#define CLAIRON_WIRE_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decoder/protocol/limits.h"
#include "base/buffer.h"
#include "base/rc.h"
#include "wire/audience.h"

#define TOKEN_BYTES_MAX 8192
#define TOKEN_USER_MAX 255
#define TOKEN_AUDIENCE_MAX AUDIENCE_NAME_MAX
#define TOKEN_TARGET_MAX LIMIT_TARGET
#define TOKEN_GROUPS_MAX 256
#define TOKEN_BAD_SIGNATURE "malformed token or invalid signature"
#define TOKEN_ERROR_MAX 160

/* The type of the key decides which algorithms are accepted, never the token's header. */
enum token_key_kind { TOKEN_KEY_HS256, TOKEN_KEY_PEM /* RS256 or ES256, by the key's type */ };

struct token_rules {
    enum token_key_kind kind;
    const char *key; /* the secret, or the PEM of the public key */
    size_t key_len;
    const char *issuer;   /* NULL: not checked */
    const char *audience; /* NULL: tokens with aud are rejected */
    int64_t leeway_s;
    const char *previous; /* previous key of the same type, still accepted; NULL: none */
    size_t previous_len;
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
    bool publish;
    bool admin; /* may use the console and the kill switch */
};

/*
 * Verifies `text` at now_s (Unix seconds). RC_OK: *ret_token is filled; the caller frees it with
 * token_free. RC_CLOSED: valid but expired. RC_BAD: any other error. `error` is a message that does
 * not contain the token.
 */
MUST_CHECK enum rc token_verify(const struct token_rules *rules, const char *text, size_t len,
                                int64_t now_s, struct token *ret_token,
                                char error[TOKEN_ERROR_MAX]);

/* Adds the claims as a JSON object. Use it only for trusted storage. */
MUST_CHECK enum rc token_write(const struct token *token, struct buffer *out);

/* Adds the groups as a JSON object of arrays. */
MUST_CHECK enum rc token_write_groups(const struct token *token, struct buffer *out);

/* Parses the output of token_write with the checks of token_verify, except the signature. */
MUST_CHECK enum rc token_parse(const char *text, size_t len, int64_t now_s, struct token *ret_token,
                               char error[TOKEN_ERROR_MAX]);

/* Frees and resets. Accepts a zeroed token. */
void token_free(struct token *token);

#endif
