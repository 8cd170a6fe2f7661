/* findings.c: keeps what the doctor found until it is printed. */
#include "base/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static char *
copy(const char *text)
{
    return memory_text(text, strnlen(text, FINDING_TEXT_MAX - 1));
}

void
findings_add(struct findings *findings, const char *area, const char *check, bool ok,
             const char *hint, const char *format, ...)
{
    char detail[FINDING_TEXT_MAX];
    struct finding *row;
    va_list args;

    if (!ok)
        findings->wrong++;
    if (findings->count == FINDINGS_MAX)
        return;
    va_start(args, format);
    if (vsnprintf(detail, sizeof(detail), format, args) < 0)
        detail[0] = '\0';
    va_end(args);
    if ((findings->count & (findings->count - 1)) == 0)
        findings->rows =
            memory_grow(findings->rows,
                        sizeof(*findings->rows) * (findings->count == 0 ? 1 : findings->count * 2));
    row = &findings->rows[findings->count++];
    row->area = copy(area);
    row->check = copy(check);
    row->ok = ok;
    row->detail = copy(detail);
    row->hint = copy(ok || hint == NULL ? "" : hint);
}

void
findings_free(struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        free(findings->rows[i].area);
        free(findings->rows[i].check);
        free(findings->rows[i].detail);
        free(findings->rows[i].hint);
    }
    free(findings->rows);
    *findings = (struct findings){0};
}
