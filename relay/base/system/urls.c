/* urls.c: parses a comma-separated list of URLs. */
#include "base/urls.h"

#include <stddef.h>
#include <string.h>

#include "base/memory.h"

static const char *const schemes[] = {"redis://", "rediss://", "unix://"};

/* The comma after a URL; NULL: it is the last. */
static const char *
end_of(const char *url)
{
    for (const char *at = strchr(url, ','); at != NULL; at = strchr(at + 1, ',')) {
        for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
            if (strncmp(at + 1, schemes[i], strlen(schemes[i])) == 0)
                return at;
        }
    }
    return NULL;
}

unsigned
urls_count(const char *urls)
{
    unsigned count = 1;

    for (const char *end = end_of(urls); end != NULL; end = end_of(end + 1))
        count++;
    return count;
}

char *
urls_at(const char *urls, unsigned number)
{
    const char *end = end_of(urls);

    while (number-- > 0 && end != NULL) {
        urls = end + 1;
        end = end_of(urls);
    }
    return memory_text(urls, end != NULL ? (size_t)(end - urls) : strlen(urls));
}
