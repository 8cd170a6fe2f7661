/* url.h: parses the URL of a store. */
#ifndef CLAIRON_STORE_URL_H
#define CLAIRON_STORE_URL_H

#include <stdbool.h>

#include "base/rc.h"

#define URL_TEXT_MAX 512
#define URL_FORMAT_MAX (URL_TEXT_MAX + 16)

struct url {
    char path[URL_TEXT_MAX]; /* Unix socket; "" for TCP */
    char host[URL_TEXT_MAX];
    int port;
    char user[URL_TEXT_MAX];
    char password[URL_TEXT_MAX]; /* percent-decoded; "": no password */
    int database;
    bool tls; /* rediss:// */
};

/*
 * Parses redis(s)://[user:pass@]host[:port][/db] or unix:///path. Returns RC_BAD for any other
 * string.
 */
MUST_CHECK enum rc url_read(const char *url, struct url *ret_address);

/* Formats the address for the log, without user and password. */
void url_format(const struct url *address, char ret_text[URL_FORMAT_MAX]);

#endif
