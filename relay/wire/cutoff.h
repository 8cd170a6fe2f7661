/*
 * cutoff.h: cut-offs, which reject tokens until a time: those of a user, a single one, or those of
 * a session at an identity provider. Digests replace these names, so that the store keeps none.
 * Pure.
 */
#ifndef CLAIRON_WIRE_CUTOFF_H
#define CLAIRON_WIRE_CUTOFF_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/bytes.h"

#define CUTOFF_DIGEST_TEXT 32 /* hexadecimal digits */
#define CUTOFF_VALUE_TEXT 48  /* of cutoff_write_value, including the zero byte */
#define CUTOFF_MARKS_TEXT 128 /* of cutoff_marks_write, including the zero byte */

#define CUTOFF_NOW_S 0                     /* the second in which it is stored */
#define CUTOFF_ALL_S INT64_C(253402300799) /* end of the year 9999: whenever they were issued */

#define CUTOFF_DEFAULT_S ((int64_t)400 * 86400) /* until the end, unless it is named */
/*
 * Of a logout at a provider: longer than tokens live. It is shorter than the default, so that
 * logouts, which are many, do not displace what administrators cut off.
 */
#define CUTOFF_LOGOUT_S ((int64_t)30 * 86400)

/* The first 128 bits of a SHA-256 hash. Zero: none. */
struct cutoff_digest {
    uint64_t high, low;
};

/* Times are Unix seconds. */
struct cutoff {
    struct cutoff_digest digest; /* of a user, a token, or a session */
    int64_t issued_s;            /* rejects tokens that were issued up to this second (iat) */
    int64_t ends_s;              /* rejects them until this second; 0: removed */
};

/* What a cut-off compares of a token. */
struct cutoff_marks {
    int64_t issued_s; /* -1: unknown */
    struct cutoff_digest user;
    struct cutoff_digest token;   /* of the claim jti */
    struct cutoff_digest session; /* of the claim sid */
};

struct cutoff_digest cutoff_of_user(const char *user);
struct cutoff_digest cutoff_of_token(const char *user, const char *jti);
/* A provider's sid is unique for this issuer only. */
struct cutoff_digest cutoff_of_session(const char *issuer, const char *sid);

/* Of a user, or of a single token of the user. `jti` NULL: all tokens; until_s 0: the default. */
struct cutoff cutoff_for(const char *user, const char *jti, int64_t until_s, int64_t now_s);

/* Whether the cut-off rejects the token at now_s. */
bool cutoff_rejects(const struct cutoff *cutoff, const struct cutoff_marks *marks, int64_t now_s);

/* The form in the store: the digest, and a value with the two times. */
void cutoff_write_digest(const struct cutoff *cutoff, char ret_text[CUTOFF_DIGEST_TEXT + 1]);
void cutoff_write_value(const struct cutoff *cutoff, char ret_text[CUTOFF_VALUE_TEXT]);
bool cutoff_read(struct bytes digest, struct bytes value, struct cutoff *ret_cutoff);

/* The form in a ticket. The digest of the user is not included. */
void cutoff_marks_write(const struct cutoff_marks *marks, char ret_text[CUTOFF_MARKS_TEXT]);
bool cutoff_marks_read(const char *text, struct cutoff_marks *ret_marks);

/*
 * Reads a time of RFC 3339, such as 2026-12-01T00:40:00+01:00. A fraction of a second is rounded
 * up. False: invalid, or not between 1970 and 9999.
 */
bool cutoff_read_time(const char *text, int64_t *ret_s);

#endif
