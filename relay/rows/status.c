/* status.c: maps server errors to statuses, and statuses to protocol errors. */
#include "rows/status.h"

#include <stdio.h>
#include <string.h>

static const struct rows_error ERRORS[] = {
    [ROWS_DENIED] = {GATE_ERR_PERMISSION, 403, "no such live rule for this user", false,
                     STAT_ROWS_DENIED},
    [ROWS_TOO_MANY] = {GATE_ERR_TOO_MANY_ROWS, 413, "too many rows", false, STAT_ROWS_TOO_MANY},
    [ROWS_BUSY] = {GATE_ERR_RATE, 503, "too many requests for rows", true, STAT_ROWS_BUSY},
    [ROWS_USER_LIMIT] = {GATE_ERR_RATE, 429, "too many requests for rows by this user", true,
                         STAT_ROWS_BUSY},
    [ROWS_TIMED_OUT] = {GATE_ERR_RATE, 503, "query exceeded rows.timeout", true,
                        STAT_ROWS_TIMED_OUT},
    [ROWS_LOST] = {GATE_ERR_RATE, 503, "database does not reply", true, STAT_ROWS_LOST},
    [ROWS_STALE] = {GATE_ERR_RATE, 503, "a delivered change is not visible yet", true,
                    STAT_ROWS_STALE},
    [ROWS_LOCKED] = {GATE_ERR_RATE, 503, "table is locked", true, STAT_ROWS_TIMED_OUT},
    [ROWS_FAILED] = {GATE_ERR_INTERNAL, 500, "could not read rows", false, STAT_ROWS_FAILED},
    [ROWS_OFF] = {GATE_ERR_INTERNAL, 500, "live rows need [rows] conninfo", false,
                  STAT_ROWS_FAILED},
};

const struct rows_error *
rows_error_of(enum rows_status status)
{
    return &ERRORS[status];
}

const char *
rows_error_text(enum rows_status status, const char *source, const char *rule,
                char buffer[ROWS_ERROR_TEXT_MAX])
{
    const char *text = ERRORS[status].text;

    if (status == ROWS_DENIED)
        snprintf(buffer, ROWS_ERROR_TEXT_MAX, "%s: rule \"%s\" of \"%s\"", text, rule, source);
    else
        snprintf(buffer, ROWS_ERROR_TEXT_MAX, "%s", text);
    return buffer;
}

/* A complete SQLSTATE, or its class. */
static const struct {
    const char *sqlstate;
    enum rows_status status;
} STATUSES[] = {
    {"22021", ROWS_DENIED},    /* character_not_in_repertoire, in a name */
    {"22P05", ROWS_DENIED},    /* untranslatable_character, in a name */
    {"54000", ROWS_TOO_MANY},  /* program_limit_exceeded */
    {"57014", ROWS_TIMED_OUT}, /* query_canceled */
    {"57", ROWS_LOST},         /* operator intervention: shutdown, restart */
    {"08", ROWS_LOST},         /* connection exception */
    {"40", ROWS_LOST},         /* recovery conflict on a standby */
    {"53", ROWS_BUSY},         /* insufficient resources */
    {"55P03", ROWS_LOCKED},    /* lock_not_available */
};

enum rows_status
rows_status_of(const char *sqlstate)
{
    if (sqlstate == NULL)
        return ROWS_LOST; /* an error of libpq itself */
    for (size_t i = 0; i < sizeof(STATUSES) / sizeof(STATUSES[0]); i++) {
        if (strncmp(sqlstate, STATUSES[i].sqlstate, strlen(STATUSES[i].sqlstate)) == 0)
            return STATUSES[i].status;
    }
    return ROWS_FAILED;
}
