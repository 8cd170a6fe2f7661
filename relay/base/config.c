/* config.c: loads the settings: default, then file, then environment, then argument. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config_private.h"
#include "base/log.h"
#include "base/memory.h"

#define CONFIG_FILE_MAX (1024 * 1024) /* maximum bytes */
#define NAME_PRINTED_MAX 60

/* Sets the key from `origin`. An error message contains `text` only if the key is not secret. */
static enum rc
load_value(struct config_load *load, const struct config_key *key, struct config_origin origin,
           const char *text)
{
    char where[CONFIG_WHERE_MAX], reason[CONFIG_REASON_MAX];

    load->config->origins[key - config_keys] = origin;
    load->is_invalid[key - config_keys] = false;
    if (config_value_set(load->config, key, text, reason) == RC_OK)
        return RC_OK;
    load->is_invalid[key - config_keys] = true;
    config_where(load->config, key->section, key->name, where);
    if (key->secret)
        return config_fail(load, "%s %s", where, reason);
    return config_fail(load, "%s %s, not \"%.*s\"", where, reason, NAME_PRINTED_MAX, text);
}

static enum rc
load_defaults(struct config_load *load)
{
    static const struct config_origin origin = {.from = ORIGIN_DEFAULT};

    for (size_t i = 0; i < config_key_count; i++)
        if (config_keys[i].default_text != NULL &&
            load_value(load, &config_keys[i], origin, config_keys[i].default_text) != RC_OK)
            return RC_BAD;
    return RC_OK;
}

/* Only letters, digits, _ and -: any other character may be part of a secret. */
static bool
is_name(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

    return len > 0 && len <= NAME_PRINTED_MAX && text[len] == '\0';
}

static enum rc
fail_unknown(struct config_load *load, const char *where, const char *section, const char *name)
{
    char suggestion[512];

    if (!is_name(section) || !is_name(name))
        return config_fail(load, "%s: a name may contain only letters, digits and _", where);
    config_key_suggest(section, name, suggestion, sizeof suggestion);
    return config_fail(load, "%s: [%s] %s is not a setting; %s", where, section, name, suggestion);
}

/*
 * The file is INI: a line is a [section], a name = value, a comment or empty. It is read to the end
 * despite errors, so that one run reports all of them.
 *
 * Why not inih: upstream and Debian truncate lines at 200 bytes and names at 50 unless compiled
 * otherwise, report no line number to the caller, and accept "a: b" and indented lines. A
 * truncated setting must be an error.
 */
struct file_reading {
    struct config_load *load; /* takes the errors */
    unsigned line;
    char where[CONFIG_WHERE_MAX]; /* file and line, for errors */
    const char *section;          /* NULL: no section yet */
    bool is_unknown;              /* the section is unknown, which has been reported */
    bool is_skipping;             /* settings below an invalid section line are skipped */
};

static char *
trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;

    size_t len = strlen(text);

    while (len > 0 && isspace((unsigned char)text[len - 1]))
        len--;
    text[len] = '\0';
    return text;
}

static bool
section_exists(const char *section)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0)
            return true;
    return false;
}

static enum rc
load_section(struct file_reading *reading, char *line)
{
    size_t len = strlen(line);
    char suggestion[512];

    reading->is_skipping = len < 2 || line[len - 1] != ']';
    if (reading->is_skipping)
        return config_fail(reading->load, "%s: a section must be [name] on a separate line",
                           reading->where);
    line[len - 1] = '\0';
    config_issuer_end(reading->load);
    reading->section = trim(line + 1);
    len = strcspn(reading->section, " \t");
    if (len == strlen("issuer") && strncmp(reading->section, "issuer", len) == 0) {
        char *name = trim(line + 1);

        reading->is_unknown = false;
        reading->section = "issuer";
        reading->is_skipping = config_issuer_begin(reading->load, reading->where, trim(name + len),
                                                   reading->line) != RC_OK;
        return reading->is_skipping ? RC_BAD : RC_OK;
    }
    reading->is_unknown = !section_exists(reading->section);
    if (!reading->is_unknown)
        return RC_OK;
    if (!is_name(reading->section))
        return config_fail(reading->load, "%s: a name may contain only letters, digits and _",
                           reading->where);
    config_key_suggest(reading->section, "", suggestion, sizeof suggestion);
    return config_fail(reading->load, "%s: [%s] is not a section; %s", reading->where,
                       reading->section, suggestion);
}

/*
 * Adds the folder of the configuration file to a relative path. Of several paths, each is relative
 * to it.
 */
static enum rc
load_path(struct file_reading *reading, const struct config_key *key, struct config_origin origin,
          const char *value)
{
    const char *file = reading->load->config->path, *end = strrchr(file, '/');
    size_t len = end != NULL ? (size_t)(end + 1 - file) : 0, room = strlen(value) + 1;
    const char *separator = key->type == CONFIG_PATHS ? "," : "";
    char *paths, *at;
    enum rc rc;

    for (const char *each = value; *each != '\0'; each++)
        room += *each == ',' ? len : 0;
    paths = at = memory_new(room + len);
    do {
        size_t value_len;

        value += strspn(value, " \t");
        value_len = strcspn(value, separator);
        if (value_len > 0 && value[0] != '/')
            at = mempcpy(at, file, len);
        at = mempcpy(at, value, value_len);
        value += value_len;
        if (*value == ',')
            *at++ = *value;
    } while (*value++ != '\0');
    *at = '\0';
    rc = load_value(reading->load, key, origin, paths);
    free(paths);
    return rc;
}

static enum rc
load_setting(struct file_reading *reading, const char *name, const char *value)
{
    const struct config_key *key = config_key_find(reading->section, name);
    struct config_origin origin = {.from = ORIGIN_FILE, .line = reading->line};
    unsigned before;

    if (key == NULL && reading->is_unknown)
        return RC_OK;
    if (key == NULL)
        return fail_unknown(reading->load, reading->where, reading->section, name);
    before = reading->load->config->origins[key - config_keys].line;
    if (before != 0)
        return config_fail(reading->load, "%s: [%s] %s is already set on line %u: keep one",
                           reading->where, reading->section, name, before);
    if (key->type == CONFIG_PATH || key->type == CONFIG_PATHS)
        return load_path(reading, key, origin, value);
    return load_value(reading->load, key, origin, value);
}

/* Trims `line` in place. */
static enum rc
load_line(struct file_reading *reading, char *line, size_t len)
{
    char *equals;

    if (strlen(line) != len)
        return config_fail(reading->load, "%s: a line must not contain a NUL byte", reading->where);
    line = trim(line);
    if (*line == '\0' || *line == '#' || *line == ';')
        return RC_OK;
    if (*line == '[')
        return load_section(reading, line);
    if (reading->is_skipping)
        return RC_OK;
    equals = strchr(line, '=');
    if (equals == NULL)
        return config_fail(reading->load,
                           "%s: a line must be [section], name = value, or a comment after # or ;",
                           reading->where);
    if (reading->section == NULL) {
        reading->is_skipping = true;
        return config_fail(reading->load, "%s: a setting must follow a [section]", reading->where);
    }
    *equals = '\0';
    return load_setting(reading, trim(line), trim(equals + 1));
}

static void
load_lines(struct config_load *load, char *text, size_t len)
{
    struct file_reading reading = {.load = load, .line = 1};
    char *end = text + len;

    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    for (char *next; text < end; text = next, reading.line++) {
        char *stop = memchr(text, '\n', (size_t)(end - text));

        if (stop == NULL)
            stop = end;
        *stop = '\0';
        next = stop + 1;
        (void)snprintf(reading.where, sizeof reading.where, "%.384s:%u", load->config->path,
                       reading.line);
        (void)load_line(&reading, text, (size_t)(stop - text)); /* the error is in `load` */
    }
    config_issuer_end(load);
}

/* Returns NULL, or the reason why the file could not be read. */
static const char *
read_file(const char *path, char **ret_text, size_t *ret_len)
{
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return strerror(errno);

    char *text = memory_new(CONFIG_FILE_MAX + 2);
    size_t len = fread(text, 1, CONFIG_FILE_MAX + 1, file);
    const char *reason = ferror(file) ? strerror(errno) : NULL;

    (void)fclose(file);
    if (reason == NULL && len > CONFIG_FILE_MAX)
        reason = "file is larger than 1 MB";
    if (reason != NULL) {
        free(text);
        return reason;
    }
    *ret_text = text;
    *ret_len = len;
    return NULL;
}

static enum rc
load_file(struct config_load *load)
{
    char folder[CONFIG_FOLDER_MAX], *text = NULL;
    const char *path = load->config->path, *reason;
    size_t len = 0;

    if (path == NULL)
        return RC_OK;
    reason = read_file(path, &text, &len);
    if (reason != NULL)
        return config_fail(load, "could not read \"%.384s\"%s: %s", path,
                           config_folder(path, folder), reason);
    load_lines(load, text, len);
    explicit_bzero(text, len);
    free(text);
    return RC_OK;
}

/* The variable may belong to another program, so it causes a warning and not an error. */
static void
warn_variable(const char *variable)
{
    size_t len = strcspn(variable, "=");

    for (size_t i = 0; i < config_key_count; i++) {
        char name[128];

        if (config_is_issuer_key(&config_keys[i]))
            continue;
        config_variable_name(config_keys[i].section, config_keys[i].name, name, sizeof name);
        if (strlen(name) == len && strncmp(name, variable, len) == 0)
            return;
    }
    for (size_t i = 0; i < config_key_count; i++) {
        char start[64];

        config_variable_name(config_keys[i].section, "", start, sizeof start);
        if (strncmp(variable, start, strlen(start)) == 0) {
            log_warn("config", "environment variable is not a setting, ignored",
                     LOG_BYTES("variable", variable, len));
            return;
        }
    }
}

static void
load_environment(struct config_load *load)
{
    static const struct config_origin origin = {.from = ORIGIN_VARIABLE};

    for (size_t i = 0; i < config_key_count; i++) {
        char variable[128];

        config_variable_name(config_keys[i].section, config_keys[i].name, variable,
                             sizeof variable);

        const char *value = getenv(variable);

        if (value != NULL && !config_is_issuer_key(&config_keys[i]))
            (void)load_value(load, &config_keys[i], origin, value); /* the error is in `load` */
    }
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++)
        warn_variable(*variable);
}

/* `argument` is "--section.key=value", or malformed after "--section.". */
static enum rc
load_argument(struct config_load *load, const char *argument)
{
    static const struct config_origin origin = {.from = ORIGIN_ARGUMENT};
    char section[64], name[64], where[CONFIG_WHERE_MAX];
    const char *dot = strchr(argument, '.'), *equals = strchr(argument, '=');
    size_t name_len = equals != NULL ? (size_t)(equals - dot - 1) : strlen(dot + 1);

    (void)snprintf(section, sizeof section, "%.*s", (int)(dot - argument - 2), argument + 2);
    (void)snprintf(name, sizeof name, "%.*s", (int)name_len, dot + 1);

    const struct config_key *key = config_key_find(section, name);

    if (key == NULL && is_name(section) && is_name(name))
        (void)snprintf(where, sizeof where, "argument --%s.%s", section, name);
    else
        (void)snprintf(where, sizeof where, "argument");
    if (key == NULL)
        return fail_unknown(load, where, section, name);
    if (config_is_issuer_key(key))
        return config_fail(load,
                           "argument --%s.%s: [issuer NAME] must be in the configuration file",
                           section, name);
    if (equals == NULL)
        return config_fail(load, "argument --%s.%s requires a value: --%s.%s=...", section, name,
                           section, name);
    return load_value(load, key, origin, equals + 1);
}

static void
load_arguments(struct config_load *load, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (argv[i] == NULL || strncmp(argv[i], "--", 2) != 0)
            continue;

        size_t dot = strcspn(argv[i], ".=");

        if (argv[i][dot] != '.')
            continue;
        (void)load_argument(load, argv[i]); /* the error is in `load` */
        argv[i] = NULL;
    }
}

/*
 * A URL or connection string is a secret if it has a password: scheme://user:password@host,
 * scheme://host?password=... or password=...
 */
static bool
contains_secret(const struct config_key *key, const char *value)
{
    const char *scheme, *at;

    if (!key->secret || value == NULL)
        return false;
    scheme = strstr(value, "://");
    at = scheme != NULL ? strrchr(scheme, '@') : NULL;
    return strcmp(key->section, "auth") == 0 || strcasestr(value, "password") != NULL ||
           (at != NULL && memchr(scheme + 3, ':', (size_t)(at - scheme - 3)) != NULL);
}

/* Marks secrets in arguments and in the configuration file, for config_warn_exposed. */
static void
mark_secrets(const struct config_load *load)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        const char *value;

        if (!config_is_text(key->type))
            continue;
        value = *(char **)((char *)load->config + key->offset);
        if (!contains_secret(key, value))
            continue;
        if (load->config->origins[i].from == ORIGIN_ARGUMENT)
            load->config->secret_arguments[i] = true;
        else if (load->config->origins[i].from == ORIGIN_FILE)
            load->config->file_is_secret = true;
    }
}

static size_t
add_secret_file(struct config_secret_file *files, size_t count, const char *section,
                const char *name, const char *path)
{
    struct stat status;
    bool is_exposed = path != NULL && stat(path, &status) == 0 && (status.st_mode & S_IRWXO) != 0;

    if (path == NULL)
        return count;
    files[count] = (struct config_secret_file){name, section, path, is_exposed};
    return count + 1;
}

size_t
config_secret_files(const struct config *config,
                    struct config_secret_file files[CONFIG_SECRET_FILES_MAX])
{
    size_t count = 0;

    if (config->file_is_secret)
        count = add_secret_file(files, count, NULL, "the configuration file", config->path);
    count =
        add_secret_file(files, count, "auth", "hs256_secret_file", config->auth.hs256_secret_file);
    count = add_secret_file(files, count, "gate", "tls_key", config->gate.tls_key);
    count = add_secret_file(files, count, "store", "sentinel_password_file",
                            config->store.sentinel_password_file);
    count = add_secret_file(files, count, "webhook", "secret_file", config->webhook.secret_file);
    count = add_secret_file(files, count, "store", "tls_key", config->store.tls_key);
    for (size_t i = 0; i < CONFIG_VAPID_KEYS_MAX; i++)
        count = add_secret_file(files, count, "webpush", "vapid_key_file",
                                config->webpush.key_files[i]);
    return count;
}

static void
warn_files(const struct config *config)
{
    struct config_secret_file files[CONFIG_SECRET_FILES_MAX];
    size_t count = config_secret_files(config, files);

    for (size_t i = 0; i < count; i++) {
        const char *section = files[i].section;

        if (files[i].is_exposed)
            log_warn("config", "file with a secret is accessible to all users: run chmod o=",
                     LOG_TEXT("section", section),
                     LOG_TEXT("setting", section != NULL ? files[i].name : NULL),
                     LOG_TEXT("path", files[i].path));
    }
}

void
config_warn_exposed(const struct config *config)
{
    for (size_t i = 0; i < config_key_count; i++) {
        char variable[128];

        if (!config->secret_arguments[i])
            continue;
        config_variable_name(config_keys[i].section, config_keys[i].name, variable,
                             sizeof variable);
        log_warn(
            "config",
            "secret in an argument is visible to all users in ps: set it in the configuration file "
            "or the environment",
            LOG_TEXT("section", config_keys[i].section), LOG_TEXT("setting", config_keys[i].name),
            LOG_TEXT("variable", variable));
    }
    warn_files(config);
}

enum rc
config_load(struct config *ret_config, const char *path, int argc, char **argv,
            char error[CONFIG_ERROR_MAX])
{
    struct config_load load = {.config = ret_config, .error = error};
    enum rc rc;

    memset(ret_config, 0, sizeof *ret_config);
    ret_config->path = path;
    error[0] = '\0';
    rc = load_defaults(&load);
    if (rc == RC_OK)
        rc = load_file(&load);
    load_environment(&load);
    load_arguments(&load, argc, argv);
    if (rc != RC_OK)
        return RC_BAD; /* without the file, each of its settings would be reported as missing */
    rc = config_rules(&load);
    mark_secrets(&load);
    return load.has_failed ? RC_BAD : rc;
}

static void
text_wipe(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
}

void
config_free(struct config *config)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_is_text(config_keys[i].type))
            text_wipe(*(char **)((char *)config + config_keys[i].offset));
    config->issuer = (struct config_issuer){.name = NULL}; /* its strings were freed above */
    config_issuers_free(config);
    text_wipe(config->store.sentinel_password);
    for (size_t i = 0; i < CONFIG_VAPID_KEYS_MAX; i++) {
        free(config->webpush.key_files[i]);
        text_wipe(config->webpush.keys[i]);
    }
    if (config->auth.key != NULL)
        explicit_bzero(config->auth.key, config->auth.key_len);
    free(config->auth.key);
    if (config->auth.previous != NULL)
        explicit_bzero(config->auth.previous, config->auth.previous_len);
    free(config->auth.previous);
    memset(config, 0, sizeof *config);
}
