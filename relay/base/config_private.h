/* config_private.h: the table of settings, their values, and the state of loading them. */
#ifndef CLAIRON_BASE_CONFIG_PRIVATE_H
#define CLAIRON_BASE_CONFIG_PRIVATE_H

#include <string.h>

#include "base/config.h"

/* config_table.c */

#define CONFIG_PATH_MAX 4095

enum config_type {
    CONFIG_TEXT,
    CONFIG_PATH,  /* a text; in the configuration file, relative to the folder of that file */
    CONFIG_PATHS, /* paths, comma-separated */
    CONFIG_BOOL,
    CONFIG_INT,
    CONFIG_DURATION, /* int64_t, milliseconds */
    CONFIG_SIZE,     /* int64_t, bytes */
    CONFIG_ROLES,    /* unsigned, CONFIG_ROLE_* */
    CONFIG_LEVEL,    /* enum log_level */
    CONFIG_FORMAT,   /* enum log_format */
};

/* The field is a string. */
static inline bool
config_is_text(enum config_type type)
{
    return type == CONFIG_TEXT || type == CONFIG_PATH || type == CONFIG_PATHS;
}

struct config_key {
    const char *section;
    const char *name;
    enum config_type type;
    bool secret;              /* the value is never printed */
    const char *default_text; /* NULL: unset */
    int64_t min, max;         /* of a number, in the field's unit; of a string's length */
    /* returns NULL if the value is valid, otherwise "must be ..." */
    const char *(*check)(const char *value);
    size_t offset; /* offset in struct config */
    const char *help;
};

/* Sorted by section, then by name. */
extern const struct config_key config_keys[];
extern const size_t config_key_count;

/* Returns NULL if the key does not exist. */
const struct config_key *config_key_find(const char *section, const char *name);

/* config_value.c */

#define CONFIG_REASON_MAX 512

/* Each returns NULL if the value is valid, otherwise "must be ...", valid until the next call. */
const char *config_check_slot(const char *value);
const char *config_check_prefix(const char *value);
const char *config_check_url(const char *value);
const char *config_check_listen(const char *value);
const char *config_check_conninfo(const char *value);
const char *config_check_networks(const char *value);
const char *config_check_origins(const char *value);
const char *config_check_webhook_url(const char *value);
const char *config_check_outcomes(const char *value);
const char *config_check_proxy(const char *value);
const char *config_check_push_origins(const char *value);
const char *config_check_subject(const char *value);
const char *config_check_app_url(const char *value);
const char *config_check_jwks_url(const char *value);
const char *config_check_groups_claim(const char *value);
const char *config_check_required(const char *value);

/*
 * Sets the field. An empty string unsets a key that has no default. RC_BAD: `reason` describes
 * valid values; it does not quote the invalid value, which may be a secret.
 */
MUST_CHECK enum rc config_value_set(struct config *config, const struct config_key *key,
                                    const char *text, char reason[CONFIG_REASON_MAX]);

/* Describes a valid value: "a duration from 1s to 1h in ms, s, m, h or d". */
void config_value_describe(const struct config_key *key, char *text, size_t room);

/* config_table.c: errors */

struct config_load {
    struct config *config;
    char *error; /* CONFIG_ERROR_MAX bytes; one line per error */
    bool has_failed;
    bool is_invalid[CONFIG_KEYS_MAX]; /* the setting has an invalid value */
};

/* Adds a line to load->error and returns RC_BAD. */
MUST_CHECK enum rc config_fail(struct config_load *load, const char *format, ...) PRINTF_LIKE(2, 3);
/* The same for a required setting. `what`: "[section] name: reason". */
MUST_CHECK enum rc config_fail_missing(struct config_load *load, const char *what);
/* The same for the file that a setting names. */
MUST_CHECK enum rc config_fail_unreadable(struct config_load *load, const char *section,
                                          const char *name, const char *path, const char *reason);
/* Adds a line if the file cannot be opened. `path` NULL: RC_OK. */
MUST_CHECK enum rc config_check_readable(struct config_load *load, const char *section,
                                         const char *name, const char *path);
/* True if the setting had an invalid value, which was reported. */
bool config_is_invalid(const struct config_load *load, const char *section, const char *name);

#define CONFIG_FOLDER_MAX 512

/* ` in folder "/..."` for a relative path, "" for an absolute one. */
const char *config_folder(const char *path, char text[CONFIG_FOLDER_MAX]);

/* CLAIRON_SECTION_NAME */
void config_variable_name(const char *section, const char *name, char *variable, size_t room);

/* Writes "did you mean ...; [section] has ..." for an unknown key. */
void config_key_suggest(const char *section, const char *name, char *text, size_t room);

/*
 * config_secrets.c: check the settings that name keys and secrets, and read their files into
 * auth.key, webpush.keys and store.sentinel_password.
 */
MUST_CHECK enum rc config_check_auth(struct config_load *load);
MUST_CHECK enum rc config_check_webpush(struct config_load *load);
MUST_CHECK enum rc config_load_sentinel_password(struct config_load *load, const char *path);

/*
 * Reads a regular file of at most `max` bytes. Returns NULL, and the caller wipes and frees the
 * bytes; otherwise the reason for the failure.
 */
const char *config_file_read(const char *path, size_t max, char **ret_bytes, size_t *ret_len);

/*
 * config_issuers.c: the sections [issuer NAME] of the file, whose settings are read into
 * config->issuer, and moved to config->issuers at the end of the section.
 */
static inline bool
config_is_issuer_key(const struct config_key *key)
{
    return strcmp(key->section, "issuer") == 0;
}

MUST_CHECK enum rc config_issuer_begin(struct config_load *load, const char *where,
                                       const char *name, unsigned line);
void config_issuer_end(struct config_load *load);
/* Checks the settings of JWK Sets, and reads their files. */
MUST_CHECK enum rc config_check_issuers(struct config_load *load);
void config_jwks_free(struct config_jwks *jwks);
void config_issuers_free(struct config *config);

/* config_rules.c: checks the dependencies between settings. */
MUST_CHECK enum rc config_rules(struct config_load *load);

#endif
