/* config_key.h: the table of settings shared by file, environment and help. */
#ifndef CLAIRON_BASE_CONFIG_KEY_H
#define CLAIRON_BASE_CONFIG_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_type {
    CONFIG_TEXT,
    CONFIG_BOOL,
    CONFIG_INT,
    CONFIG_DURATION, /* int64_t, milliseconds */
    CONFIG_SIZE,     /* int64_t, bytes */
    CONFIG_ROLES,    /* unsigned, CONFIG_ROLE_* */
    CONFIG_LEVEL,    /* enum log_level */
    CONFIG_FORMAT,   /* enum log_format */
};

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

/* Writes "did you mean ...; [section] has ..." for an unknown key. */
void config_key_suggest(const char *section, const char *name, char *text, size_t room);

#endif
