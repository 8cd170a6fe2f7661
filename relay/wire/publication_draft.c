/* publication_draft.c: errors of parsing and encoding a publication. */
#include <stdarg.h>
#include <stdio.h>

#include "wire/publication_private.h"

enum rc
publication_reject(struct publication_draft *draft, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(draft->error, PUBLICATION_ERROR_MAX, format, args);
    va_end(args);
    return RC_BAD;
}
