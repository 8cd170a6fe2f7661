/* config_check.h: validates the form of setting values. */
#ifndef CLAIRON_BASE_CONFIG_CHECK_H
#define CLAIRON_BASE_CONFIG_CHECK_H

#include "base/urls.h"

/* hiredis has TLS since 1.0; the Makefile checks for it. */
#ifdef CLAIRON_STORE_TLS
#define CONFIG_URL_TLS ", rediss with TLS"
#else
#define CONFIG_URL_TLS ""
#endif
#define CONFIG_URL_FORM                                                                            \
    "redis://[user:pass@]host:port[/db], unix:///path, " URLS_SENTINEL_FORM                        \
    " or " URLS_CLUSTER_FORM CONFIG_URL_TLS

/* Each returns NULL if the value is valid, otherwise "must be ...", valid until the next call. */
const char *config_check_slot(const char *value);
const char *config_check_prefix(const char *value);
const char *config_check_url(const char *value);
const char *config_check_listen(const char *value);
const char *config_check_conninfo(const char *value);
const char *config_check_networks(const char *value);
const char *config_check_origins(const char *value);

#endif
