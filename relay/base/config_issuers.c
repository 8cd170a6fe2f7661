/* config_issuers.c: the sections [issuer NAME], JWK Sets, and the settings of claims. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_private.h"
#include "base/memory.h"

#define JWKS_FILE_MAX ((size_t)256 * 1024)
#define ISSUER_NAME_MAX 60

#define WORD_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"

/* ---- sections */

static void
text_free(char **text)
{
    free(*text);
    *text = NULL;
}

static void
issuer_free(struct config_issuer *issuer)
{
    char **const texts[] = {&issuer->name,
                            &issuer->claims.issuer,
                            &issuer->claims.audience,
                            &issuer->claims.audience_claim,
                            &issuer->claims.required,
                            &issuer->claims.user_claim,
                            &issuer->claims.groups_claim,
                            &issuer->jwks.file,
                            &issuer->jwks.url,
                            &issuer->user_prefix};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        text_free(texts[i]);
    config_jwks_free(&issuer->jwks);
}

void
config_jwks_free(struct config_jwks *jwks)
{
    if (jwks->text != NULL)
        explicit_bzero(jwks->text, jwks->len);
    text_free(&jwks->text);
    jwks->len = 0;
}

void
config_issuers_free(struct config *config)
{
    config_jwks_free(&config->auth.jwks);
    issuer_free(&config->issuer);
    for (size_t i = 0; i < config->issuer_count; i++)
        issuer_free(&config->issuers[i]);
}

enum rc
config_issuer_begin(struct config_load *load, const char *where, const char *name, unsigned line)
{
    struct config *config = load->config;
    size_t len = strlen(name);

    if (len == 0 || len > ISSUER_NAME_MAX || strspn(name, WORD_LETTERS "0123456789-.") != len)
        return config_fail(load,
                           "%s: a section of an issuer must be [issuer NAME], with a NAME of 1 to "
                           "%d letters, digits and _-.",
                           where, ISSUER_NAME_MAX);
    for (size_t i = 0; i < config->issuer_count; i++)
        if (strcmp(config->issuers[i].name, name) == 0)
            return config_fail(load, "%s: [issuer %s] is already on line %u: keep one", where, name,
                               config->issuers[i].line);
    if (config->issuer_count == CONFIG_ISSUERS_MAX)
        return config_fail(load, "%s: at most %d sections of issuers are supported", where,
                           CONFIG_ISSUERS_MAX);
    config->issuer.name = memory_text(name, len);
    config->issuer.line = line;
    return RC_OK;
}

void
config_issuer_end(struct config_load *load)
{
    struct config *config = load->config;

    if (config->issuer.name != NULL)
        config->issuers[config->issuer_count++] = config->issuer;
    config->issuer = (struct config_issuer){.name = NULL};
    for (size_t i = 0; i < config_key_count; i++)
        if (config_is_issuer_key(&config_keys[i]))
            config->origins[i] = (struct config_origin){.from = ORIGIN_DEFAULT};
}

/* ---- checks, and files */

bool
config_fetches_keys(const struct config *config)
{
    bool is_found = config->auth.jwks.url != NULL;

    for (size_t i = 0; i < config->issuer_count; i++)
        is_found |= config->issuers[i].jwks.url != NULL;
    return is_found;
}

/* "relay.conf:7: [issuer NAME]", or the setting of [auth]. */
static void
jwks_where(const struct config *config, const struct config_issuer *issuer, const char *name,
           char where[CONFIG_WHERE_MAX])
{
    if (issuer == NULL)
        config_where(config, "auth", name, where);
    else
        (void)snprintf(where, CONFIG_WHERE_MAX, "%.384s:%u: [issuer %s] %s", config->path,
                       issuer->line, issuer->name, name);
}

/* Replaces the content by that of the file. `issuer` NULL: [auth]. */
static enum rc
read_jwks(struct config_load *load, const struct config_issuer *issuer, struct config_jwks *jwks)
{
    char where[CONFIG_WHERE_MAX], folder[CONFIG_FOLDER_MAX], *text;
    const char *reason;
    size_t len;

    if (jwks->file == NULL)
        return RC_OK;
    reason = config_file_read(jwks->file, JWKS_FILE_MAX, &text, &len);
    jwks_where(load->config, issuer, "jwks_file", where);
    if (reason != NULL)
        return config_fail(load, "%s: could not read \"%.256s\"%s: %s", where, jwks->file,
                           config_folder(jwks->file, folder), reason);
    config_jwks_free(jwks);
    jwks->text = text;
    jwks->len = len;
    return RC_OK;
}

static enum rc
check_url(struct config_load *load, const struct config_issuer *issuer,
          const struct config_jwks *jwks)
{
    char where[CONFIG_WHERE_MAX];

    if (jwks->url == NULL || strncmp(jwks->url, "http://", 7) != 0 ||
        load->config->auth.jwks_allow_private)
        return RC_OK;
    jwks_where(load->config, issuer, "jwks_url", where);
    return config_fail(load, "%s must start with https://, or set [auth] jwks_allow_private",
                       where);
}

static enum rc
check_issuer(struct config_load *load, struct config_issuer *issuer, bool reads_files)
{
    const char *name = issuer->claims.issuer == NULL ? "issuer" : "jwks_file or jwks_url";
    bool has_keys = issuer->jwks.file != NULL || issuer->jwks.url != NULL;
    char where[CONFIG_WHERE_MAX];

    jwks_where(load->config, issuer, "", where);
    if (issuer->claims.issuer == NULL || !has_keys)
        return load->has_failed ? RC_BAD /* perhaps by this setting */
                                : config_fail(load, "%smissing setting %s", where, name);
    for (const struct config_issuer *other = load->config->issuers; other != issuer; other++)
        if (strcmp(other->claims.issuer, issuer->claims.issuer) == 0)
            return config_fail(load, "%sissuer is also that of [issuer %s]", where, other->name);
    if (check_url(load, issuer, &issuer->jwks) != RC_OK)
        return RC_BAD;
    return reads_files ? read_jwks(load, issuer, &issuer->jwks) : RC_OK;
}

enum rc
config_check_issuers(struct config_load *load)
{
    struct config *config = load->config;
    bool reads_files = (config->relay.roles & CONFIG_ROLE_GATE) != 0;
    enum rc rc = check_url(load, NULL, &config->auth.jwks);

    if (reads_files && read_jwks(load, NULL, &config->auth.jwks) != RC_OK)
        rc = RC_BAD;
    if (reads_files &&
        config_check_readable(load, "auth", "jwks_ca", config->auth.jwks_ca) != RC_OK)
        rc = RC_BAD;
    for (size_t i = 0; i < config->issuer_count && rc == RC_OK; i++)
        rc = check_issuer(load, &config->issuers[i], reads_files);
    return rc;
}

bool
config_reload_jwks(struct config *config, char error[CONFIG_ERROR_MAX])
{
    struct config_load load = {.config = config, .error = error};
    enum rc rc;

    error[0] = '\0';
    rc = read_jwks(&load, NULL, &config->auth.jwks);
    for (size_t i = 0; i < config->issuer_count; i++)
        if (read_jwks(&load, &config->issuers[i], &config->issuers[i].jwks) != RC_OK)
            rc = RC_BAD;
    return rc == RC_OK;
}
