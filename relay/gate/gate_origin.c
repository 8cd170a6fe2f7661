/* gate_origin.c: which web pages may speak to this relay. */
#include "gate/gate_conn.h"

#include <string.h>
#include <strings.h>

/* The host's name without scheme, port and path; an IPv6 address keeps its brackets. */
static size_t
host_len(const char *host)
{
    const char *bracket = host[0] == '[' ? strchr(host, ']') : NULL;

    return bracket != NULL ? (size_t)(bracket - host) + 1 : strcspn(host, ":/");
}

static bool
origin_is_same_host(const char *origin, const char *host)
{
    const char *name = strstr(origin, "://");
    size_t len;

    if (name == NULL) /* "null", or no origin at all */
        return false;
    name += 3;
    len = host_len(name);
    return len > 0 && len == host_len(host) && strncasecmp(name, host, len) == 0;
}

static bool
origin_is_listed(const char *origins, const char *origin)
{
    size_t origin_len = strlen(origin);

    while (*origins != '\0') {
        size_t len;

        origins += strspn(origins, ", \t");
        len = strcspn(origins, ", \t");
        if ((len == 1 && origins[0] == '*') ||
            (len == origin_len && len > 0 && strncasecmp(origins, origin, len) == 0))
            return true;
        origins += len;
    }
    return false;
}

bool
gate_origin_allowed(const char *origins, const char *origin, const char *host)
{
    if (origins != NULL)
        return origin_is_listed(origins, origin);
    return origin_is_same_host(origin, host);
}
