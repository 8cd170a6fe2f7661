/* fuzz_token.c: checks that a token grants only signed claims, within the limits of tokens. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/memory.h"
#include "tests/fuzz/fuzz.h"
#include "wire/base64url.h"
#include "wire/token.h"

#define NOW_S INT64_C(1741178096)
#define TOKEN_TEXT_MAX (TOKEN_BYTES_MAX * 2)

static const char SECRET[] = "a secret that no input contains, at least 32 bytes";
static const char PEM[] = "-----BEGIN PUBLIC KEY-----\n"
                          "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt\n"
                          "6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==\n"
                          "-----END PUBLIC KEY-----\n";

enum who { SHARED, STRICT, PUBLIC };

static struct token_issuer issuers[] = {
    [SHARED] = {.is_default = true, .publish = true, .admin = true},
    [STRICT] = {.is_default = true, .issuer = "us", .audience = "relay"},
    [PUBLIC] = {.is_default = true, .publish = true, .admin = true},
};

static void
make_keys(void)
{
    if (issuers[SHARED].keys.count > 0)
        return;
    key_set_add_secret(&issuers[SHARED].keys, SECRET, sizeof(SECRET) - 1);
    key_set_add_secret(&issuers[STRICT].keys, SECRET, sizeof(SECRET) - 1);
    if (key_set_add_pem(&issuers[PUBLIC].keys, PEM, sizeof(PEM) - 1) != RC_OK)
        abort();
}

static void
check(const struct token *token)
{
    size_t len = strlen(token->user);

    if (len > TOKEN_USER_MAX || token->group_count > TOKEN_GROUPS_MAX ||
        token->expires_s < NOW_S - 5)
        __builtin_trap();
    for (size_t i = 0; i < token->group_count; i++) {
        const struct token_group *group = &token->groups[i];

        if (strlen(group->audience) > TOKEN_AUDIENCE_MAX || group->audience[0] == '\0' ||
            strchr(group->audience, ':') != NULL || strcmp(group->audience, "USER") == 0 ||
            strlen(group->target) > TOKEN_TARGET_MAX)
            __builtin_trap();
    }
}

/* True for a valid token. An invalid token sets an error message and no claims. */
static bool
is_good(enum who who, const char *text, size_t len)
{
    const struct token_rules rules = {.issuers = &issuers[who], .count = 1, .leeway_s = 5};
    struct token_error error = {.text = ""};
    struct token token = {0};
    enum rc rc = token_verify(&rules, text, len, NOW_S, &token, &error);

    if (rc == RC_OK)
        check(&token);
    else if (error.text[0] == '\0' || token.user != NULL || token.groups != NULL)
        __builtin_trap();
    token_free(&token);
    return rc == RC_OK;
}

/* A ticket preserves all claims: parsing, writing and parsing again returns the same claims. */
static void
read_kept(const char *text, size_t len)
{
    struct token_error error = {.text = ""};
    struct token token = {0}, again = {0};
    struct buffer kept;

    if (token_parse(text, len, NOW_S, &token, &error) != RC_OK)
        return;
    check(&token);
    buffer_init(&kept, 1024 * 1024);
    if (token_write(&token, &kept) != RC_OK ||
        token_parse(kept.bytes, kept.len, NOW_S, &again, &error) != RC_OK ||
        strcmp(token.user, again.user) != 0 || token.group_count != again.group_count ||
        token.expires_s != again.expires_s || token.publish != again.publish ||
        token.admin != again.admin || memcmp(&token.marks, &again.marks, sizeof(token.marks)) != 0)
        __builtin_trap();
    buffer_free(&kept);
    token_free(&token);
    token_free(&again);
}

static size_t
add_base64url(char *out, const unsigned char *bytes, size_t len)
{
    base64url_encode(bytes, len, out);
    return BASE64URL_LEN(len);
}

/* Returns a token with this header and these claims, signed by HMAC with `secret`. */
static size_t
sign(char out[TOKEN_TEXT_MAX], const uint8_t *head, size_t head_len, const uint8_t *claims,
     size_t claims_len, const char *secret)
{
    unsigned char signature[EVP_MAX_MD_SIZE];
    unsigned int signature_len = 0;
    size_t len = add_base64url(out, head, head_len);

    out[len++] = '.';
    len += add_base64url(out + len, claims, claims_len);
    if (HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)out, len, signature,
             &signature_len) == NULL)
        abort();
    out[len++] = '.';
    return len + add_base64url(out + len, signature, signature_len);
}

/* The first line of the input is the header, the other lines are the claims. */
static void
verify_signed(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\n', size);
    size_t head_len = end != NULL ? (size_t)(end - data) : 0;
    const uint8_t *claims = end != NULL ? end + 1 : data;
    size_t claims_len = (size_t)(data + size - claims);
    char *text = memory_new(TOKEN_TEXT_MAX);
    size_t len;

    if (size <= 4096) {
        len = sign(text, data, head_len, claims, claims_len, SECRET);
        (void)is_good(SHARED, text, len);
        if (is_good(STRICT, text, len) && memmem(claims, claims_len, "us", 2) == NULL &&
            memchr(claims, '\\', claims_len) == NULL)
            __builtin_trap();
        /* A public key is not a secret, so it must not verify an HMAC. */
        len = sign(text, data, head_len, claims, claims_len, PEM);
        if (is_good(PUBLIC, text, len) || is_good(SHARED, text, len))
            __builtin_trap();
    }
    free(text);
}

/* A JWK Set has at least one usable key, or is rejected with a reason. */
static void
read_keys(const char *text, size_t len)
{
    char error[KEY_SET_ERROR_MAX] = "";
    struct key_set set = {0};
    enum rc rc = key_set_add_jwks(&set, text, len, true, error);

    if ((rc == RC_OK) != (set.count > 0) || (rc == RC_OK) != (error[0] == '\0') ||
        set.count > KEY_SET_KEYS_MAX)
        __builtin_trap();
    key_set_free(&set);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 1;

    if (size == 0)
        return 0;
    make_keys();
    if (data[0] == 'K') {
        read_keys(text, size - 1);
        return 0;
    }
    switch (data[0] % 3) {
    case 0:
        if (is_good(SHARED, text, size - 1) || is_good(PUBLIC, text, size - 1))
            __builtin_trap();
        break;
    case 1:
        verify_signed(data + 1, size - 1);
        break;
    default:
        read_kept(text, size - 1);
    }
    return 0;
}
