/* publication_draft.c: what reading and writing a notification share: its words, and refusals. */
#include <stdarg.h>
#include <stdio.h>

#include "wire/publication_private.h"

const char *const PUBLICATION_PRIORITIES[] = {"HIGH", "NORMAL", "LOW", NULL};
const char *const PUBLICATION_TYPES[] = {"REALTIME", "NOTIFICATION", "SYSTEM", NULL};
const char *const PUBLICATION_BACKOFFS[] = {"EXPONENTIAL", "LINEAR", "FIXED", NULL};

enum rc
publication_refuse(struct publication_draft *draft, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(draft->error, PUBLICATION_ERROR_MAX, format, args);
    va_end(args);
    return RC_BAD;
}
