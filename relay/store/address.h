/* address.h: takes a store's URL apart. */
#ifndef CLAIRON_STORE_ADDRESS_H
#define CLAIRON_STORE_ADDRESS_H

#include <stdbool.h>

#include "base/rc.h"

#define ADDRESS_TEXT_MAX 512
#define ADDRESS_SHOWN_MAX (ADDRESS_TEXT_MAX + 16)

struct address {
    char path[ADDRESS_TEXT_MAX]; /* unix socket; "" for TCP */
    char host[ADDRESS_TEXT_MAX];
    int port;
    char user[ADDRESS_TEXT_MAX];
    char password[ADDRESS_TEXT_MAX]; /* percent-decoded; "" for none */
    int database;
    bool tls; /* rediss:// */
};

/* redis(s)://[user:pass@]host[:port][/db] or unix:///path. RC_BAD for anything else. */
MUST_CHECK enum rc address_read(const char *url, struct address *ret_address);

/* Where it is, as a person reads it: without user and password. */
void address_show(const struct address *address, char ret_text[ADDRESS_SHOWN_MAX]);

#endif
