/* cutoff.c: the digests of cut-offs, what they reject, and their texts. */
#include "wire/cutoff.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/evp.h>

#include "base/clock.h"

#define HALF_TEXT (CUTOFF_DIGEST_TEXT / 2)

/*
 * Hashes the kind and the names, each with its zero byte, which no name contains. The kind
 * separates users from tokens and sessions with the same name.
 */
static struct cutoff_digest
digest_of(const char *kind, const char *name, const char *second)
{
    const char *const texts[] = {kind, name, second};
    unsigned char hash[EVP_MAX_MD_SIZE] = {0};
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool is_good = md != NULL && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1;

    for (size_t i = 0; i < 3 && is_good; i++)
        is_good = texts[i] == NULL || EVP_DigestUpdate(md, texts[i], strlen(texts[i]) + 1) == 1;
    is_good = is_good && EVP_DigestFinal_ex(md, hash, NULL) == 1;
    EVP_MD_CTX_free(md);
    if (!is_good)
        abort(); /* out of memory: without a digest, a rejected token would be accepted */
    return (struct cutoff_digest){bytes_get_u64(hash), bytes_get_u64(hash + 8)};
}

struct cutoff_digest
cutoff_of_user(const char *user)
{
    return digest_of("user", user, NULL);
}

struct cutoff_digest
cutoff_of_token(const char *user, const char *jti)
{
    return digest_of("token", user, jti);
}

struct cutoff_digest
cutoff_of_session(const char *issuer, const char *sid)
{
    return digest_of("session", issuer, sid);
}

struct cutoff
cutoff_for(const char *user, const char *jti, int64_t until_s, int64_t now_s)
{
    return (struct cutoff){.digest =
                               jti != NULL ? cutoff_of_token(user, jti) : cutoff_of_user(user),
                           .issued_s = jti != NULL ? CUTOFF_ALL_S : CUTOFF_NOW_S,
                           .ends_s = until_s != 0 ? until_s : now_s + CUTOFF_DEFAULT_S};
}

static bool
is_digest(struct cutoff_digest a, struct cutoff_digest b)
{
    return a.high == b.high && a.low == b.low;
}

bool
cutoff_rejects(const struct cutoff *cutoff, const struct cutoff_marks *marks, int64_t now_s)
{
    return now_s < cutoff->ends_s && marks->issued_s <= cutoff->issued_s &&
           (is_digest(cutoff->digest, marks->user) || is_digest(cutoff->digest, marks->token) ||
            is_digest(cutoff->digest, marks->session));
}

static void
write_digest(struct cutoff_digest digest, char ret_text[CUTOFF_DIGEST_TEXT + 1])
{
    snprintf(ret_text, CUTOFF_DIGEST_TEXT + 1, "%016" PRIx64 "%016" PRIx64, digest.high,
             digest.low);
}

static bool
read_digest(const char *text, size_t len, struct cutoff_digest *ret_digest)
{
    char high[HALF_TEXT + 1] = "", low[HALF_TEXT + 1] = "";

    if (len != CUTOFF_DIGEST_TEXT)
        return false;
    memcpy(high, text, HALF_TEXT);
    memcpy(low, text + HALF_TEXT, HALF_TEXT);
    if (strspn(high, "0123456789abcdef") + strspn(low, "0123456789abcdef") != CUTOFF_DIGEST_TEXT)
        return false;
    *ret_digest = (struct cutoff_digest){strtoull(high, NULL, 16), strtoull(low, NULL, 16)};
    return true;
}

/* Reads digits at *at, up to `end`, and skips them. */
static bool
read_seconds(const char **at, char end, int64_t *ret_s)
{
    size_t digits = strspn(*at, "0123456789");

    if (digits == 0 || digits > 12 || (*at)[digits] != end)
        return false;
    *ret_s = strtoll(*at, NULL, 10);
    *at += digits + (end != '\0');
    return true;
}

void
cutoff_write_digest(const struct cutoff *cutoff, char ret_text[CUTOFF_DIGEST_TEXT + 1])
{
    write_digest(cutoff->digest, ret_text);
}

void
cutoff_write_value(const struct cutoff *cutoff, char ret_text[CUTOFF_VALUE_TEXT])
{
    snprintf(ret_text, CUTOFF_VALUE_TEXT, "%" PRId64 ":%" PRId64, cutoff->issued_s, cutoff->ends_s);
}

bool
cutoff_read(struct bytes digest, struct bytes value, struct cutoff *ret_cutoff)
{
    char text[CUTOFF_VALUE_TEXT] = "";
    const char *at = text;
    struct cutoff cutoff;

    if (value.len >= sizeof(text))
        return false;
    if (value.len > 0)
        memcpy(text, value.at, value.len);
    if (!read_digest((const char *)digest.at, digest.len, &cutoff.digest) ||
        !read_seconds(&at, ':', &cutoff.issued_s) || !read_seconds(&at, '\0', &cutoff.ends_s))
        return false;
    *ret_cutoff = cutoff;
    return true;
}

/* An unknown time is written as an empty text. */
void
cutoff_marks_write(const struct cutoff_marks *marks, char ret_text[CUTOFF_MARKS_TEXT])
{
    char issued[24] = "", token[CUTOFF_DIGEST_TEXT + 1], session[CUTOFF_DIGEST_TEXT + 1];

    if (marks->issued_s >= 0)
        snprintf(issued, sizeof(issued), "%" PRId64, marks->issued_s);
    write_digest(marks->token, token);
    write_digest(marks->session, session);
    snprintf(ret_text, CUTOFF_MARKS_TEXT, "%s %s %s", token, session, issued);
}

bool
cutoff_marks_read(const char *text, struct cutoff_marks *ret_marks)
{
    const char *issued = text + 2 * (CUTOFF_DIGEST_TEXT + 1);
    struct cutoff_marks marks = *ret_marks;

    if (strnlen(text, CUTOFF_MARKS_TEXT) < 2 * (CUTOFF_DIGEST_TEXT + 1) ||
        !read_digest(text, CUTOFF_DIGEST_TEXT, &marks.token) ||
        !read_digest(text + CUTOFF_DIGEST_TEXT + 1, CUTOFF_DIGEST_TEXT, &marks.session))
        return false;
    marks.issued_s = -1;
    if (*issued != '\0' && !read_seconds(&issued, '\0', &marks.issued_s))
        return false;
    *ret_marks = marks;
    return true;
}

bool
cutoff_read_time(const char *text, int64_t *ret_s)
{
    int64_t us;

    if (!clock_read_text(text, &us) || us < 0 || us > CUTOFF_ALL_S * 1000000)
        return false;
    *ret_s = (us + 999999) / 1000000;
    return true;
}
