/* config_check.h: validates the form of setting values. */
#ifndef CLAIRON_BASE_CONFIG_CONFIG_CHECK_H
#define CLAIRON_BASE_CONFIG_CONFIG_CHECK_H

/* hiredis has TLS since 1.0; the Makefile checks for it. */
#ifdef CLAIRON_STORE_TLS
#define CONFIG_URL_FORM "redis://[user:pass@]host:port[/db], rediss:// with TLS, or unix:///path"
#else
#define CONFIG_URL_FORM "redis://[user:pass@]host:port[/db] or unix:///path"
#endif

/* Each returns NULL if the value is valid, else "must be ..", valid until the next call. */
const char *config_check_slot(const char *value);
const char *config_check_prefix(const char *value);
const char *config_check_url(const char *value);
const char *config_check_listen(const char *value);
const char *config_check_conninfo(const char *value);
const char *config_check_networks(const char *value);
const char *config_check_origins(const char *value);

#endif
