/* findings.h: the doctor's findings: one row per check, with a hint for errors and warnings. */
#ifndef CLAIRON_DOCTOR_FINDINGS_H
#define CLAIRON_DOCTOR_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"

#define FINDINGS_MAX 4096
#define FINDING_TEXT_MAX 2048

struct finding {
    char *area; /* settings, host, gate, postgresql, primary, store */
    char *check;
    bool ok;
    bool is_warning; /* `ok` is true, but there is a hint */
    char *detail;    /* never a secret */
    char *hint;      /* "" if no action is needed; no full stop, since it may end in a command */
};

/* A zeroed struct is empty. */
struct findings {
    struct finding *rows;
    size_t count;
    size_t errors; /* failed checks, including findings beyond FINDINGS_MAX */
    size_t warnings;
};

/*
 * `hint` is used only for failed checks, and may be NULL. Strings are copied and truncated. Exact
 * duplicates are dropped.
 */
void findings_add(struct findings *findings, const char *area, const char *check, bool ok,
                  const char *hint, const char *format, ...) PRINTF_LIKE(6, 7);
/* Adds a warning: a passed check with a hint. */
void findings_warn(struct findings *findings, const char *area, const char *check, const char *hint,
                   const char *format, ...) PRINTF_LIKE(5, 6);
void findings_free(struct findings *findings); /* leaves it empty */

#endif
