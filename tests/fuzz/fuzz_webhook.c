/* fuzz_webhook.c: checks the parsers of the webhook: the file with its secrets, and Retry-After. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/memory.h"
#include "tests/fuzz/fuzz.h"
#include "wire/http_fields.h"
#include "wire/webhook_signature.h"

#define NOW_S INT64_C(1741178096)
#define DELAY_MAX_MS INT64_C(3600000)
#define ENCODED_MAX 128

/* Writing the secrets again results in the same file, except for its last line feed. */
static void
check_secrets(const struct webhook_secrets *secrets, const char *text, size_t len)
{
    size_t at = 0;

    for (size_t i = 0; i < secrets->count; i++) {
        unsigned char encoded[ENCODED_MAX];
        int encoded_len =
            EVP_EncodeBlock(encoded, secrets->secrets[i].bytes, (int)secrets->secrets[i].len);

        if (secrets->secrets[i].len < WEBHOOK_SECRET_BYTES_MIN ||
            at + 6 + (size_t)encoded_len > len || memcmp(text + at, "whsec_", 6) != 0 ||
            memcmp(text + at + 6, encoded, (size_t)encoded_len) != 0)
            __builtin_trap();
        at += 6 + (size_t)encoded_len + 1;
    }
    if (at < len)
        __builtin_trap();
}

static void
parse_secrets(const char *text, size_t len)
{
    struct webhook_secrets secrets = {.count = 0};
    char error[WEBHOOK_ERROR_MAX] = "", signature[WEBHOOK_SIGNATURE_MAX];

    if (webhook_secrets_parse(text, len, &secrets, error) != RC_OK) {
        if (error[0] == '\0' || secrets.count != 0)
            __builtin_trap();
        return;
    }
    if (secrets.count < 1 || secrets.count > WEBHOOK_SECRETS_MAX)
        __builtin_trap();
    check_secrets(&secrets, text, len);
    webhook_sign(&secrets, "id", NOW_S, text, len, signature);
    if (strlen(signature) != secrets.count * 48 - 1)
        __builtin_trap();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *value;
    int64_t ms;

    if (size == 0)
        return 0;
    if (data[0] % 2 == 0) {
        parse_secrets((const char *)data + 1, size - 1);
        return 0;
    }
    value = memory_text((const char *)data + 1, size - 1);
    ms = retry_after_ms(value, NOW_S, DELAY_MAX_MS);
    if (ms < -1 || ms > DELAY_MAX_MS)
        __builtin_trap();
    free(value);
    return 0;
}
