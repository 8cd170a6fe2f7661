/* origin.c: whether a web page of another origin may use the relay. */
#include "gate/http/request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "gate/net/gate_shared.h"
#include "wire/http_head.h"

#define ORIGIN_MAX 512
#define HOST_MAX 512

#define HOST_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define V6_LETTERS "0123456789abcdefABCDEF:."
#define PORT_DIGITS 5

/*
 * Returns the length of `text` if it is a host, host:port, [v6] or [v6]:port, otherwise 0. Text
 * after a valid host makes it invalid.
 */
static size_t
host_len(const char *text)
{
    size_t len;
    size_t digits;

    if (text[0] == '[') {
        len = 1 + strspn(text + 1, V6_LETTERS);
        if (len == 1 || text[len] != ']')
            return 0;
        len++;
    } else {
        len = strspn(text, HOST_LETTERS);
    }
    if (text[len] == '\0')
        return len;
    digits = text[len] == ':' ? strspn(text + len + 1, "0123456789") : 0;
    return digits > 0 && digits <= PORT_DIGITS && text[len + 1 + digits] == '\0' ? len : 0;
}

/*
 * Returns the host and port of an origin. NULL: not a web server, such as "null", a file or a
 * browser extension.
 */
static const char *
name_of(const char *origin)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t len = strlen(schemes[i]);

        if (strncasecmp(origin, schemes[i], len) == 0)
            return origin + len;
    }
    return NULL;
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
    const char *name = name_of(origin);
    size_t len;

    if (origins != NULL)
        return origin_is_listed(origins, origin);
    if (name == NULL)
        return false;
    len = host_len(name);
    return len > 0 && len == host_len(host) && strncasecmp(name, host, len) == 0;
}

/* Rate-limited, because web pages retry. */
static void
log_rejected(struct gate *gate, const char *origins, const char *origin, const char *host)
{
    unsigned skipped = 0;

    if (!throttle_allows(&gate->origin_rejected, clock_monotonic_us(), &skipped))
        return;
    if (origins != NULL)
        log_warn("gate", "origin not allowed", LOG_BYTES("origin", origin, strnlen(origin, 256)),
                 LOG_BYTES("origins", origins, strnlen(origins, 1024)),
                 LOG_UINT("suppressed", skipped));
    else
        log_warn("gate", "origin not allowed", LOG_BYTES("origin", origin, strnlen(origin, 256)),
                 LOG_BYTES("host", host, strnlen(host, 256)), LOG_UINT("suppressed", skipped),
                 LOG_TEXT("hint", "only the same host is allowed; add others to gate.origins"));
}

bool
gate_origin_read(struct conn *conn, const char *origins, char **ret_origin)
{
    char *origin = NULL, *host = NULL;
    bool is_read = http_head_text(conn->head, "origin", ORIGIN_MAX, &origin) == RC_OK &&
                   http_head_host(conn->head, HOST_MAX, &host) == RC_OK;
    bool is_allowed =
        is_read && (origin == NULL || (host != NULL && gate_origin_allowed(origins, origin, host)));

    if (!is_allowed)
        log_rejected(conn->gate, origins, origin != NULL ? origin : "", host != NULL ? host : "");
    free(host);
    if (!is_allowed) {
        free(origin);
        origin = NULL;
    }
    *ret_origin = origin;
    return is_allowed;
}
