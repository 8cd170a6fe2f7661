/* findings.h: the findings of the doctor: one row per check, each with its fix. */
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
    bool is_warning; /* ok so far, with a hint */
    char *detail;    /* never a secret */
    char *hint;      /* "" where nothing is to be done */
};

/* Zeroed: empty. */
struct findings {
    struct finding *rows;
    size_t count;
    size_t wrong; /* how many of them are not ok, also of those beyond FINDINGS_MAX */
    size_t warnings;
};

/*
 * `hint` counts only when not ok; may be NULL. Texts are copied, longer ones are cut. A finding
 * that is there already, word by word, is not added again.
 */
void findings_add(struct findings *findings, const char *area, const char *check, bool ok,
                  const char *hint, const char *format, ...) PRINTF_LIKE(6, 7);
/* A finding that is ok, with a hint all the same. */
void findings_warn(struct findings *findings, const char *area, const char *check, const char *hint,
                   const char *format, ...) PRINTF_LIKE(5, 6);
void findings_free(struct findings *findings); /* also resets to empty */

#endif
