/* findings.h: what the doctor found: one row a check, each with what mends it. */
#ifndef CLAIRON_BASE_FINDINGS_H
#define CLAIRON_BASE_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"

#define FINDINGS_MAX 4096
#define FINDING_TEXT_MAX 2048

struct finding {
    char *area; /* "settings", "host", "postgresql", "primary", "store" */
    char *check;
    bool ok;
    char *detail; /* never a secret */
    char *hint;   /* "" where nothing is to be mended */
};

/* Zeroed: empty. */
struct findings {
    struct finding *rows;
    size_t count;
    size_t wrong; /* how many of them are not ok, also of those beyond FINDINGS_MAX */
};

/* `hint` counts only when not ok; may be NULL. Texts are copied, longer ones are cut. */
void findings_add(struct findings *findings, const char *area, const char *check, bool ok,
                  const char *hint, const char *format, ...) PRINTF_LIKE(6, 7);
void findings_free(struct findings *findings); /* also resets to empty */

#endif
