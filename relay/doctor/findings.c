/* findings.c: collects findings until they are printed. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "doctor/doctor_private.h"

static char *
copy_text(const char *text)
{
    return memory_text(text, strnlen(text, FINDING_TEXT_MAX - 1));
}

static bool
is_known(const struct findings *findings, const struct finding *wanted)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *row = &findings->rows[i];

        if (strcmp(row->area, wanted->area) == 0 && strcmp(row->check, wanted->check) == 0 &&
            strcmp(row->detail, wanted->detail) == 0 && row->ok == wanted->ok &&
            row->is_warning == wanted->is_warning)
            return true;
    }
    return false;
}

/* Copies the strings of `row`, which belong to the caller. */
static void
add_row(struct findings *findings, struct finding row)
{
    if (is_known(findings, &row))
        return;
    findings->errors += !row.ok;
    findings->warnings += row.is_warning;
    if (findings->count == FINDINGS_MAX)
        return;
    if ((findings->count & (findings->count - 1)) == 0)
        findings->rows =
            memory_grow(findings->rows,
                        sizeof(*findings->rows) * (findings->count == 0 ? 1 : findings->count * 2));
    row.area = copy_text(row.area);
    row.check = copy_text(row.check);
    row.detail = copy_text(row.detail);
    row.hint = copy_text(row.hint);
    findings->rows[findings->count++] = row;
}

static void
write_detail(char detail[FINDING_TEXT_MAX], const char *format, va_list args)
{
    if (vsnprintf(detail, FINDING_TEXT_MAX, format, args) < 0)
        detail[0] = '\0';
}

void
findings_add(struct findings *findings, const char *area, const char *check, bool ok,
             const char *hint, const char *format, ...)
{
    char detail[FINDING_TEXT_MAX];
    va_list args;

    va_start(args, format);
    write_detail(detail, format, args);
    va_end(args);
    add_row(findings, (struct finding){.area = (char *)area,
                                       .check = (char *)check,
                                       .ok = ok,
                                       .detail = detail,
                                       .hint = (char *)(ok || hint == NULL ? "" : hint)});
}

void
findings_warn(struct findings *findings, const char *area, const char *check, const char *hint,
              const char *format, ...)
{
    char detail[FINDING_TEXT_MAX];
    va_list args;

    va_start(args, format);
    write_detail(detail, format, args);
    va_end(args);
    add_row(findings, (struct finding){.area = (char *)area,
                                       .check = (char *)check,
                                       .ok = true,
                                       .is_warning = true,
                                       .detail = detail,
                                       .hint = (char *)hint});
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
