/* config_rules.c: checks dependencies between settings, and the files that they name. */
#include <stdlib.h>
#include <string.h>

#include "base/config_private.h"
#include "base/urls.h"
#include "base/memory.h"

#define CLUSTER_SHARDS 16       /* default of [store] shards with redis+cluster:// */
#define FAILOVER_MIN_REPLICAS 1 /* default of [store] min_replicas if failovers are automatic */

static size_t
number_of_key(const char *section, const char *name)
{
    return (size_t)(config_key_find(section, name) - config_keys);
}

static enum rc
check_certificate(struct config_load *load, const char *section, const char *cert, const char *key)
{
    char where[CONFIG_WHERE_MAX];

    if ((cert == NULL) != (key == NULL)) {
        config_where(load->config, section, cert != NULL ? "tls_cert" : "tls_key", where);
        return config_fail(load, "missing setting [%s] %s: required by %s", section,
                           cert != NULL ? "tls_key" : "tls_cert", where);
    }
    if (config_check_readable(load, section, "tls_cert", cert) != RC_OK)
        return RC_BAD;
    return config_check_readable(load, section, "tls_key", key);
}

static enum rc
check_tls(struct config_load *load)
{
    const struct config *config = load->config;
    bool is_gate =
        (config->relay.roles & CONFIG_ROLE_GATE) != 0 || config->gate.admin_listen != NULL;

    /* A command that uses only the store may run without read access to the gate's key. */
    if (is_gate &&
        check_certificate(load, "gate", config->gate.tls_cert, config->gate.tls_key) != RC_OK)
        return RC_BAD;
    if (check_certificate(load, "store", config->store.tls_cert, config->store.tls_key) != RC_OK)
        return RC_BAD;
    return config_check_readable(load, "store", "tls_ca", config->store.tls_ca);
}

static enum rc
check_backoff(struct config_load *load)
{
    char where[CONFIG_WHERE_MAX];

    if (load->config->delivery.backoff_cap_ms >= load->config->delivery.backoff_base_ms)
        return RC_OK;
    config_where(load->config, "delivery", "backoff_cap", where);
    return config_fail(load, "%s must not be less than [delivery] backoff_base", where);
}

static bool
is_default(const struct config *config, const char *section, const char *key)
{
    return config->origins[number_of_key(section, key)].from == ORIGIN_DEFAULT;
}

/*
 * A cluster distributes the shards over its primaries, and the number of shards is fixed once it
 * has data. If a failover is possible, PostgreSQL must retain the WAL of changes that no replica
 * has stored: a primary may reply and then hang, or be disconnected from its replicas but not from
 * this relay.
 */
static void
set_defaults_of_several_servers(struct config *config)
{
    enum urls_kind kind = urls_kind(config->store.url);

    if (kind == URLS_CLUSTER && is_default(config, "store", "shards"))
        config->store.shards = CLUSTER_SHARDS;
    if (kind != URLS_SINGLE && is_default(config, "store", "min_replicas"))
        config->store.min_replicas = FAILOVER_MIN_REPLICAS;
}

static enum rc
check_sentinel(struct config_load *load)
{
    struct config *config = load->config;
    const char *user = config->store.sentinel_user, *path = config->store.sentinel_password_file;
    const char *name = user != NULL ? "sentinel_user" : "sentinel_password_file";
    char where[CONFIG_WHERE_MAX];

    if (user == NULL && path == NULL)
        return RC_OK;
    config_where(config, "store", name, where);
    if (urls_kind(config->store.url) != URLS_SENTINEL)
        return config_fail(load, "%s requires [store] url = redis+sentinel://..", where);
    if (path == NULL)
        return config_fail(load, "missing setting [store] sentinel_password_file: required by %s",
                           where);
    return config_load_sentinel_password(load, path);
}

static enum rc
check_admin_listen(struct config_load *load)
{
    const struct config *config = load->config;
    char where[CONFIG_WHERE_MAX];

    if (config->gate.admin_listen == NULL ||
        strcmp(config->gate.admin_listen, config->gate.listen) != 0)
        return RC_OK;
    config_where(load->config, "gate", "admin_listen", where);
    return config_fail(load, "%s must differ from [gate] listen", where);
}

/* If the passfile cannot be read, libpq reports only that a password is missing. */
static enum rc
check_passfile(struct config_load *load, const char *section, const char *name,
               const char *conninfo)
{
    char *path = conninfo != NULL ? conninfo_passfile(conninfo) : NULL;
    enum rc rc = config_check_readable(load, section, name, path);

    free(path);
    return rc;
}

static bool
is_sql_sink(const struct config *config)
{
    return config->receipts.sql && (config->relay.roles & CONFIG_ROLE_SINK) != 0;
}

static enum rc
check_passfiles(struct config_load *load)
{
    const struct config *config = load->config;
    enum rc rc = RC_OK;

    if ((config->relay.roles & CONFIG_ROLE_GATE) != 0)
        rc = check_passfile(load, "rows", "conninfo", config->rows.conninfo);
    if (is_sql_sink(config) &&
        check_passfile(load, "receipts", "conninfo", config->receipts.conninfo) != RC_OK)
        rc = RC_BAD;
    if ((config->relay.roles & CONFIG_ROLE_FEED) == 0)
        return rc;
    if (check_passfile(load, "feed", "conninfo", config->feed.conninfo) != RC_OK)
        rc = RC_BAD;
    if (check_passfile(load, "feed", "primary_conninfo", config->feed.primary_conninfo) != RC_OK)
        rc = RC_BAD;
    return rc;
}

static enum rc
check_feed(struct config_load *load)
{
    const struct config *config = load->config;

    if ((config->relay.roles & CONFIG_ROLE_FEED) == 0 || config->feed.conninfo != NULL)
        return RC_OK;
    if (config_is_invalid(load, "feed", "conninfo"))
        return RC_OK; /* already reported */
    return config_fail_missing(load, "[feed] conninfo: required to connect to PostgreSQL, such as "
                                     "host=/run/postgresql dbname=app user=clairon");
}

static enum rc
check_receipts(struct config_load *load)
{
    const struct config *config = load->config;

    if (!is_sql_sink(config) || config->receipts.conninfo != NULL ||
        config->feed.primary_conninfo != NULL || config->feed.conninfo != NULL)
        return RC_OK;
    if (config_is_invalid(load, "receipts", "conninfo") ||
        config_is_invalid(load, "feed", "conninfo") ||
        config_is_invalid(load, "feed", "primary_conninfo"))
        return RC_OK; /* already reported */
    return config_fail_missing(load,
                               "[receipts] conninfo: required by [receipts] sql, to connect to the "
                               "primary");
}

/* The files belong to the role, so that commands may run without read access to them. */
static enum rc
check_webhook(struct config_load *load)
{
    const struct config *config = load->config;
    bool has_url = config->webhook.url != NULL;
    char where[CONFIG_WHERE_MAX];

    if (config_is_invalid(load, "webhook", "url") ||
        config_is_invalid(load, "webhook", "secret_file"))
        return RC_OK; /* already reported */
    if (has_url != (config->webhook.secret_file != NULL)) {
        config_where(config, "webhook", has_url ? "url" : "secret_file", where);
        return config_fail(load, "missing setting [webhook] %s: required by %s",
                           has_url ? "secret_file" : "url", where);
    }
    if (!has_url)
        return RC_OK;
    if (strncmp(config->webhook.url, "http://", 7) == 0 && !config->webhook.allow_private) {
        config_where(config, "webhook", "url", where);
        return config_fail(load, "%s must start with https://, or set [webhook] allow_private",
                           where);
    }
    if ((config->relay.roles & CONFIG_ROLE_SINK) == 0)
        return RC_OK;
    if (config_check_readable(load, "webhook", "ca_file", config->webhook.ca_file) != RC_OK)
        return RC_BAD;
    return config_check_readable(load, "webhook", "secret_file", config->webhook.secret_file);
}

/* Runs every check, so that one run reports all errors. */
enum rc
config_rules(struct config_load *load)
{
    static enum rc (*const CHECKS[])(struct config_load *) = {
        check_feed,           check_passfiles,      check_admin_listen,
        check_sentinel,       check_backoff,        check_tls,
        config_check_auth,    check_receipts,       check_webhook,
        config_check_webpush, config_check_issuers,
    };
    struct config *config = load->config;
    enum rc rc = RC_OK;

    config->gate.max_per_address_is_set = !is_default(config, "gate", "max_per_address");
    config->gate.connect_rate_is_set = !is_default(config, "gate", "connect_rate");
    config->gate.request_rate_is_set = !is_default(config, "gate", "request_rate");
    set_defaults_of_several_servers(config);
    if (config_is_invalid(load, "relay", "roles"))
        config->relay.roles = 0; /* the roles determine the required settings */
    for (size_t i = 0; i < sizeof CHECKS / sizeof CHECKS[0]; i++)
        if (CHECKS[i](load) != RC_OK)
            rc = RC_BAD;
    return rc;
}
