/* audience.h: which words name an audience, as clairon.watch has it. Pure. */
#ifndef CLAIRON_WIRE_AUDIENCE_H
#define CLAIRON_WIRE_AUDIENCE_H

#include <stdbool.h>

#define AUDIENCE_NAME_MAX 63 /* bytes */

/* 1 to AUDIENCE_NAME_MAX letters, digits and _, the first no digit. */
bool audience_is_word(const char *name);

/* USER or ALL, in whatever case: what they mean is not a member's to say. */
bool audience_is_reserved(const char *name);

#endif
