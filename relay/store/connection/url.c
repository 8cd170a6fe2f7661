/* url.c: parses the URL of a store. */
#include "store/connection/url.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT 6379
#define DATABASE_MAX 1000000

static int
hex_value(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c | 0x20) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

/* Copies [at, end) and decodes %xx. */
static enum rc
copy_decoded(char out[URL_TEXT_MAX], const char *at, const char *end)
{
    size_t len = 0;

    while (at < end) {
        char c = *at++;
        if (c == '%') {
            if (end - at < 2 || hex_value(at[0]) < 0 || hex_value(at[1]) < 0)
                return RC_BAD;
            c = (char)(hex_value(at[0]) << 4 | hex_value(at[1]));
            at += 2;
        }
        if (len + 1 >= URL_TEXT_MAX || c == '\0')
            return RC_BAD;
        out[len++] = c;
    }
    out[len] = '\0';
    return RC_OK;
}

static enum rc
read_number(const char *at, const char *end, long max, int *ret_number)
{
    char *stop;
    long number;

    errno = 0;
    number = strtol(at, &stop, 10);
    if (at == end || stop != end || errno != 0 || number < 0 || number > max)
        return RC_BAD;
    *ret_number = (int)number;
    return RC_OK;
}

static enum rc
read_credentials(const char *at, const char *end, struct url *address)
{
    const char *colon = memchr(at, ':', (size_t)(end - at));

    if (colon == NULL)
        return copy_decoded(address->user, at, end);
    if (copy_decoded(address->user, at, colon) != RC_OK)
        return RC_BAD;
    return copy_decoded(address->password, colon + 1, end);
}

static enum rc
read_host(const char *at, const char *end, struct url *address)
{
    const char *host_end = end;
    const char *port = NULL;

    if (at < end && *at == '[') {
        host_end = memchr(at, ']', (size_t)(end - at));
        if (host_end == NULL)
            return RC_BAD;
        at++;
        if (host_end + 1 < end) {
            if (host_end[1] != ':')
                return RC_BAD;
            port = host_end + 2;
        }
    } else {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        if (colon != NULL) {
            host_end = colon;
            port = colon + 1;
        }
    }
    if (host_end == at || copy_decoded(address->host, at, host_end) != RC_OK)
        return RC_BAD;
    if (port == NULL)
        return RC_OK;
    return read_number(port, end, 65535, &address->port);
}

static enum rc
read_tcp(const char *at, struct url *address)
{
    const char *slash = strchr(at, '/');
    const char *end = slash != NULL ? slash : at + strlen(at);
    const char *sign = memrchr(at, '@', (size_t)(end - at));

    if (slash != NULL && slash[1] != '\0' &&
        read_number(slash + 1, slash + strlen(slash), DATABASE_MAX, &address->database) != RC_OK)
        return RC_BAD;
    if (sign != NULL) {
        if (read_credentials(at, sign, address) != RC_OK)
            return RC_BAD;
        at = sign + 1;
    }
    return read_host(at, end, address);
}

enum rc
url_read(const char *url, struct url *ret_address)
{
    struct url address = {.port = DEFAULT_PORT};

    if (strncmp(url, "unix://", 7) == 0) {
        if (url[7] != '/' || strlen(url + 7) >= sizeof(address.path))
            return RC_BAD;
        memcpy(address.path, url + 7, strlen(url + 7) + 1);
    } else if (strncmp(url, "rediss://", 9) == 0) {
        address.tls = true;
        if (read_tcp(url + 9, &address) != RC_OK)
            return RC_BAD;
    } else if (strncmp(url, "redis://", 8) != 0 || read_tcp(url + 8, &address) != RC_OK) {
        return RC_BAD;
    }
    *ret_address = address;
    return RC_OK;
}

void
url_format(const struct url *address, char ret_text[URL_FORMAT_MAX])
{
    if (address->path[0] != '\0')
        snprintf(ret_text, URL_FORMAT_MAX, "%s", address->path);
    else
        snprintf(ret_text, URL_FORMAT_MAX, "%s:%d", address->host, address->port);
}
