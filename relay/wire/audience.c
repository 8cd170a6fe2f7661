/* audience.c: which words name an audience. */
#include "wire/audience.h"

#include <string.h>
#include <strings.h>

#define WORD_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

bool
audience_is_word(const char *name)
{
    size_t len = strspn(name, WORD_BYTES);

    return name[len] == '\0' && len > 0 && len <= AUDIENCE_NAME_MAX &&
           !(name[0] >= '0' && name[0] <= '9');
}

bool
audience_is_reserved(const char *name)
{
    return strcasecmp(name, "USER") == 0 || strcasecmp(name, "ALL") == 0;
}
