/* conninfo.c: checks a libpq connection string, and returns libpq's message without secrets. */
#include "base/conninfo.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/suggest.h"

#define FAULT_MAX 480
#define REDACTED_MAX 200
#define KEYWORDS_MAX 128

#define FORM                                                                                       \
    "must be a libpq connection string: keyword=value pairs such as host=/run/postgresql "         \
    "dbname=app user=clairon, a value with blanks in '..', or postgresql://user@host/app"

static const char MISSING[] = "missing \"=\"";
static const char *const UNKNOWN[] = {"invalid connection option", "invalid URI query parameter"};

/* Returns the libpq keyword closest to `word`, or NULL if none is similar. */
static const char *
nearest_keyword(const char *word)
{
    PQconninfoOption *options = PQconndefaults();
    const char *names[KEYWORDS_MAX] = {NULL}, *nearest;
    static char keyword[64];
    size_t count = 0;

    for (PQconninfoOption *one = options; one != NULL && one->keyword != NULL; one++)
        if (count < KEYWORDS_MAX)
            names[count++] = one->keyword;
    nearest = suggest_word(word, names, count);
    if (nearest != NULL)
        (void)snprintf(keyword, sizeof keyword, "%s", nearest);
    PQconninfoFree(options);
    return nearest != NULL ? keyword : NULL;
}

static const char *
suggestion(const char *message, const char *quoted, size_t len)
{
    char word[SUGGEST_WORD_MAX + 1];

    for (size_t i = 0; i < sizeof UNKNOWN / sizeof UNKNOWN[0]; i++) {
        if (strncmp(message, UNKNOWN[i], strlen(UNKNOWN[i])) != 0 || len >= sizeof word)
            continue;
        memcpy(word, quoted, len);
        word[len] = '\0';
        return nearest_keyword(word);
    }
    return NULL;
}

/* Redacts from the first to the last quote: the part that libpq quotes may contain quotes. */
static void
redact_quoted(const char *message, char redacted[REDACTED_MAX])
{
    size_t start = strncmp(message, MISSING, strlen(MISSING)) == 0 ? strlen(MISSING) : 0;
    size_t len = strcspn(message, "\n");
    const char *first = strchr(message + start, '"'), *last = strrchr(message + start, '"');
    const char *keyword;

    if (first == NULL || last == first) {
        (void)snprintf(redacted, REDACTED_MAX, "%.*s", (int)len, message);
        return;
    }
    keyword = suggestion(message, first + 1, (size_t)(last - first - 1));
    (void)snprintf(redacted, REDACTED_MAX, "%.*s\"..\"%.*s%s%s%s", (int)(first - message), message,
                   (int)strcspn(last + 1, "\n"), last + 1, keyword != NULL ? "; did you mean " : "",
                   keyword != NULL ? keyword : "", keyword != NULL ? "?" : "");
}

const char *
conninfo_error(const char *text)
{
    static char fault[FAULT_MAX];
    char *message = NULL, redacted[REDACTED_MAX];
    PQconninfoOption *options = PQconninfoParse(text, &message);

    if (options != NULL) {
        PQconninfoFree(options);
        return NULL;
    }
    redact_quoted(message != NULL ? message : "out of memory", redacted);
    if (message != NULL)
        explicit_bzero(message, strlen(message));
    PQfreemem(message);
    (void)snprintf(fault, sizeof fault, "%s (libpq: %s)", FORM, redacted);
    return fault;
}

char *
conninfo_passfile(const char *text)
{
    PQconninfoOption *options = PQconninfoParse(text, NULL);
    char *path = NULL;

    for (PQconninfoOption *one = options; one != NULL && one->keyword != NULL; one++)
        if (strcmp(one->keyword, "passfile") == 0 && one->val != NULL)
            path = memory_text(one->val, strlen(one->val));
    PQconninfoFree(options);
    return path;
}
