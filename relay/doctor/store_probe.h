/* store_probe.h: the checks of one store server. */
#ifndef CLAIRON_DOCTOR_STORE_PROBE_H
#define CLAIRON_DOCTOR_STORE_PROBE_H

#include "base/config.h"
#include "base/urls.h"
#include "doctor/findings.h"
#include "store/connection/url.h"
#include "store/connection/probe.h"
#include "store/scripts/keys.h"
#include "store/servers/slots.h"

#define STORE "store"
#define VALUE_MAX 256
#define DOCTOR_TIMEOUT_S 10
#define STORE_QUERY_TIMEOUT_S 3 /* timeout per sentinel or node in [store] url */

struct store_probe {
    const struct config *config;
    struct findings *findings;
    struct probe *node;
    char *info;                 /* all of INFO */
    char where[URL_FORMAT_MAX]; /* "host:port: " with several servers, otherwise "" */
    char key[STORE_KEY_MAX];    /* KEY_DOCTOR */
    bool is_replica;            /* the server may be a replica */
    const char *lost_hint;      /* if not NULL, a server that does not reply is only a warning */
};

/*
 * Returns a server listed in store.url, by number: the single server, a node, or a sentinel with
 * the sentinels' password. Returns false if the number is invalid.
 */
bool store_named_address(const struct config *config, unsigned number, struct url *ret_address);
/*
 * Returns a node or a replica, with the credentials of store.url. Returns false if the address is
 * invalid.
 */
bool store_node_address(const struct config *config, const struct slots_node *node,
                        struct url *ret_address);

/*
 * Connects and reads INFO. Returns false after adding a finding. The caller closes the probe in
 * both cases.
 */
bool store_probe_open(struct store_probe *probe, const struct url *address);
void store_probe_close(struct store_probe *probe);

void store_probe_check(struct store_probe *probe);
bool store_probe_is_primary(const struct store_probe *probe);
/* Checks that a primary has enough replicas. */
void store_probe_check_replicas(const struct store_probe *probe);

/* Calls findings_add with probe->where in front of the detail. */
void store_probe_report(const struct store_probe *probe, const char *check, bool ok,
                        const char *hint, const char *format, ...) PRINTF_LIKE(5, 6);
/* Returns a hint, or "" for an unknown error. */
const char *store_probe_hint(const char *error);

/* Returns the value of an INFO field; "" or 0 if the server does not report it. */
void store_probe_info(const struct store_probe *probe, const char *name, char ret_value[VALUE_MAX]);
long long store_probe_number(const struct store_probe *probe, const char *name);
/* Returns false, and the value "", if CONFIG is not permitted or the setting is unknown. */
bool store_probe_setting(struct store_probe *probe, const char *name, char ret_value[VALUE_MAX]);

#endif
